"""The parameter server from Python: tables, branches, workers (mltune/ps.h).

    import mltune.ps

    with mltune.ps.Server(workers=2, learning_rate=0.1) as server:
        weights = server.table("weights", rows=10, width=784)
        server.start()

        def work(worker):                    # in every worker's thread
            row = worker.get(weights, 3)     # read only, in place
            worker.update(weights, 3)[:] += gradient(row)
            worker.clock()                   # the sums of all are applied

        server.run(work)
        child = server.fork(0)               # microseconds, whatever its size
        server.switch(child)

What the calls mean is in mltune/ps.h (man mltune-ps). Needs numpy, and
libmltune.so.1: MLTUNE_LIBRARY names it, else it is looked for beside this
package, then where the system's loader looks.

Rows are numpy arrays on the server's own memory where the server gives them in
place. **They hold until the worker's next clock**: copy what is to be kept. One
that is used later shows other values; one that could be written becomes read
only. The memory stays as long as an array of it lives, also after close().

Workers are threads of the library that call Python, so only one of them runs
Python at a time; numpy lets the others work during what is large.

Errors are PsError, with the library's text and code; what the C interface
calls misuse (a row out of range, a table of another access) raises IndexError,
TypeError or ValueError here, before the library sees it.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import threading
import weakref
from typing import (Any, Callable, Dict, Iterable, List, Optional, Sequence,
                    Tuple, Union)

try:
    import numpy as np
except ImportError as e:  # pragma: no cover
    raise ImportError("mltune.ps needs numpy (Debian: python3-numpy)") from e

__all__ = ["Server", "Table", "Worker", "Batch", "Move", "PsError",
           "Canceled"]

VERSION = 1  # MLT_PS_VERSION of the header that this file is written for
LIBRARY = "libmltune.so.1"
ROWS_MAX = 2 ** 63

Pathlike = Union[str, "os.PathLike[str]"]

TYPES = {"f32": np.float32, "i32": np.int32, "f64": np.float64}
ACCESS = {"shared": 0, "exclusive": 1, "local": 2}
READ_MY_WRITES, NO_MOMENTUM, NOT_SAVED, OWN_CLOCK, ALIKE = 1, 2, 4, 8, 16
FAILED = 1  # what a worker whose function raised returns
NOT_FOUND = 6  # an error of the library's


class PsError(Exception):
    """An error of the parameter server. code: its number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Canceled(PsError):
    """Another worker failed, or the user pressed Ctrl-C: let it pass."""


# ---- the library ---------------------------------------------------------

class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("workers", ctypes.c_uint),
                ("memory_limit", ctypes.c_uint64),
                ("consistency", ctypes.c_char_p),
                ("staleness", ctypes.c_uint), ("update_rule", ctypes.c_char_p),
                ("learning_rate", ctypes.c_double),
                ("momentum", ctypes.c_double), ("seed", ctypes.c_uint64),
                ("nodes", ctypes.c_uint), ("node", ctypes.c_uint),
                ("meet", ctypes.c_char_p), ("listen", ctypes.c_char_p),
                ("meet_s", ctypes.c_double), ("float16", ctypes.c_int),
                ("access", ctypes.c_char_p),
                ("bandwidth_mbps", ctypes.c_double),
                ("priority", ctypes.c_char_p),
                ("weight_decay", ctypes.c_double),
                ("ring_bytes", ctypes.c_int64)]


class _TableOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("rows", ctypes.c_uint64), ("width", ctypes.c_uint32),
                ("type", ctypes.c_int), ("access", ctypes.c_int),
                ("rule", ctypes.c_char_p), ("flags", ctypes.c_uint),
                ("chunk_bytes", ctypes.c_uint32),
                ("undecayed", ctypes.c_uint32)]


class _Move(ctypes.Structure):
    _fields_ = [("table", ctypes.c_uint32),
                ("workers_before", ctypes.c_uint), ("workers", ctypes.c_uint),
                ("rows_before", ctypes.c_uint64), ("rows", ctypes.c_uint64),
                ("inside", ctypes.c_void_p)]


_P, _U, _U32, _U64, _D, _I, _S = (
    ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint32, ctypes.c_uint64,
    ctypes.c_double, ctypes.c_int, ctypes.c_char_p)
