"""Nets of skorch: a clock is one `train_step`.

    mltune.config()
    net = NeuralNetClassifier(Net, optimizer=torch.optim.SGD, lr=0.05,
                              batch_size=64)
    mltune.skorch.train(net, x, y, validation=(vx, vy))

or, with a loop of one's own:

    run = mltune.skorch.Run(net, samples=len(x), validation_samples=len(vx))
    run.validate(lambda: run.score(vx, vy), metric="accuracy")
    for batch in run.train():
        batch.loss(run.step(batch, x[batch.samples], y[batch.samples]))

The net's modules, criteria and optimizers are the branch's state. Callbacks that
act on gradients are called (GradientNormClipping); those of batches and epochs
are not, since a branch's epochs are no epochs of the net. Tunables are those of
every PyTorch program; for others register a function with `run.apply`.
"""
from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import numpy as np
import skorch
import torch

from . import run as _run

Score = Callable[[Any, Any, Any], Any]


def is_classifier(net: Any) -> bool:
    """Whether @net predicts classes."""
    return isinstance(net, (skorch.NeuralNetClassifier,
                            skorch.NeuralNetBinaryClassifier))


def rows(x: Any, at: Any) -> Any:
    """Rows @at, a tensor of numbers, of an array or a tensor."""
    return x[at] if isinstance(x, torch.Tensor) else x[np.asarray(at)]


class Run(_run.Run):
    """A run of @net, which is initialized here unless it was: after
    mltune.config(), so that its first weights follow the run's seed.
    @options: those of mltune.Run."""

    def __init__(self, net: Any, *, samples: Any, **options: Any) -> None:
        if not net.initialized_:
            net.initialize()
        self.net = net
        options.setdefault("batch_size", net.batch_size if net.batch_size > 0
                           else _run._count(samples, "samples"))  # -1: all
        super().__init__(samples=samples, **options)
        for name in [*net._modules, *net._criteria, *net._optimizers]:
            part = getattr(net, name + "_")
            if not isinstance(part, torch.nn.Module) or part.state_dict():
                self.register(name, part)

    def step(self, batch: Any, x: Any, y: Any) -> Any:
        """Trains on @x, @y; returns the loss before the step. A probe learns
        nothing."""
        del batch
        return self.net.train_step((x, y))["loss"]

    def score(self, x: Any, y: Any) -> Tuple[Any, int]:
        """Hits of a classifier, or squared errors, over all rows; and how many
        rows there are."""
        truth = np.asarray(y)
        found = self.net.predict(x).reshape(truth.shape)
        if is_classifier(self.net):
            return (found == truth).sum(), len(truth)
        return ((found - truth) ** 2).mean(axis=tuple(
            range(1, truth.ndim))).sum(), len(truth)


def train(net: Any, x: Any, y: Any, *,
          validation: Optional[Tuple[Any, Any]] = None,
          score: Optional[Score] = None, metric: Optional[str] = None,
          better: Optional[str] = None, reduction: Optional[str] = None,
          **options: Any) -> Run:
    """Trains @net on the arrays or tensors @x, @y, as the tuner says or, alone,
    for `epochs`.

    validation  (x, y): tested on, by @score(net, x, y) or, if that is not
                said, the share of hits of a classifier, the root of the mean
                squared error of anything else
    metric, better, reduction  of the score: as for Run.validate
    options     of mltune.Run: epochs, batch_size, ...
    """
    run = Run(net, samples=len(x), validation_samples=len(validation[0])
              if validation else 0, **options)
    if validation:
        vx, vy = validation
        if score is None:
            hits = is_classifier(net)
            run.validate(lambda: run.score(vx, vy),
                         metric=metric or ("accuracy" if hits else "rmse"),
                         better=better, reduction=reduction or
                         ("mean" if hits else "sqrt_mean"))
        else:
            run.validate(lambda: score(net, vx, vy), metric=metric,
                         better=better, reduction=reduction or "mean")
    for batch in run.train():
        batch.loss(run.step(batch, rows(x, batch.samples),
                            rows(y, batch.samples)))
    return run
