"""Handing a function over to another process, which trains with it.

A function or class of a module goes by its name; one of a script by file and
name; one that lives in a notebook, or within another function, by cloudpickle
where that is installed, else by its source and the sources, imports and plain
values that it uses. `load` is the other end.
"""
from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import os
import pathlib
import pickle
import sys
import textwrap
import types
from typing import Any, Dict, List, Set

PLAIN = (int, float, complex, str, bytes, bool, type(None))
MAIN = "__mltune_main__"  # what a script is called where it is loaded again


class HandOverError(Exception):
    """What cannot be handed over; the message says what to do."""


def _name_of(x: Any) -> str:
    return getattr(x, "__qualname__", getattr(x, "__name__", repr(x)))


def hand_over(x: Any, folder: pathlib.Path) -> Dict[str, Any]:
    """Writes into @folder what it takes; tells what `load` needs. Raises
    HandOverError."""
    if not callable(x) or not hasattr(x, "__qualname__"):
        raise HandOverError(f"a function or a class is needed, not a "
                            f"{type(x).__name__}")
    path = [os.path.abspath(p) for p in sys.path]
    module = sys.modules.get(x.__module__)
    top_level = _found(module, x.__qualname__) is x
    if x.__module__ != "__main__" and top_level:
        return {"kind": "module", "module": x.__module__,
                "name": x.__qualname__, "path": path}
    file = getattr(module, "__file__", None)
    if top_level and file and os.path.exists(file):
        return {"kind": "file", "file": os.path.abspath(file),
                "name": x.__qualname__, "path": path}
    told = _pickled(x, folder) or _sourced(x, folder, top_level)
    told["path"] = path
    return told


def _found(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def _pickled(x: Any, folder: pathlib.Path) -> Any:
    try:
        import cloudpickle
    except ImportError:
        return None
    try:
        data = cloudpickle.dumps(x)
    except Exception as e:  # whatever the objects that it refers to raise
        raise HandOverError(f"{_name_of(x)} refers to what cannot be handed "
                            f"over: {e}. Make it within the function") from e
    (folder / "function.pkl").write_bytes(data)
    return {"kind": "pickle", "file": str(folder / "function.pkl"),
            "name": _name_of(x)}


# ---- by source -----------------------------------------------------------

def _sourced(x: Any, folder: pathlib.Path, top_level: bool) -> Dict[str, Any]:
    if not top_level:
        raise HandOverError(
            f"{_name_of(x)} stands within another function, or is a lambda: "
            "define it at the top level, or install cloudpickle (Debian: "
            "python3-cloudpickle)")
    gathered: List[str] = []
    _gather(x, gathered, set())
    file = folder / f"{x.__name__}.py"
    file.write_text("\n\n".join(gathered) + "\n", encoding="utf-8")
    return {"kind": "file", "file": str(file), "name": x.__name__}


def _source_of(x: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(x))
    except (OSError, TypeError) as e:
        raise HandOverError(f"the source of {_name_of(x)} is not known; put it "
                            "into a file, or install cloudpickle (Debian: "
                            "python3-cloudpickle)") from e


def _gather(x: Any, gathered: List[str], seen: Set[str]) -> None:
    """The source of @x, after that of what it uses."""
    source = _source_of(x)
    tree = ast.parse(source)
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    there = vars(sys.modules[x.__module__])
    seen.add(x.__name__)
    for name in sorted(names & set(there) - seen):
        seen.add(name)
        _gather_value(name, there[name], x, gathered, seen)
    gathered.append(source.rstrip())


def _gather_value(name: str, value: Any, user: Any, gathered: List[str],
                  seen: Set[str]) -> None:
    """What makes @name mean @value in a program of its own."""
    if isinstance(value, types.ModuleType):
        gathered.append(f"import {value.__name__} as {name}"
                        if "." in value.__name__ or value.__name__ != name
                        else f"import {name}")
    elif isinstance(value, PLAIN) or _is_plain(value):
        gathered.append(f"{name} = {value!r}")
    elif getattr(value, "__module__", None) == user.__module__ and \
            isinstance(value, (type, types.FunctionType)):
        _gather(value, gathered, seen)
        if value.__name__ != name:
            gathered.append(f"{name} = {value.__name__}")
    elif hasattr(value, "__qualname__") and "." not in value.__qualname__ and \
            _found(sys.modules.get(getattr(value, "__module__", "")),
                   value.__qualname__) is value:
        gathered.append(f"from {value.__module__} import "
                        f"{value.__qualname__} as {name}")
    else:
        raise HandOverError(
            f"{_name_of(user)} uses {name}, a {type(value).__name__}, which "
            "is not handed over: make it within the function, or install "
            "cloudpickle (Debian: python3-cloudpickle)")


def _is_plain(x: Any) -> bool:
    if type(x) in (list, tuple, set):
        return all(isinstance(v, PLAIN) or _is_plain(v) for v in x)
    if type(x) is dict:
        return all(isinstance(k, PLAIN) and
                   (isinstance(v, PLAIN) or _is_plain(v))
                   for k, v in x.items())
    return False


# ---- the other end -------------------------------------------------------

def load(told: Dict[str, Any]) -> Any:
    """What was handed over."""
    for place in told["path"]:
        if place not in sys.path:
            sys.path.append(place)
    if told["kind"] == "module":
        return _found(importlib.import_module(told["module"]), told["name"])
    if told["kind"] == "pickle":
        with open(told["file"], "rb") as file:
            return pickle.load(file)
    spec = importlib.util.spec_from_file_location(MAIN, told["file"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MAIN] = module
    spec.loader.exec_module(module)
    found = _found(module, told["name"])
    if found is None:
        raise AttributeError(f"{told['file']} defines no {told['name']} when "
                             "it is loaded: it must not stand below "
                             'if __name__ == "__main__"')
    return found


def call(x: Any) -> None:
    """Trains: runs a Trainable, or calls the function, with the settings where
    it has a parameter for them."""
    import mltune
    if isinstance(x, type) and issubclass(x, mltune.Trainable):
        x().run()
        return
    needed = [p for p in inspect.signature(x).parameters.values()
              if p.default is p.empty and
              p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    x(*([mltune.config()] if needed else []))


loading = False  # this process was started to train


def main(path: str) -> None:
    """The program: @path has what hand_over told."""
    global loading
    loading = True
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    sys.argv = [told.get("file", told["name"])]
    call(load(told))
