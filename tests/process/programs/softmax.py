"""Softmax regression in numpy on numbers drawn by the run's seed: quick to start,
with noise of its own (dropout of inputs), momentum as state."""
import numpy

import mltune

config = mltune.config()
data = numpy.random.RandomState(5)
truth = data.randn(12, 4)
x = data.randn(400, 12)
y = (x @ truth + data.randn(400, 4)).argmax(1)

state = {"w": numpy.zeros((12, 4)), "v": numpy.zeros((12, 4))}
run = mltune.Run(state, samples=300, validation_samples=100)


def chances(inputs):
    e = numpy.exp(inputs @ state["w"] - (inputs @ state["w"]).max(1)[:, None])
    return e / e.sum(1)[:, None]


@run.validate
def accuracy():
    return (chances(x[300:]).argmax(1) == y[300:]).sum(), 100


for batch in run.train():
    i = batch.samples
    seen = x[i] * (numpy.random.rand(len(i), 12) > 0.1)
    p = chances(seen)
    batch.loss(-numpy.log(p[numpy.arange(len(i)), y[i]]).mean())
    p[numpy.arange(len(i)), y[i]] -= 1
    state["v"] *= 0.9
    state["v"] += seen.T @ p / len(i)
    state["w"] -= run.tunable("learning_rate", 0.1) * state["v"]
