"""mltune for programs in Python: any training loop, tuned while it trains.

    import mltune
    mltune.config()                               # connects, seeds
    run = mltune.Run(model, optimizer, samples=len(x))
    for batch in run.train():
        ...
        batch.loss(loss)

Under `mltune run` the loop is forked, cut and tested by a tuner; alone it trains
plainly. See docs/own-programs.md.
"""
from typing import Any

from ._engine import Batch
from ._session import Config, config
from .run import Run, Trainable

__all__ = ["Batch", "Client", "Config", "Interrupted", "Result", "Run",
           "Trainable", "TuneError", "config", "numpy", "ps",
           "sklearn", "skorch", "torch", "tune"]

_MODULES = ("numpy", "ps", "sklearn", "skorch", "torch")
_NAMES = {"tune": "_tune", "Result": "_tune", "TuneError": "_tune",
          "Interrupted": "_tune", "Client": "client"}


def __getattr__(name: str) -> Any:
    import importlib
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name in _NAMES:
        return getattr(importlib.import_module("." + _NAMES[name], __name__),
                       name)
    if name == "__version__":
        from ._version import version
        return version()
    raise AttributeError(f"module 'mltune' has no attribute {name!r}")
