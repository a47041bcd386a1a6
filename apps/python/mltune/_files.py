"""Files of snapshots and models: a file is there whole, or not at all.

A tree of containers, plain values and arrays becomes a text in JSON, in which
arrays are numbers, and the arrays: one `torch.save` file, or without torch an
`.npz`. Reading runs no code that the file brings.
"""
import inspect
import io
import json
import os
import sys
import threading
from typing import Any, BinaryIO, Callable, Dict, List, Set

from ._state import PLAIN, StateError, kind_of

_temporary: Set[str] = set()
_lock = threading.Lock()


def write_file(path: str, write: Callable[[BinaryIO], None]) -> int:
    """Writes a file that appears whole and is on the disk; its bytes. Raises
    OSError."""
    made = path + ".tmp"
    with _lock:
        _temporary.add(made)
    try:
        with open(made, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(made, path)
    except BaseException:
        remove(made)
        raise
    finally:
        with _lock:
            _temporary.discard(made)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size


def flush(path: str) -> int:
    """Brings a file that somebody wrote to the disk; its bytes. Raises OSError.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        return os.fstat(file).st_size
    finally:
        os.close(file)


def remove(path: str) -> None:
    """Removes a file that may be there."""
    try:
        os.unlink(path)
    except OSError:
        pass


def remove_temporary() -> None:
    """Removes what was being written; the process ends."""
    with _lock:
        for path in _temporary:
            remove(path)


def encode(x: Any, arrays: List[Any]) -> Any:
    """@x as JSON, its arrays appended to @arrays. Raises StateError."""
    if kind_of(x) is not None:
        arrays.append(x)
        return {"a": len(arrays) - 1}
    if isinstance(x, dict):
        return {"d": [[encode(k, arrays), encode(v, arrays)]
                      for k, v in x.items()]}
    if isinstance(x, list):
        return {"l": [encode(v, arrays) for v in x]}
    if isinstance(x, tuple):
        return {"t": [encode(v, arrays) for v in x]}
    if isinstance(x, bytes):
        return {"b": x.hex()}
    if isinstance(x, complex):
        return {"c": [x.real, x.imag]}
    if isinstance(x, PLAIN):
        return x
    raise StateError(f"a {type(x).__name__} cannot be written")


def decode(x: Any, arrays: List[Any]) -> Any:
    """What `encode` was given. Raises StateError for what it never makes."""
    if not isinstance(x, dict):
        return x
    (kind, value), = x.items()
    if kind == "a":
        return arrays[value]
    if kind == "d":
        return {decode(k, arrays): decode(v, arrays) for k, v in value}
    if kind == "l":
        return [decode(v, arrays) for v in value]
    if kind == "t":
        return tuple(decode(v, arrays) for v in value)
    if kind == "b":
        return bytes.fromhex(value)
    if kind == "c":
        return complex(*value)
    raise StateError(f"unknown member {kind}")


def save_tree(folder: str, name: str, tree: Any) -> int:
    """Writes @tree as folder/name.pt, or .npz without torch, and the folder
    where it is missing; bytes. Raises OSError, StateError."""
    arrays: List[Any] = []
    text = json.dumps(encode(tree, arrays))
    os.makedirs(folder, exist_ok=True)
    torch = sys.modules.get("torch")
    path = os.path.join(folder, name)
    if torch is not None:
        tensors = [_tensor(torch, x) for x in arrays]
        return write_file(path + ".pt", lambda f: torch.save(
            {"text": text, "arrays": tensors}, f))
    if not arrays:
        return write_file(path + ".json", lambda f: put(f, text.encode()))
    import numpy
    return write_file(path + ".npz", lambda f: numpy.savez(
        f, text=numpy.frombuffer(text.encode(), dtype="uint8"),
        **{f"a{i}": x for i, x in enumerate(arrays)}))


def put(file: BinaryIO, data: bytes) -> None:
    """Writes @data."""
    file.write(data)


def _tensor(torch: Any, x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x
    try:
        return torch.from_numpy(x)
    except TypeError:
        raise StateError(f"an array of {x.dtype} cannot be written") from None


def load_tree(folder: str, name: str) -> Any:
    """What `save_tree` wrote. Raises OSError; StateError, and other errors of
    the readers, for a file that is damaged."""
    path = os.path.join(folder, name)
    if os.path.exists(path + ".pt"):
        import torch
        with open(path + ".pt", "rb") as file:
            data = file.read()
        found = torch.load(io.BytesIO(data), map_location="cpu",
                           **safe_loading(torch.load))
        return decode(json.loads(found["text"]), found["arrays"])
    if os.path.exists(path + ".npz"):
        import numpy
        with numpy.load(path + ".npz", allow_pickle=False) as found:
            text = bytes(found["text"]).decode()
            arrays = [found[f"a{i}"] for i in range(len(found.files) - 1)]
        return decode(json.loads(text), arrays)
    with open(path + ".json", "rb") as file:
        return decode(json.loads(file.read().decode()), [])


def safe_loading(load: Callable[..., Any]) -> Dict[str, Any]:
    """Argument of torch.load that lets it build tensors only: torch 1.13 and
    later."""
    return {"weights_only": True} \
        if "weights_only" in inspect.signature(load).parameters else {}
