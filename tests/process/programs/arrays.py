"""Linear regression in NumPy that tests train: the optimizer says `kind`."""
import numpy as np

import mltune
import mltune.numpy

cfg = mltune.config(kind="SGD")
r = np.random.RandomState(1)
x = r.randn(300, 6)
y = x @ r.randn(6) + 1
params = {"w": np.zeros(6), "b": np.zeros(1)}
step = getattr(mltune.numpy, cfg.kind)(params)
run = mltune.numpy.Run(params, step, samples=200, validation_samples=100,
                       batch_size=10, epochs=3, loss_floor=0)


def errors(rows):
    return x[rows] @ params["w"] + params["b"] - y[rows]


@run.validate(metric="rmse", reduction="sqrt_mean")
def test():
    return (errors(np.arange(200, 300)) ** 2).sum(), 100


for batch in run.train():
    e = errors(batch.samples)
    batch.loss((e ** 2).mean())
    e *= 2 / len(e)
    step({"w": e @ x[batch.samples], "b": e.sum(keepdims=True)})