_ERR = ctypes.POINTER(_Error)
_WORK = ctypes.CFUNCTYPE(_I, _P, _P)
_MOVER = ctypes.CFUNCTYPE(_I, ctypes.POINTER(_Move), _P)
_MOVE = ctypes.POINTER(_Move)

# What is used of the header: result, arguments.
_CALLS: Dict[str, Tuple[Any, List[Any]]] = {
    "mlt_error_text": (_S, [_I]),
    "mlt_ps_new": (_I, [ctypes.POINTER(_Options), ctypes.POINTER(_P), _ERR]),
    "mlt_ps_free": (None, [_P]),
    "mlt_ps_workers": (_U, [_P]),
    "mlt_ps_table": (_I, [_P, ctypes.POINTER(_TableOptions),
                          ctypes.POINTER(_U32), _ERR]),
    "mlt_ps_expect": (_I, [_P, _U32, _U, _U64, _U, ctypes.c_size_t, _P]),
    "mlt_row_at": (_U64, [_P, _U32, _U64]),
    "mlt_ps_start": (_I, [_P, _ERR]),
    "mlt_ps_run": (_I, [_P, _WORK, _P]),
    "mlt_ps_fork": (_I, [_P, _U32, ctypes.POINTER(_U32)]),
    "mlt_ps_drop": (_I, [_P, _U32]),
    "mlt_ps_switch": (_I, [_P, _U32]),
    "mlt_ps_clocks": (_I, [_P, _U32, ctypes.POINTER(_U64)]),
    "mlt_ps_set_learning_rate": (_I, [_P, _D]),
    "mlt_ps_set_momentum": (_I, [_P, _D]),
    "mlt_ps_set_weight_decay": (_I, [_P, _D]),
    "mlt_ps_set_update_rule": (_I, [_P, _S]),
    "mlt_ps_set_staleness": (_I, [_P, _U]),
    "mlt_ps_set_bandwidth": (_I, [_P, _D]),
    "mlt_ps_save": (_I, [_P, _S, _ERR]),
    "mlt_ps_checkpoint": (_I, [_P, _S, _ERR]),
    "mlt_ps_checkpoint_done": (_I, [_P]),
    "mlt_ps_checkpoint_end": (_I, [_P, _ERR]),
    "mlt_ps_restore": (_I, [_P, _S, ctypes.POINTER(_U32), _ERR]),
    "mlt_ps_set_mover": (_I, [_P, _U32, _MOVER, _P]),
    "mlt_move_from": (_P, [_MOVE, _U, _U64]),
    "mlt_move_to": (_P, [_MOVE, _U, _U64]),
    "mlt_worker_index": (_U, [_P]),
    "mlt_worker_count": (_U, [_P]),
    "mlt_get_row": (_P, [_P, _U32, _U64]),
    "mlt_get_rows": (_I, [_P, _U32, ctypes.c_size_t, _P, _P]),
    "mlt_get_rows_begin": (_I, [_P, _U32, ctypes.c_size_t, _P,
                                ctypes.POINTER(_U64)]),
    "mlt_get_rows_wait": (_I, [_P, _U64, _P]),
    "mlt_inc_row": (None, [_P, _U32, _U64, _P]),
    "mlt_inc_rows": (None, [_P, _U32, ctypes.c_size_t, _P, _P]),
    "mlt_update_row": (_P, [_P, _U32, _U64]),
    "mlt_offer": (None, [_P]),
    "mlt_row": (_P, [_P, _U32, _U64]),
    "mlt_row_bytes": (_U32, [_P, _U32]),
    "mlt_owned_rows": (None, [_P, _U32, _U, ctypes.POINTER(_U64),
                              ctypes.POINTER(_U64)]),
    "mlt_init_row": (None, [_P, _U32, _U64, _P]),
    "mlt_clock": (_I, [_P]),
    "mlt_clock_table": (_I, [_P, _U32]),
    "mlt_clock_part": (None, [_P, _U64]),
}


def _candidates() -> Iterable[str]:
    named = os.environ.get("MLTUNE_LIBRARY")
    if named:
        yield named
        return
    # Of a source tree's apps/python; of PREFIX/lib/mltune/python.
    above = pathlib.Path(__file__).resolve().parents
    if len(above) > 3:
        for path in (above[3] / "build/release" / LIBRARY, above[3] / LIBRARY):
            if path.exists():
                yield str(path)
    yield LIBRARY


