"""scikit-learn's SGDClassifier on a csv whose last column is the class.

    python3 sgd_classifier.py          mltune run sgd_classifier.json
"""
import samples
from sklearn.linear_model import SGDClassifier

import mltune
import mltune.sklearn

cfg = mltune.config(data="", loss="log_loss")
x, y = samples.table(cfg.data)
split = len(x) * 8 // 10
mltune.sklearn.train(SGDClassifier(loss=cfg.loss), x[:split], y[:split],
                     validation=(x[split:], y[split:]))
