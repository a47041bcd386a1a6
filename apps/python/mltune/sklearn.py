"""Estimators of scikit-learn that have `partial_fit`: SGDClassifier,
MLPRegressor, and others.

    mltune.config()
    model = SGDClassifier(loss="log_loss")
    mltune.sklearn.train(model, x, y, validation=(vx, vy))

or, with a loop of one's own:

    run = mltune.sklearn.Run(model, samples=len(x), classes=np.unique(y),
                             validation_samples=len(vx))
    run.validate(lambda: run.score(vx, vy), metric="accuracy")
    for batch in run.train():
        batch.loss(run.step(batch, x[batch.samples], y[batch.samples]))

A clock is one call of `partial_fit`. Its loss is measured before the step: log
loss where the estimator gives probabilities, hinge loss where it only decides,
mean squared error of a regressor.

Tunables that act: `learning_rate` (eta0 or learning_rate_init, the schedule
made constant: the schedule is what mltune finds), `momentum` of a multi-layer
perceptron, `batch_size`, and any number or word among the estimator's
parameters that the configuration lists by its name (alpha, l1_ratio, penalty).
"""
from __future__ import annotations

import importlib
import math
import pickle
import re
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from . import _files
from . import run as _run
from ._state import PLAIN, StateError, TreeHolder

Loss = Callable[[Any, Any, Any], float]

_RATES = ("eta0", "learning_rate_init")
_LEAST = 1e-15  # a probability
# What estimators say of steps that were too long.
_DIVERGED = re.compile(r"overflow|non-finite|infinity|NaN", re.I)


# ---- state ---------------------------------------------------------------

def _class_of(path: str) -> Any:
    """A class of scikit-learn by its name, as files have it."""
    module, _, name = path.partition(":")
    if module.split(".")[0] != "sklearn":
        raise StateError(f"{path} is no class of scikit-learn")
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, type):
        raise StateError(f"{path} is no class of scikit-learn")
    return found


def _path_of(x: Any) -> str:
    return f"{type(x).__module__}:{type(x).__qualname__}"


def _is_sklearns(x: Any) -> bool:
    return type(x).__module__.split(".")[0] == "sklearn"


