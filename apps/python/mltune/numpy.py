"""State of NumPy programs: a dictionary of arrays, and what steps it.

    params = {"w": np.zeros((784, 10)), "b": np.zeros(10)}
    step = mltune.numpy.SGD(params, learning_rate=0.1, momentum=0.9)
    run = mltune.numpy.Run(params, step, samples=len(x))
    for batch in run.train():
        loss, gradients = ...
        step(gradients)
        batch.loss(loss)

Arrays keep their places: a switch of branches writes values into them, so write
into them as well (`w -= ...`). Other dictionaries of arrays can be given to
mltune.Run as they are; what an optimizer here adds is that learning_rate,
momentum and weight_decay act by themselves, and that a probe learns nothing.
"""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from . import _files
from . import run as _run

Arrays = Dict[str, Any]


class Optimizer:
    """Steps @params by gradients of the same names.

    state     arrays that belong to the branch
    values    tunables that act, by name
    learns    False: a step does nothing, for the loss is only measured
    """

    def __init__(self, params: Arrays, **values: float) -> None:
        self.params = params
        self.values = values
        self.state: Arrays = {}
        self.learns = True

    def __call__(self, gradients: Mapping[str, Any]) -> None:
        """One step. A gradient of each array, of its shape."""
        if set(gradients) != set(self.params):
            raise KeyError(f"gradients of {sorted(gradients)}, expected of "
                           f"{sorted(self.params)}")
        if self.learns:
            for name, p in self.params.items():
                self._step(name, p, gradients[name] +
                           self.values["weight_decay"] * p)
        self._count()

    def _step(self, name: str, p: Any, g: Any) -> None:
        raise NotImplementedError

    def _count(self) -> None:
        """A step of all arrays is over."""


class SGD(Optimizer):
    """v = momentum v + g; p -= learning_rate v. As PyTorch's."""

    def __init__(self, params: Arrays, learning_rate: float = 0.01,
                 momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        super().__init__(params, learning_rate=learning_rate,
                         momentum=momentum, weight_decay=weight_decay)
        self.state = {name: np.zeros_like(p) for name, p in params.items()}

    def _step(self, name: str, p: Any, g: Any) -> None:
        v = self.state[name]
        v *= self.values["momentum"]
        v += g
        p -= self.values["learning_rate"] * v


class Adam(Optimizer):
    """Kingma and Ba 2015, algorithm 1; momentum is its beta 1."""

    def __init__(self, params: Arrays, learning_rate: float = 0.001,
                 momentum: float = 0.9, weight_decay: float = 0.0,
                 beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        super().__init__(params, learning_rate=learning_rate,
                         momentum=momentum, weight_decay=weight_decay)
        self.beta2, self.epsilon = beta2, epsilon
        for name, p in params.items():
            self.state["m." + name] = np.zeros_like(p)
            self.state["v." + name] = np.zeros_like(p)
        # The products of the betas so far, which may change on the way.
        self.state["beta"] = np.ones(2)

    def __call__(self, gradients: Mapping[str, Any]) -> None:
        if self.learns:
            self.state["beta"] *= (self.values["momentum"], self.beta2)
        super().__call__(gradients)

    def _step(self, name: str, p: Any, g: Any) -> None:
        beta1, m, v = (self.values["momentum"], self.state["m." + name],
                       self.state["v." + name])
        left = 1 - self.state["beta"]
        m *= beta1
        m += (1 - beta1) * g
        v *= self.beta2
        v += (1 - self.beta2) * g * g
        p -= self.values["learning_rate"] * (m / left[0]) / (
            np.sqrt(v / left[1]) + self.epsilon)


class Frame:
    """What a run does about an optimizer of ours beside its state."""

    def __init__(self, params: Arrays, optimizer: Optional[Optimizer]) -> None:
        self._params, self._optimizer = params, optimizer

    def add(self, name: str, x: Any) -> None:
        """@x has been registered."""

    def prepare(self, order: Any, keep_gradients: Optional[bool]) -> None:
        """All is registered, the loop begins."""

    def gradient_bytes(self) -> int:
        """One of the size of each array."""
        return sum(int(x.nbytes) for x in self._params.values())

    def tunables(self) -> Dict[str, float]:
        """Those that act, with the optimizer's own values."""
        return dict(self._optimizer.values) if self._optimizer else {}

    def begin(self, kind: str, setting: Dict[str, Any],
              held: Dict[str, Any]) -> Dict[str, Any]:
        """Makes the optimizer act by @setting; in a probe it learns nothing.
        """
        step = self._optimizer
        if step is not None:
            step.learns = kind != "probe"
            for name in step.values:
                if setting.get(name) is not None:
                    step.values[name] = float(setting[name])
        return held

    def end(self, kind: str) -> None:
        """The slice has ended."""
        if self._optimizer is not None:
            self._optimizer.learns = True

    def begin_test(self) -> None:
        """Validation begins."""

    def end_test(self) -> None:
        """Validation has ended."""

    def save(self, path: str) -> List[Tuple[str, int]]:
        """The arrays as model.npz."""
        size = _files.write_file(f"{path}/model.npz",
                                 lambda f: np.savez(f, **self._params))
        return [("model.npz", size)]


class Run(_run.Run):
    """mltune.Run whose model is a dictionary of arrays, saved as model.npz."""

    def __init__(self, params: Arrays, optimizer: Optional[Optimizer] = None,
                 *state: Any, **options: Any) -> None:
        if not isinstance(params, dict):
            raise TypeError("params: a dictionary of arrays by name")
        super().__init__(*state, **options)
        if self.config.nodes > 1:
            raise ValueError("mltune.numpy trains in one process: "
                             "/cluster/nodes must be 1")
        self.register("params", params)
        if optimizer is not None:
            self.register("optimizer", optimizer.state)
        self._frames.append(Frame(params, optimizer))