def _open(path: str) -> ctypes.CDLL:
    """The library at @path, its functions declared. Raises OSError (not
    there), ImportError (of another version)."""
    lib = ctypes.CDLL(path)
    try:
        lib.mlt_ps_version.restype, lib.mlt_ps_version.argtypes = _U, []
        version = lib.mlt_ps_version()
    except AttributeError:
        version = "unknown"
    if version != VERSION:
        raise ImportError(f"{path} has version {version} of the parameter "
                          f"server's interface, this package is for {VERSION}: "
                          "install both of one mltune")
    for name, (result, arguments) in _CALLS.items():
        call = getattr(lib, name)
        call.restype, call.argtypes = result, arguments
    return lib


_lib_lock = threading.Lock()
_lib_open: Optional[ctypes.CDLL] = None


def _library() -> ctypes.CDLL:
    global _lib_open
    with _lib_lock:
        if _lib_open is None:
            why = []
            for path in _candidates():
                try:
                    _lib_open = _open(path)
                    break
                except OSError as e:
                    why.append(str(e))
            else:
                raise ImportError("libmltune.so.1 is not there (MLTUNE_LIBRARY "
                                  "names it): " + "; ".join(why))
        return _lib_open


def _check(code: int) -> None:
    if code:
        raise PsError(code, _library().mlt_error_text(code).decode())


def _told(code: int, error: _Error) -> None:
    if code:
        raise PsError(code, error.text.decode("utf-8", "replace"))


def _text(value: Any) -> Optional[bytes]:
    return None if value is None else os.fspath(value).encode()


def _number(value: Any, what: str, end: int) -> int:
    number = int(value)
    if number != value or not 0 <= number < end:
        raise IndexError(f"{what} {value}: expected 0 to {end - 1}")
    return number


# ---- rows ----------------------------------------------------------------

class _Handle:
    """The server in the library, freed when nothing refers to it any more: a
    Server, or an array on its memory."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer
        weakref.finalize(self, _library().mlt_ps_free, pointer)


class _Memory:
    """What an array on the server's memory is based on."""

    __slots__ = ("__array_interface__", "handle")

    def __init__(self, handle: _Handle, pointer: int, table: "Table",
                 read_only: bool) -> None:
        self.handle = handle
        self.__array_interface__ = {
            "version": 3, "shape": (table.width,), "typestr": table.dtype.str,
            "data": (pointer, read_only)}


class Table:
    """A table that a server declared. name, rows, width, dtype, access."""

    def __init__(self, server: "Server", number: int, name: str, rows: int,
                 width: int, dtype: Any, access: str, flags: int) -> None:
        self.server, self.number, self.name = server, number, name
        self.rows, self.width = rows, width
        self.dtype, self.access = np.dtype(dtype), access
        self.flags = flags

    def __repr__(self) -> str:
        return (f"<{self.access} table {self.name}: {self.rows} x "
                f"{self.width} {self.dtype}>")

    def owned(self, worker: int) -> range:
        """Rows (of a placed table: places) that belong to that worker."""
        first, count = _U64(), _U64()
        server = self.server
        _library().mlt_owned_rows(
            server._handle_idle(), self.number,
            _number(worker, "worker", server.workers), first, count)
        return range(first.value, first.value + count.value)

    def row_at(self, place: int) -> int:
        """The row that lies at a place of a placed table."""
        return _library().mlt_row_at(self.server._handle_idle(), self.number,
                                     _number(place, "place", self.rows))


def _values(table: Table, values: Any, shape: Tuple[int, ...]) -> np.ndarray:
    array = np.ascontiguousarray(values, table.dtype)
    if array.shape != shape:
        raise ValueError(f"table {table.name}: values of shape {array.shape}, "
                         f"expected {shape}")
    return array


def _copy_rows(table: Table, rows: int, found: Any) -> np.ndarray:
    out = np.empty((rows, table.width), table.dtype)
    to, step = out.ctypes.data, out.strides[0]
    size = table.width * table.dtype.itemsize
    for i in range(rows):
        ctypes.memmove(to + i * step, found[i], size)
    return out