class _Packer:
    """Objects as trees of containers, plain values and arrays. An array that
    stands in several places is one array afterwards, too."""

    def __init__(self) -> None:
        self._seen: Dict[int, int] = {}
        self._hold: List[Any] = []  # ids are theirs while they live

    def pack(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return self._array(x)
        if isinstance(x, PLAIN) or isinstance(x, np.generic):
            return x
        if type(x) is dict:
            return {"!dict": [(self.pack(k), self.pack(v))
                              for k, v in x.items()]}
        if type(x) in (list, tuple):
            return type(x)(self.pack(v) for v in x)
        if isinstance(x, np.random.RandomState):
            return {"!random": None if x is np.random.mtrand._rand
                    else x.get_state()}
        if _is_sklearns(x) and hasattr(x, "__dict__"):
            return {"!object": _path_of(x), "state": self.pack(dict(vars(x)))}
        if _is_sklearns(x):
            return self._reduced(x)
        return x  # copied with the branch, left out of files

    def _array(self, x: Any) -> Any:
        if x.dtype.hasobject:
            return {"!objects": x.tolist()}
        if id(x) in self._seen:
            return {"!same": self._seen[id(x)]}
        self._seen[id(x)] = len(self._seen)
        self._hold.append(x)
        # Of another array's memory two pages would be one.
        return x.copy() if x.base is not None else x

    def _reduced(self, x: Any) -> Any:
        made = x.__reduce__()
        if isinstance(made, tuple) and made[0] is type(x) and \
                not any(made[2:]):
            return {"!reduce": _path_of(x), "state": self.pack(made[1])}
        return x


class _Unpacker:
    def __init__(self) -> None:
        self._arrays: List[Any] = []

    def unpack(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            self._arrays.append(x)
            return x
        if type(x) in (list, tuple):
            return type(x)(self.unpack(v) for v in x)
        if type(x) is not dict:
            return x
        kind = next(iter(x), "")
        if kind == "!dict":
            return {self.unpack(k): self.unpack(v) for k, v in x["!dict"]}
        if kind == "!same":
            return self._arrays[x["!same"]]
        if kind == "!objects":
            return np.array(x["!objects"], dtype=object)
        if kind == "!random":
            return self._random(x["!random"])
        if kind == "!reduce":
            return _class_of(x["!reduce"])(*self.unpack(x["state"]))
        if kind == "!object":
            found = _class_of(x["!object"])
            made = found.__new__(found)
            made.__dict__.update(self.unpack(x["state"]))
            return made
        raise StateError(f"unknown member {kind!r}")

    @staticmethod
    def _random(state: Any) -> Any:
        if state is None:
            return np.random.mtrand._rand
        made = np.random.RandomState()
        made.set_state(state)
        return made


class EstimatorHolder(TreeHolder):
    """What an estimator has learned; its parameters are the setting's."""

    def __init__(self, name: str, estimator: Any) -> None:
        super().__init__(name, self._read, self._write, keeps=True)
        self.estimator = estimator

    def _learned(self) -> Dict[str, Any]:
        params = self.estimator.get_params(deep=False)
        return {k: v for k, v in vars(self.estimator).items()
                if k not in params or
                isinstance(v, np.random.RandomState)}

    def _read(self) -> Any:
        return _Packer().pack(self._learned())

    def _write(self, tree: Any) -> None:
        values = _Unpacker().unpack(tree)
        for name in [n for n in self._learned() if n not in values]:
            delattr(self.estimator, name)
        vars(self.estimator).update(values)


# ---- what a run does about an estimator ----------------------------------

class Frame:
    """An estimator's parameters, and its file."""

    def __init__(self, run: "Run", estimator: Any) -> None:
        self._run, self._estimator = run, estimator
        params = estimator.get_params()
        self._rate = next((n for n in _RATES if n in params), None)
        self._solver = params.get("solver")
        self._own: Dict[str, Any] = {}
        if self._solver == "lbfgs":
            raise ValueError("solver lbfgs does not learn in steps: sgd or "
                             "adam")
        if self._rate is not None:
            # "optimal" and "invscaling" would decay beneath what is tuned;
            # their eta0 may be 0.
            self._own["learning_rate"] = params[self._rate] or 0.01
            if params.get("learning_rate") not in (None, "constant"):
                estimator.set_params(learning_rate="constant")
            estimator.set_params(**{self._rate: self._own["learning_rate"]})
        if self._solver == "sgd":
            self._own["momentum"] = params["momentum"]
        if self._solver == "adam":
            self._own["momentum"] = params["beta_1"]
        for name in run.config.tunables:
            if name in params and name not in self._own and \
                    name not in ("learning_rate", "batch_size"):
                self._own[name] = params[name]

    def add(self, name: str, x: Any) -> None:
        """@x has been registered."""

    def prepare(self, order: Any, keep_gradients: Optional[bool]) -> None:
        """All is registered, the loop begins."""

    def gradient_bytes(self) -> int:
        """Of one as large as all that the estimator holds."""
        held = vars(self._estimator).values()
        arrays = [x for v in held for x in (v if isinstance(v, list) else [v])]
        return sum(int(getattr(x, "nbytes", 0)) for x in arrays)

    def tunables(self) -> Dict[str, Any]:
        """Those that act, with the estimator's own values."""
        return dict(self._own)

    def begin(self, kind: str, setting: Dict[str, Any],
              held: Dict[str, Any]) -> Dict[str, Any]:
        """Makes the estimator act by @setting; also the optimizer within a
        perceptron, which was made by an earlier one."""
        params: Dict[str, Any] = {}
        for name in self._own:
            value = setting.get(name)
            if value is None:
                continue
            if name == "learning_rate":
                # 0 is refused; nothing is learned by this one either.
                params[str(self._rate)] = float(value) or 1e-300
            elif name == "momentum" and self._solver == "adam":
                params["beta_1"] = float(value)
            else:
                params[name] = value
        self._estimator.set_params(**params)
        inner = getattr(self._estimator, "_optimizer", None)
        if inner is not None:
            for name in ("learning_rate_init", "momentum", "beta_1"):
                if name in params and hasattr(inner, name):
                    setattr(inner, name, params[name])
            if hasattr(inner, "lr_schedule"):
                inner.learning_rate = inner.learning_rate_init
        return held

    def end(self, kind: str) -> None:
        """The slice has ended."""

    def begin_test(self) -> None:
        """Validation begins."""

    def end_test(self) -> None:
        """Validation has ended."""

    def save(self, path: str) -> List[Tuple[str, int]]:
        """The estimator as model.pkl: pickle is how scikit-learn keeps them.
        Unpickle only what you have written."""
        size = _files.write_file(
            f"{path}/model.pkl",
            lambda f: pickle.dump(self._estimator, f, protocol=4))
        return [("model.pkl", size)]


class Run(_run.Run):
    """mltune.Run for an estimator with partial_fit.

    @estimator  not fitted, or to be trained on
    @samples, @validation_samples, and more: as mltune.Run has them
    @classes    all labels, of a classifier
    @loss       function of (estimator, x, y): the mean loss, instead of what
                the estimator's kind suggests
    """

    def __init__(self, estimator: Any, *state: Any, samples: Any,
                 classes: Any = None, loss: Optional[Loss] = None,
                 **options: Any) -> None:
        if not hasattr(estimator, "partial_fit"):
            raise TypeError(f"{type(estimator).__name__} has no partial_fit: "
                            "it cannot be trained in steps")
        super().__init__(*state, samples=samples, **options)
        if self.config.nodes > 1:
            raise ValueError("mltune.sklearn trains in one process: "
                             "/cluster/nodes must be 1")
        self.estimator = estimator
        self.classes = None if classes is None else np.unique(classes)
        self.is_classifier = is_classifier(estimator)
        if self.is_classifier and self.classes is None:
            raise TypeError("classes: a classifier has to know all labels "
                            "before it sees the first sample")
        self._loss_of = loss or (self._classifier_loss if self.is_classifier
                                 else self._squared_loss)
        self.registry.add("estimator", EstimatorHolder("estimator", estimator))
        self._frames.append(Frame(self, estimator))

    @property
    def is_fitted(self) -> bool:
        """Whether the estimator has seen a sample."""
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    def step(self, batch: Any, x: Any, y: Any, **more: Any) -> float:
        """The loss of the batch's samples, and one partial_fit on them; no fit
        where the loss is only measured. @more: of partial_fit, as
        sample_weight. A step too long for numbers: infinity."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = float(self._loss_of(self.estimator, x, y))
            if batch.probe or not math.isfinite(loss):
                return loss
            try:
                self._fit(x, y, more)
            except ValueError as e:
                if not _DIVERGED.search(str(e)):
                    raise
                return math.inf
        return loss

    def _fit(self, x: Any, y: Any, more: Dict[str, Any]) -> None:
        estimator = self.estimator
        if "batch_size" in estimator.get_params(deep=False):
            estimator.batch_size = len(y)  # a clock is one step of it
        if self.is_classifier and not self.is_fitted:
            more = {**more, "classes": self.classes}
        estimator.partial_fit(x, y, **more)
        curve = getattr(estimator, "loss_curve_", None)
        if curve:
            del curve[:-1]  # grows by a number each clock, in every branch

    def score(self, x: Any, y: Any) -> Tuple[float, int]:
        """What a classifier gets right, or a regressor's squared errors: sum
        and number, for run.validate."""
        if self.is_classifier:
            if not self.is_fitted:
                return 0.0, len(y)
            return float((self.estimator.predict(x) == y).sum()), len(y)
        return self._squared_loss(self.estimator, x, y) * len(y), len(y)

    # ---- losses ----------------------------------------------------------

    def _classifier_loss(self, estimator: Any, x: Any, y: Any) -> float:
        assert self.classes is not None
        if not self.is_fitted:
            return math.log(max(2, len(self.classes)))
        at = np.searchsorted(estimator.classes_, y)
        if hasattr(estimator, "predict_proba"):
            found = estimator.predict_proba(x)[np.arange(len(y)), at]
            # Not clipped from above: what is no number is to be seen.
            return float(-np.log(np.where(found < _LEAST, _LEAST,
                                          found)).mean())
        found = estimator.decision_function(x)
        if found.ndim == 1:
            return float(np.maximum(0, 1 - np.where(at == 1, found,
                                                    -found)).mean())
        sign = -np.ones_like(found)
        sign[np.arange(len(y)), at] = 1
        return float(np.maximum(0, 1 - sign * found).sum(axis=1).mean())

    def _squared_loss(self, estimator: Any, x: Any, y: Any) -> float:
        y = np.asarray(y, float)
        found = estimator.predict(x) if self.is_fitted else np.zeros_like(y)
        return float(((found - y) ** 2).reshape(len(y), -1).sum(1).mean())


def train(estimator: Any, x: Any, y: Any, *, validation: Any = None,
          sample_weight: Any = None, **options: Any) -> Any:
    """Trains an estimator on rows @x with labels or values @y; returns it.

    @validation  (x, y): accuracy of a classifier, root mean squared error of a
                 regressor
    @options     of Run
    """
    x = x if hasattr(x, "shape") else np.asarray(x)
    y = np.asarray(y)
    if x.shape[0] != len(y):
        raise ValueError(f"{x.shape[0]} rows, but {len(y)} labels")
    if is_classifier(estimator):
        options.setdefault("classes", np.unique(y))
    run = Run(estimator, samples=len(y), validation_samples=0
              if validation is None else len(validation[1]), **options)
    if validation is not None:
        vx, vy = validation[0], np.asarray(validation[1])
        if run.is_classifier:
            run.validate(lambda: run.score(vx, vy), metric="accuracy",
                         better="higher")
        else:
            run.validate(lambda: run.score(vx, vy), metric="rmse",
                         better="lower", reduction="sqrt_mean")
    for batch in run.train():
        rows = np.asarray(batch.samples)
        more = {} if sample_weight is None else \
            {"sample_weight": np.asarray(sample_weight)[rows]}
        batch.loss(run.step(batch, x[rows], y[rows], **more))
    return estimator
