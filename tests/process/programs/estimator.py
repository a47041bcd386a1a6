"""An estimator of scikit-learn that tests train: which one, says `kind`."""
import numpy as np
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier, MLPRegressor

import mltune
import mltune.sklearn

MADE = {
    "logistic": lambda: SGDClassifier(loss="log_loss"),
    "hinge": lambda: SGDClassifier(penalty="l1", random_state=3),
    "average": lambda: SGDClassifier(loss="log_loss", average=True),
    "regressor": SGDRegressor,
    "perceptron": Perceptron,
    "adam": lambda: MLPClassifier((16,)),
    "sgd": lambda: MLPRegressor((16,), solver="sgd",
                                random_state=np.random.RandomState(4)),
    "bayes": MultinomialNB,
    "lbfgs": lambda: MLPClassifier(solver="lbfgs"),
}

cfg = mltune.config(kind="logistic", words=False)
r = np.random.RandomState(1)
x = r.rand(400, 8)
value = x @ r.randn(8)
label = (value > np.median(value)).astype(int) + (value > value.mean() + 1)
if cfg.words:
    label = np.array(["no", "yes", "very"], dtype=object)[label]
estimator = MADE[cfg.kind]()
y = value if cfg.kind in ("regressor", "sgd") else label
mltune.sklearn.train(estimator, x[:300], y[:300],
                     validation=(x[300:], y[300:]), batch_size=16, epochs=3,
                     sample_weight=np.ones(300) if cfg.kind == "logistic"
                     else None)