class Worker:
    """A worker, in its thread, for the length of one call of run(). index: its
    number; count: how many there are, over all nodes."""

    def __init__(self, server: "Server", pointer: int) -> None:
        lib = _library()
        self._lib, self._server, self._pointer = lib, server, pointer
        self._handle = server._handle
        self._thread = threading.get_ident()
        self._writable: List["weakref.ref[np.ndarray]"] = []
        self.index = int(lib.mlt_worker_index(pointer))
        self.count = int(lib.mlt_worker_count(pointer))
        self._part: Dict[int, Any] = {}
        self._ended: set = set()  # tables whose own clock is over

    def _w(self) -> int:
        if threading.get_ident() != self._thread or self._pointer is None:
            raise RuntimeError("a worker belongs to its thread, and to the run "
                               "that it was handed to")
        return self._pointer

    def _end(self) -> None:
        self._seal()
        self._pointer = None

    def _seal(self) -> None:
        """Arrays that were handed out for writing are no row's place now."""
        for reference in self._writable:
            array = reference()
            if array is not None:
                array.flags.writeable = False
        self._writable.clear()

    def _row(self, table: Table, row: Any, *access: str) -> int:
        if table.server is not self._server:
            raise ValueError(f"table {table.name} is another server's")
        if access and table.access not in access:
            raise TypeError(f"not for table {table.name}, which is "
                            f"{table.access}")
        if table.number in self._ended:
            raise RuntimeError(f"table {table.name}: its clock was ended "
                               "before the worker's")
        return _number(row, f"table {table.name}: row", table.rows)

    def _own(self, table: Table, row: int) -> int:
        """Of a table whose rows belong to workers: the caller's alone."""
        if table.access == "local":
            return row
        if table.number not in self._part:
            self._part[table.number] = self._find_part(table)
        if row not in self._part[table.number]:
            raise IndexError(f"table {table.name}: row {row} is not of worker "
                             f"{self.index} (Table.owned)")
        return row

    def _find_part(self, table: Table) -> Any:
        first, count = _U64(), _U64()
        pointer = self._handle.pointer
        self._lib.mlt_owned_rows(pointer, table.number, self.index, first,
                                 count)
        part = range(first.value, first.value + count.value)
        if not self._server._places or table.access != "shared":
            return part
        return {self._lib.mlt_row_at(pointer, table.number, place)
                for place in part}

    def _array(self, table: Table, pointer: Optional[int],
               write: bool) -> np.ndarray:
        if not pointer:
            raise Canceled(FAILED, "another worker or node failed")
        array = np.asarray(_Memory(self._handle, pointer, table, not write))
        if write:
            self._writable.append(weakref.ref(array))
        return array

    def _rows(self, table: Table, rows: Any, *access: str) -> np.ndarray:
        numbers = np.ascontiguousarray(rows)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise TypeError("rows: a row's number, or a list of them")
        if len(numbers):
            self._row(table, int(numbers.min()), *access)
            self._row(table, int(numbers.max()), *access)
        else:
            self._row(table, 0, *access)
        return numbers.astype(np.uint64, copy=False)

    def get(self, table: Table, row: Any) -> np.ndarray:
        """A row of a shared or exclusive table, for reading: an array
        [width], in place where one process holds the table, a copy with
        several nodes. A list of rows: a copy [rows, width]."""
        if np.ndim(row):
            return self._gather(table, row)
        number = self._row(table, row, "shared", "exclusive")
        array = self._array(
            table, self._lib.mlt_get_row(self._w(), table.number, number),
            False)
        return array if self._server.nodes == 1 else array.copy()

    def _gather(self, table: Table, rows: Any) -> np.ndarray:
        numbers = self._rows(table, rows, "shared", "exclusive")
        found = (ctypes.c_void_p * max(len(numbers), 1))()
        if self._lib.mlt_get_rows(self._w(), table.number, len(numbers),
                                  numbers.ctypes.data,
                                  ctypes.addressof(found)):
            raise Canceled(FAILED, "another worker or node failed")
        return _copy_rows(table, len(numbers), found)

    def begin(self, table: Table, rows: Any) -> "Batch":
        """Sends for rows of a shared or exclusive table and returns at once;
        what it returns gives them (wait()). At most 8 of a worker are under
        way. The end of the table's clock drops those that were not waited
        for."""
        numbers = self._rows(table, rows, "shared", "exclusive")
        number = _U64()
        _check(self._lib.mlt_get_rows_begin(
            self._w(), table.number, len(numbers), numbers.ctypes.data,
            number))
        return Batch(self, table, len(numbers), number.value)

    def inc(self, table: Table, row: Any, delta: Any) -> None:
        """Adds to the worker's update of a row, [width], or of a list of rows,
        [rows, width]. Of an exclusive table (its own rows): the rule acts at
        once."""
        if np.ndim(row) == 0:
            row, delta = [row], np.asarray(delta)[np.newaxis]
        numbers = self._rows(table, row, "shared", "exclusive")
        values = _values(table, delta, (len(numbers), table.width))
        if table.access == "exclusive":
            for number in numbers:
                self._own(table, int(number))
        self._lib.mlt_inc_rows(self._w(), table.number, len(numbers),
                               numbers.ctypes.data, values.ctypes.data)

    def update(self, table: Table, row: int) -> np.ndarray:
        """The worker's own update of a shared row for this clock, zeros at
        first: add to it in place."""
        number = self._row(table, row, "shared")
        return self._array(
            table, self._lib.mlt_update_row(self._w(), table.number, number),
            True)

    def offer(self) -> None:
        """What was added may leave before the clock ends (with a bandwidth
        budget): no array of update() is written to any more."""
        self._seal()
        self._lib.mlt_offer(self._w())

    def row(self, table: Table, row: int) -> np.ndarray:
        """A row for reading and writing in place: the worker's own of an
        exclusive or a local table."""
        number = self._own(table, self._row(table, row, "exclusive", "local"))
        return self._array(table,
                           self._lib.mlt_row(self._w(), table.number, number),
                           True)

    def init(self, table: Table, row: int, values: Any) -> None:
        """First values of a row that the worker owns (Table.owned), past the
        rule; before training starts."""
        number = self._own(table, self._row(table, row, "shared",
                                            "exclusive"))
        array = _values(table, values, (table.width,))
        self._lib.mlt_init_row(self._w(), table.number, number,
                               array.ctypes.data)

    def clock(self, table: Optional[Table] = None) -> None:
        """Ends the clock, of all tables or of one: all updates leave. Raises
        Canceled where another worker failed. Under a barrier all workers end
        the same clocks: a worker that ends another table's is a mistake that
        the library answers by aborting the process."""
        if table is not None:
            self._row(table, 0)
        self._seal()
        if self._server._interrupted:
            raise Canceled(FAILED, "interrupted")
        if table is None:
            code = self._lib.mlt_clock(self._w())
            self._ended.clear()
        else:
            code = self._lib.mlt_clock_table(self._w(), table.number)
            if table.flags & OWN_CLOCK:
                self._ended.add(table.number)
        if code:
            raise Canceled(code, "another worker or node failed")

    def part(self, part: int) -> None:
        """This clock, and those that follow, work on that part of the data."""
        self._lib.mlt_clock_part(self._w(), _number(part, "part", ROWS_MAX))

    def row_bytes(self, table: Table) -> int:
        """Bytes of a row with what its rule remembers of it."""
        self._row(table, 0)
        return self._lib.mlt_row_bytes(self._w(), table.number)


