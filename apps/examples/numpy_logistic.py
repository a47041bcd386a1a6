"""Logistic regression in NumPy alone, of as many classes as the last column of a
csv has.

    python3 numpy_logistic.py          mltune run numpy_logistic.json
"""
import numpy as np
import samples

import mltune
import mltune.numpy

cfg = mltune.config(data="")
x, label = samples.table(cfg.data)
classes, y = np.unique(label, return_inverse=True)
split = len(x) * 8 // 10
params = {"w": np.zeros((x.shape[1], len(classes))),
          "b": np.zeros(len(classes))}
step = mltune.numpy.SGD(params, learning_rate=0.1, momentum=0.9)
run = mltune.numpy.Run(params, step, samples=split, loss_floor=0,
                       validation_samples=len(x) - split)


def chances(rows):
    score = rows @ params["w"] + params["b"]
    e = np.exp(score - score.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@run.validate
def accuracy():
    return (chances(x[split:]).argmax(1) == y[split:]).sum(), len(x) - split


for batch in run.train():
    at = np.asarray(batch.samples)
    p, rows = chances(x[at]), np.arange(len(at))
    batch.loss(-np.log(p[rows, y[at]] + 1e-12).mean())
    p[rows, y[at]] -= 1
    p /= len(at)
    step({"w": x[at].T @ p, "b": p.sum(0)})
