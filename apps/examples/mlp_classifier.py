"""scikit-learn's MLPClassifier on a csv whose last column is the class, with a
loop of its own and a further metric.

    python3 mlp_classifier.py          mltune run mlp_classifier.json
"""
import numpy as np
import samples
from sklearn.metrics import f1_score
from sklearn.neural_network import MLPClassifier

import mltune
import mltune.sklearn

cfg = mltune.config(data="", units=32)
x, y = samples.table(cfg.data)
split = len(x) * 8 // 10
vx, vy = x[split:], y[split:]
model = MLPClassifier((cfg.units,), solver="sgd", momentum=0.9)
run = mltune.sklearn.Run(model, samples=split, classes=np.unique(y),
                         validation_samples=len(vx))


@run.validate(metric="accuracy")
def scores():
    return {"accuracy": run.score(vx, vy),
            "f1": f1_score(vy, model.predict(vx), average="macro")}


for batch in run.train():
    at = np.asarray(batch.samples)
    batch.loss(run.step(batch, x[at], y[at]))