class Batch:
    """Rows that were sent for (Worker.begin)."""

    def __init__(self, worker: Worker, table: Table, rows: int,
                 number: int) -> None:
        self.table, self.rows = table, rows
        self._worker, self._number = worker, number

    def wait(self) -> np.ndarray:
        """What Worker.get would give now: a copy [rows, width]. Once, and in
        the clock that it began in."""
        worker = self._worker
        found = (ctypes.c_void_p * max(self.rows, 1))()
        code = worker._lib.mlt_get_rows_wait(worker._w(), self._number,
                                             ctypes.addressof(found))
        if code == NOT_FOUND:
            raise RuntimeError(f"table {self.table.name}: a batch that was "
                               "waited for, or whose clock has ended")
        if code:
            raise Canceled(FAILED, "another worker or node failed")
        return _copy_rows(self.table, self.rows, found)


class Move:
    """A local table on its way to another number of workers, for the length of
    a mover's call."""

    def __init__(self, table: Table, move: Any) -> None:
        self.table, self._move = table, move
        self.workers_before = move.contents.workers_before
        self.workers = move.contents.workers
        self.rows_before = move.contents.rows_before
        self.rows = move.contents.rows

    def _m(self) -> Any:
        if self._move is None:
            raise RuntimeError("a move belongs to the call of its mover")
        return self._move

    def read(self, worker: int, row: int) -> np.ndarray:
        """A copy of the row as worker @worker of before had it."""
        at = _library().mlt_move_from(
            self._m(), _number(worker, "worker", self.workers_before),
            _number(row, "row", self.rows_before))
        out = np.empty(self.table.width, self.table.dtype)
        ctypes.memmove(out.ctypes.data, at, out.nbytes)
        return out

    def write(self, worker: int, row: int, values: Any) -> bool:
        """The row as worker @worker is to have it. False: another node's."""
        at = _library().mlt_move_to(
            self._m(), _number(worker, "worker", self.workers),
            _number(row, "row", self.rows))
        array = _values(self.table, values, (self.table.width,))
        if at:
            ctypes.memmove(at, array.ctypes.data, array.nbytes)
        return bool(at)


# ---- the server ----------------------------------------------------------

class Server:
    """A parameter server. Options as in mlt_ps_options; None: its default.

    Close it, or use it with `with`. Calls other than those of a Worker are
    made while no run is under way, by one thread at a time.
    """

    def __init__(self, workers: int = 0, *, memory_limit: int = 0,
                 consistency: Optional[str] = None, staleness: int = 0,
                 update_rule: Optional[str] = None,
                 learning_rate: float = 0.01, momentum: float = 0.0,
                 seed: int = 1, nodes: int = 1, node: int = 0,
                 meet: Optional[Pathlike] = None,
                 listen: Optional[str] = None, meet_s: float = 0.0,
                 float16: bool = False, access: Optional[str] = None,
                 bandwidth_mbps: float = 0.0, priority: Optional[str] = None,
                 weight_decay: float = 0.0,
                 ring_bytes: int = 0):
        lib = _library()
        options = _Options(
            ctypes.sizeof(_Options), workers, memory_limit,
            _text(consistency), staleness, _text(update_rule), learning_rate,
            momentum, seed, nodes, node, _text(meet), _text(listen), meet_s,
            int(float16), _text(access), bandwidth_mbps, _text(priority),
            weight_decay,
            ring_bytes)
        error, pointer = _Error(), _P()
        _told(lib.mlt_ps_new(options, pointer, error), error)
        self._handle: Any = _Handle(pointer.value or 0)
        self._lib = lib
        self._running = self._interrupted = self._started = False
        self._places = access == "place"
        self._movers: Dict[int, Any] = {}
        self._moving: Optional[BaseException] = None
        self.nodes = max(nodes, 1)
        self.node = node
        self.tables: List[Table] = []
        self.workers = int(lib.mlt_ps_workers(pointer))

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends its threads and frees its memory, once no array of it lives. A
        second time: nothing."""
        if self._running:
            raise RuntimeError("the server runs")
        self._handle = None

    def _handle_idle(self) -> int:
        if self._handle is None:
            raise RuntimeError("the server is closed")
        if self._running:
            raise RuntimeError("not while a run is under way")
        return self._handle.pointer

    def _handle_started(self, started: bool = True) -> int:
        pointer = self._handle_idle()
        if self._started != started:
            raise RuntimeError("before start()" if started else
                               "after start()")
        return pointer

    def table(self, name: str, rows: int, width: int, *, type: str = "f32",
              access: str = "shared", rule: Optional[str] = None,
              read_my_writes: bool = False, momentum: bool = True,
              saved: bool = True, own_clock: bool = False,
              alike: bool = False, chunk_bytes: int = 0,
              undecayed: int = 0) -> Table:
        """Declares a table of @rows rows of @width values, before start().
        type: f32, i32, f64; access: shared, exclusive, local. The last
        @undecayed values of a row (biases) are left alone by weight decay."""
        pointer = self._handle_started(False)
        if type not in TYPES or access not in ACCESS:
            raise ValueError(f"type: one of {', '.join(TYPES)}; access: one of "
                             f"{', '.join(ACCESS)}")
        if not 0 <= rows < ROWS_MAX or not 0 <= width < 2 ** 32:
            raise ValueError("rows and width: 1 and more")
        flags = (read_my_writes * READ_MY_WRITES |
                 (not momentum) * NO_MOMENTUM | (not saved) * NOT_SAVED |
                 own_clock * OWN_CLOCK | alike * ALIKE)
        options = _TableOptions(
            ctypes.sizeof(_TableOptions), name.encode(), rows, width,
            list(TYPES).index(type), ACCESS[access], _text(rule), flags,
            chunk_bytes, _number(undecayed, "undecayed", 2 ** 32))
        number, error = _U32(), _Error()
        _told(self._lib.mlt_ps_table(pointer, options, number, error), error)
        table = Table(self, number.value, name, rows, width, TYPES[type],
                      access, flags)
        self.tables.append(table)
        return table

    def _of(self, table: Table) -> Table:
        if table.server is not self:
            raise ValueError(f"table {table.name} is another server's")
        return table

    def expect(self, table: Table, worker: int, rows: Sequence[int], *,
               part: int = 0, reads: bool = True,
               updates: bool = True) -> None:
        """Rows that a worker will touch in each of its clocks of a part."""
        pointer = self._handle_started(False)
        if self._of(table).access != "shared":
            raise TypeError(f"table {table.name} is not shared")
        numbers = np.ascontiguousarray(rows, np.int64)
        if numbers.ndim != 1 or (len(numbers) and not (
                0 <= numbers.min() and numbers.max() < table.rows)):
            raise IndexError(f"rows of table {table.name}: 0 to "
                             f"{table.rows - 1}")
        if not reads and not updates:
            raise ValueError("reads, updates or both")
        _check(self._lib.mlt_ps_expect(
            pointer, table.number, _number(worker, "worker", self.workers),
            _number(part, "part", ROWS_MAX), reads | updates << 1,
            len(numbers), numbers.ctypes.data))

    def start(self) -> None:
        """Reserves memory, makes branch 0 with all rows zero, starts the
        workers' threads."""
        pointer = self._handle_started(False)
        if not self.tables:
            raise ValueError("no table is declared")
        error = _Error()
        _told(self._lib.mlt_ps_start(pointer, error), error)
        self._started = True

    # ---- running ---------------------------------------------------------

    def run(self, work: Callable[[Worker], Any]) -> List[Any]:
        """Calls @work once in every worker's thread; what they returned, by
        this node's workers. The first exception of one is raised; the others
        get Canceled at their next clock. After an error the active branch,
        and what is forked from it, runs no more: switch to another. Ctrl-C ends the run at the workers'
        next clocks."""
        pointer = self._handle_started()
        local = self.workers // self.nodes
        results: List[Any] = [None] * local
        errors: List[BaseException] = []
        lock = threading.Lock()

        def call(worker: int, _: Any) -> int:
            w = None
            try:
                w = Worker(self, worker)
                results[w.index % local] = work(w)
                return 0
            except BaseException as e:  # pylint: disable=broad-except
                with lock:
                    errors.append(e)
                return e.code if isinstance(e, Canceled) else FAILED
            finally:
                if w is not None:
                    w._end()
        self._running, self._interrupted = True, False
        try:
            code = self._call(pointer, _WORK(call))
        finally:
            self._running = False
        raised = [e for e in errors if not isinstance(e, Canceled)]
        if raised:
            raise raised[0]
        if code:
            raise PsError(code, self._lib.mlt_error_text(code).decode() +
                          ": a worker or another node failed, or there is no "
                          "active branch that can be trained")
        return results

    def _call(self, pointer: int, work: Any) -> int:
        """mlt_ps_run in a thread of its own, so that this one hears Ctrl-C."""
        codes: List[int] = []
        back = threading.Event()  # a join is no use after Ctrl-C: bpo-45274
        stopped: Optional[KeyboardInterrupt] = None

        def run() -> None:
            try:
                codes.append(self._lib.mlt_ps_run(pointer, work, None))
            finally:
                back.set()
        threading.Thread(target=run, name="mltune-ps-run").start()
        while not back.is_set():
            try:
                back.wait(1.0)
            except KeyboardInterrupt as e:
                self._interrupted, stopped = True, e
        if stopped is not None:
            raise stopped
        return codes[0]

    # ---- branches and settings -------------------------------------------

    def _branch(self, branch: int) -> int:
        return _number(branch, "branch", 2 ** 32)

    def fork(self, parent: int) -> int:
        """Forks the state of a branch: the new branch's number."""
        child = _U32()
        _check(self._lib.mlt_ps_fork(self._handle_started(),
                                     self._branch(parent), child))
        return child.value

    def drop(self, branch: int) -> None:
        """Forgets a branch; its rows go where no other has them."""
        _check(self._lib.mlt_ps_drop(self._handle_started(),
                                     self._branch(branch)))

    def switch(self, branch: int) -> None:
        """The branch that workers read and update from now on."""
        _check(self._lib.mlt_ps_switch(self._handle_started(),
                                       self._branch(branch)))

    def clocks(self, branch: int) -> int:
        """Clocks that were ended in a branch and what it was forked from."""
        clocks = _U64()
        _check(self._lib.mlt_ps_clocks(self._handle_started(),
                                       self._branch(branch), clocks))
        return clocks.value

    def set(self, *, learning_rate: Optional[float] = None,
            momentum: Optional[float] = None, staleness: Optional[int] = None,
            bandwidth_mbps: Optional[float] = None,
            weight_decay: Optional[float] = None,
            update_rule: Optional[str] = None) -> None:
        """Settings that act from the next run on, in whatever branch;
        update_rule in tables with rule "any"."""
        pointer = self._handle_idle()
        if learning_rate is not None:
            _check(self._lib.mlt_ps_set_learning_rate(pointer, learning_rate))
        if momentum is not None:
            _check(self._lib.mlt_ps_set_momentum(pointer, momentum))
        if update_rule is not None:
            _check(self._lib.mlt_ps_set_update_rule(pointer,
                                                    update_rule.encode()))
        if weight_decay is not None:
            _check(self._lib.mlt_ps_set_weight_decay(pointer, weight_decay))
        if staleness is not None:
            _check(self._lib.mlt_ps_set_staleness(
                pointer, _number(staleness, "staleness", 2 ** 32)))
        if bandwidth_mbps is not None:
            _check(self._lib.mlt_ps_set_bandwidth(pointer, bandwidth_mbps))

    # ---- files -----------------------------------------------------------

    def save(self, folder: Pathlike) -> None:
        """Every saved table of the active branch as FOLDER/NAME.npy."""
        error = _Error()
        _told(self._lib.mlt_ps_save(self._handle_started(), _text(folder),
                                    error), error)

    def checkpoint(self, folder: Pathlike) -> None:
        """Begins to write the active branch into a new folder; training goes
        on meanwhile. It is whole when checkpoint_end() has returned."""
        error = _Error()
        _told(self._lib.mlt_ps_checkpoint(self._handle_started(),
                                          _text(folder), error), error)

    def checkpoint_done(self) -> bool:
        """Whether what checkpoint() began is written."""
        if self._handle is None:
            raise RuntimeError("the server is closed")
        return bool(self._lib.mlt_ps_checkpoint_done(self._handle.pointer))

    def checkpoint_end(self) -> None:
        """Waits until it is whole."""
        error = _Error()
        _told(self._lib.mlt_ps_checkpoint_end(self._handle_started(), error),
              error)

    def restore(self, folder: Pathlike) -> int:
        """Reads a checkpoint as a new branch, to be switched to."""
        branch, error = _U32(), _Error()
        self._moving = None
        code = self._lib.mlt_ps_restore(self._handle_started(), _text(folder),
                                        branch, error)
        if self._moving is not None:
            raise self._moving
        _told(code, error)
        return branch.value

    def set_mover(self, table: Table, mover: Callable[[Move], None]) -> None:
        """Fills a local table when a checkpoint of another number of workers
        is restored."""
        if self._of(table).access != "local":
            raise TypeError(f"table {table.name} is {table.access}, not local")

        def call(move: Any, _: Any) -> int:
            told = Move(table, move)
            try:
                mover(told)
                return 0
            except BaseException as e:  # pylint: disable=broad-except
                self._moving = e
                return FAILED
            finally:
                told._move = None
        callback = _MOVER(call)
        _check(self._lib.mlt_ps_set_mover(self._handle_idle(), table.number,
                                          callback, None))
        self._movers[table.number] = callback  # the library borrows it
