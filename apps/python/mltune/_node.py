"""The program's side of the control protocol (docs/protocol.md): no torch, no
socket, no clock.

Messages of the tuner are checked on arrival against what the branches will be
when everything queued has been carried out. Operations come out in their order
for the engine; what it says of them goes back as messages. Memory is a ledger in
complete branches: one that can run costs one, kept ones of the same state one
together.

`receive`, `beat`, `report` and `told` are called on the link's thread, everything else on
the program's; one lock guards what both use.
"""
import collections
import math
import threading
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional

from ._link import Message, text_numbers

QUEUE_MAX = 1024
BRANCHES_MAX = 4000
BRANCHES_LEAST = 5
WINDOWS_MAX = 1000
SETTING_MAX = 64
WHOLE_MAX = 2**63 - 1
BRANCH_NUMBER_MAX = 2**32 - 2
BATCH_MAX = 1 << 24
TOLD_S = 0.01  # the longest that a message may take to leave
TYPES = ("training", "probe", "testing", "kept")
KEPT = ("kept", "init")


class Failure(Exception):
    """What is answered `failed`: a code of base/err.h and the reason."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Window(NamedTuple):
    """Clocks of a slice that are reported as one."""
    sum: float
    samples: int
    clocks: int
    seconds: float
    values: Dict[str, Optional[float]]


class Memory(NamedTuple):
    """What branches may take in each of @nodes processes, all in bytes.
    @scratch: what clocks need beside the branches."""
    limit: int
    branch: int
    scratch: int
    nodes: int = 1

    @property
    def units(self) -> int:
        """Complete branches that fit."""
        return max(0, self.limit - self.scratch) // self.branch

    def refusal(self) -> str:
        """Why it is too small."""
        least = self.nodes * (self.scratch + BRANCHES_LEAST * self.branch)
        each = f" in each of {self.nodes} processes" if self.nodes > 1 else ""
        return (f"a memory.limit of {size_text(self.limit * self.nodes)} "
                f"holds {self.units} complete branches of "
                f"{size_text(self.branch)}{each}, beside "
                f"{size_text(self.scratch)} for gradients and a working copy; "
                f"{BRANCHES_LEAST} are needed: raise memory.limit to "
                f"{-(-least >> 20)}MiB")


def size_text(size: int) -> str:
    """A size for people: "12.5 MiB", "2.00 GiB"."""
    if size < 1 << 30:
        return f"{size / (1 << 20):.1f} MiB"
    return f"{size / (1 << 30):.2f} GiB"


class Operation:
    """A request that was granted and waits, or is being carried out."""

    __slots__ = ("kind", "op", "message", "type", "setting", "cut", "held",
                 "end", "begun", "entry")

    def __init__(self, message: Message) -> None:
        self.kind: str = message["kind"]
        self.op: int = message.get("op", 0)
        self.message = message
        self.type = ""                 # of the branch it concerns
        self.setting: Optional[Dict[str, Any]] = None
        self.cut = False
        self.held = False              # begins no further clock until `cut`
        self.end = WHOLE_MAX           # clocks that may be begun
        self.begun = 0
        self.entry: Optional["_Entry"] = None  # that it made

    @property
    def branch(self) -> int:
        return self.message["branch"]


class _Entry:
    """A branch as it will be once the queue is empty."""

    __slots__ = ("type", "group", "setting")

    def __init__(self, type_: str, group: int,
                 setting: Optional[Dict[str, Any]]) -> None:
        self.type, self.group, self.setting = type_, group, setting


def whole(message: Message, name: str, least: int = 0,
          most: int = WHOLE_MAX) -> int:
    """Member @name. Raises ValueError where it is no whole number in range."""
    value = message.get(name)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{message['kind']}: {name}")
    return value


def text(message: Message, name: str, most: int) -> str:
    """Member @name, of 1 to @most bytes, or ValueError."""
    value = message.get(name)
    if not isinstance(value, str) or not 0 < len(value.encode()) <= most:
        raise ValueError(f"{message['kind']}: {name}")
    return value


def _is_setting(values: Any) -> bool:
    return (isinstance(values, dict) and len(values) <= SETTING_MAX and
            all(type(v) in (int, float, str) for v in values.values()))


def check_value(name: str, value: Any) -> None:
    """Raises Failure where a tunable that everybody knows cannot be @value."""
    number = type(value) in (int, float) and math.isfinite(value)
    if name == "learning_rate" and not (number and value >= 0):
        raise Failure("inval", "learning_rate: expected a number >= 0")
    if name == "momentum" and not (number and 0 <= value < 1):
        raise Failure("inval",
                      "momentum: expected a number from 0 to below 1")
    if name == "batch_size" and not (number and value == int(value) and
                                     1 <= value <= BATCH_MAX):
        raise Failure("inval", "batch_size: expected a whole number from 1 "
                               f"to {BATCH_MAX}")


class Node:
    """What the tuner talks to. @send takes messages for it, from any thread."""

    def __init__(self, send: Callable[[Message], None], nodes: int = 1) -> None:
        self.send = send
        self._mutex = threading.RLock()  # by itself where nobody waits
        self._lock = threading.Condition(self._mutex)
        self._nodes = nodes
        self._config: Optional[Message] = None
        self._serving = self.stopped = False
        self._last_op = 0
        self._next_clock = 0
        self._queue: Deque[Operation] = collections.deque()
        self._running: Optional[Operation] = None
        self._untold = False            # an end that is not on its way yet
        self._last_slice: Optional[Operation] = None
        self._entries: Dict[int, _Entry] = {0: _Entry("init", 0, None)}
        self._groups: Dict[int, int] = {0: 1}
        self._group = 0
        self._memory = Memory(0, 1, 0)
        self._known: Dict[str, Any] = {}
        self._validation = 0
        self._snapshot = False          # one waits, or is being written
        self._snapshot_group: Dict[int, int] = {}
        self._windows: List[Window] = []
        self._windows_at = 0            # first clock of the first of them

    # ---- messages of the tuner (the link's thread) -------------------------

    def receive(self, m: Message) -> None:
        """Takes @m in. Raises ValueError for what a node is never sent."""
        kind = m["kind"]
        with self._lock:
            if self.stopped:
                return
            if kind == "config":
                self._take_config(m)
            elif kind in ("cut", "hold"):
                self._take_cut(m, kind == "hold")
            elif kind == "stop":
                self._take_stop(m)
            elif kind in _CHECKS:
                self._take_request(m, kind)
            else:
                raise ValueError(f"kind {kind}")
            self._lock.notify_all()

    def _take_config(self, m: Message) -> None:
        if "op" in m:
            whole(m, "op", 1)
        if not isinstance(m.get("config"), dict):
            raise ValueError("config: config")
        text(m, "folder", 1 << 16)
        whole(m, "seed")
        if self._config is not None:
            self._say_failed(m, Failure("exist",
                                        "this node has its configuration"))
            return
        self._last_op = m.get("op", 0)
        self._config = m

    def _take_stop(self, m: Message) -> None:
        if "op" in m:
            self.send({"kind": "done", "op": whole(m, "op", 1)})
        self.stopped = True
        self._queue.clear()

    def _slice(self, op: int) -> Optional[Operation]:
        for o in [self._running, *self._queue, self._last_slice]:
            if o is not None and o.op == op and o.kind == "schedule":
                return o
        return None

    def _take_cut(self, m: Message, hold: bool) -> None:
        """A cut that finds no slice came too late: it has ended by itself."""
        target = whole(m, "target", 1)
        op = whole(m, "op", 1) if "op" in m else 0
        clocks = whole(m, "clocks") if "clocks" in m else None
        o = self._slice(target)
        answer: Message = {"kind": "done", "op": op}
        if o is not None and hold:
            o.held = True
            o.end = o.begun
            answer["clocks"] = o.begun
        elif o is not None:
            o.held = False
            o.cut = True
            o.end = o.begun if clocks is None else max(clocks, o.begun)
        elif hold:
            answer["clocks"] = 0
        if op:
            self.send(answer)

    def _take_request(self, m: Message, kind: str) -> None:
        op = whole(m, "op", 1)
        o = Operation(m)
        check = _CHECKS[kind]
        try:
            check.shape(m)
            self._check_state(op)
            check.grant(self, m, o)
        except Failure as failure:
            self._say_failed(m, failure)
            return
        self._last_op = op
        self._queue.append(o)

    def _check_state(self, op: int) -> None:
        if self._config is None:
            raise Failure("proto", "there was no `config` yet")
        if not self._serving:
            raise Failure("busy", "the program is being loaded")
        if len(self._queue) >= QUEUE_MAX:
            raise Failure("limit", f"{QUEUE_MAX} operations wait already")
        if op <= self._last_op:
            raise Failure("proto", f"op {op} comes after op {self._last_op}")

    def _live(self, number: int) -> _Entry:
        if number not in self._entries:
            raise Failure("noent", f"there is no branch {number}")
        return self._entries[number]

    def _check_room(self, number: int, more: int) -> None:
        if number in self._entries:
            raise Failure("exist", f"branch {number} exists already")
        if len(self._entries) >= BRANCHES_MAX:
            raise Failure("limit", f"{BRANCHES_MAX} branches live already")
        self._check_units(more)

    def _check_units(self, more: int) -> None:
        m = self._memory
        if self.units + more > m.units:
            raise Failure("limit", f"memory holds {m.units} complete branches "
                          f"of {size_text(m.branch)}, and all are in use; free "
                          "one, or raise memory.limit by "
                          f"{-(-m.branch * m.nodes >> 20)}MiB for each more")

    def _new_group(self) -> int:
        self._group += 1
        self._groups[self._group] = 0
        return self._group

    def _take_group(self, group: int) -> None:
        self._groups[group] += 1

    def _give_group(self, group: int) -> None:
        self._groups[group] -= 1
        if self._groups[group] == 0:
            del self._groups[group]

    def _add(self, number: int, type_: str, group: int,
             setting: Optional[Dict[str, Any]]) -> _Entry:
        self._take_group(group)
        self._entries[number] = _Entry(type_, group, setting)
        return self._entries[number]

    def _full_setting(self, values: Dict[str, Any]) -> Dict[str, Any]:
        setting = dict(self._known)
        for name, value in values.items():
            if name not in setting:
                raise Failure("inval",
                              f"{name}: this program has no such tunable")
            check_value(name, value)
            setting[name] = value
        return setting

    # Each check of a request looks at everything before it changes anything.

    def _grant_fork(self, m: Message, o: Operation) -> None:
        parent = self._live(m["parent"])
        if m["type"] == "testing" and self._validation == 0:
            raise Failure("unsupported",
                          "this program has no validation data to test on")
        setting = None
        if m["type"] != "kept":
            setting = self._full_setting(m["setting"])
        shares = parent.type == "kept" and m["type"] == "kept"
        self._check_room(m["branch"], 0 if shares else 1)
        group = parent.group if shares else self._new_group()
        o.entry = self._add(m["branch"], m["type"], group, setting)
        o.type, o.setting = m["type"], setting
        self.send({"kind": "forked", "op": m["op"], "branch": m["branch"]})

    def _grant_free(self, m: Message, o: Operation) -> None:
        o.type = self._live(m["branch"]).type
        self._give_group(self._entries.pop(m["branch"]).group)

    def _grant_schedule(self, m: Message, o: Operation) -> None:
        b = self._live(m["branch"])
        if b.type in KEPT:
            raise Failure("inval", f"branch {m['branch']} is {b.type}: no "
                          "clock runs in it")
        if m["first"] < self._next_clock:
            raise Failure("inval", f"clock {m['first']} belongs to another "
                          f"slice; the next free one is {self._next_clock}")
        if (m["count"] - 1) // m["report_every"] >= WINDOWS_MAX:
            raise Failure("inval", "report_every: a slice has at most "
                          f"{WINDOWS_MAX} windows")
        self._next_clock = m["first"] + m["count"]
        o.type, o.setting, o.end = b.type, b.setting, m["count"]

    def _grant_snapshot(self, m: Message, o: Operation) -> None:
        b = self._live(m["branch"])
        if b.type not in KEPT:
            raise Failure("inval",
                          f"branch {m['branch']} is {b.type}, not kept")
        if self._snapshot:
            raise Failure("busy", "another snapshot is being written")
        self._snapshot = True
        self._snapshot_group[o.op] = b.group
        self._take_group(b.group)
        o.type = b.type

    def _grant_restore(self, m: Message, o: Operation) -> None:
        self._check_room(m["branch"], 1)
        o.entry = self._add(m["branch"], "kept", self._new_group(), None)
        o.type = "kept"

    def _grant_save(self, m: Message, o: Operation) -> None:
        o.type = self._live(m["branch"]).type

    def _grant_rows(self, m: Message, _o: Operation) -> None:
        self._live(m["branch"])
        raise Failure("noent", f"{m.get('table')}: this program has no tables")

    # ---- the program's thread ----------------------------------------------

    def wait_config(self) -> Optional[Message]:
        """The configuration, once it is there; None: stopped before."""
        with self._lock:
            while self._config is None and not self.stopped:
                self._lock.wait()
            return None if self.stopped else self._config

    def ready(self, facts: Message, known: Dict[str, Any],
              memory: Memory) -> None:
        """The program is loaded. @facts: the members of `ready`; @known: every
        tunable that a setting may name, with its default; @memory: for complete
        branches, branch 0 among them. Raises Failure, said by
        `failed_to_load`."""
        if memory.units < BRANCHES_LEAST:
            raise Failure("limit", memory.refusal())
        with self._lock:
            self._known = dict(known)
            self._validation = facts["validation_samples"]
            self._memory = memory
            self._serving = True
            self.send({"kind": "ready", "op": self._config_op(), **facts})

    def failed_to_load(self, failure: Failure) -> None:
        """Answers the configuration: nothing will be granted."""
        with self._lock:
            self.send({"kind": "failed", "op": self._config_op(),
                       "code": failure.code, "reason": cut_text(failure)})
            self.stopped = True

    def failed(self, failure: Failure) -> None:
        """The program itself has failed; it ends."""
        with self._lock:
            if self._config is not None and not self._serving:
                self.failed_to_load(failure)
                return
            self.send({"kind": "failed", "code": failure.code,
                       "reason": cut_text(failure)})
            self.stopped = True

    def _config_op(self) -> int:
        return self._config.get("op", 0) if self._config else 0

    def take(self) -> Optional[Operation]:
        """The next operation; waits for one. None: the run is over. The one
        before is finished."""
        with self._lock:
            self._running = None
            while not self._queue and not self.stopped:
                self._lock.wait()
            if self.stopped:
                return None
            self._running = self._queue.popleft()
            return self._running

    def is_idle(self) -> bool:
        """Whether no operation waits, and the tuner has been told of the end of
        the one before; waits until it has. There is time for other work then."""
        with self._lock:
            self._lock.wait_for(lambda: not self._untold or self._queue or
                                self.stopped, TOLD_S)
            return not self._queue and not self.stopped

    def another_waits(self, branch: int) -> bool:
        """Whether the next operation is there, and no slice of @branch."""
        with self._mutex:
            return bool(self._queue) and (
                self._queue[0].kind != "schedule" or
                self._queue[0].branch != branch)

    def told(self) -> None:
        """All that was given to `send` is on its way."""
        if self._untold:
            with self._lock:
                self._untold = False
                self._lock.notify_all()

    def begin_clock(self, o: Operation) -> bool:
        """Whether slice @o goes on with another clock; waits while the tuner
        asks all nodes how far they are."""
        with self._mutex:
            while o.begun >= o.end and o.held and not self.stopped:
                self._lock.wait()
            if o.begun >= o.end or self.stopped:
                return False
            o.begun += 1
            return True

    def add_window(self, o: Operation, window: Window) -> None:
        """A complete window; reported within a second by the link's thread."""
        with self._mutex:
            self._windows.append(window)

    def finish(self, o: Operation, **members: Any) -> None:
        """Operation @o was carried out. Of a slice its windows go first."""
        with self._lock:
            self._finish(o, {"kind": "done", "op": o.op, **members})

    def fail(self, o: Operation, failure: Failure) -> None:
        """Operation @o has failed."""
        with self._lock:
            self._finish(o, {"kind": "failed", "op": o.op,
                             "branch": o.branch, "code": failure.code,
                             "reason": cut_text(failure)})

    def _finish(self, o: Operation, answer: Message) -> None:
        if o.kind == "schedule":
            report = self._report(o)
            if report is not None and not self.stopped:
                self.send(report)
            self._windows_at = 0
            self._last_slice = o
        if o.kind == "snapshot":
            self._snapshot = False
            self._give_group(self._snapshot_group.pop(o.op))
        failed = answer["kind"] == "failed"
        if failed and o.entry is not None and \
                self._entries.get(o.branch) is o.entry:
            del self._entries[o.branch]  # there is no such branch after all
            self._give_group(o.entry.group)
        if not self.stopped and (failed or o.kind != "fork"):
            self._untold = True
            self.send(answer)

    # ---- both threads ------------------------------------------------------

    def report(self) -> bool:
        """Sends the windows that are complete and not reported; whether there
        were some. Before the lock is given back: the slice's end follows them."""
        with self._lock:
            o = self._running
            if o is None or o.kind != "schedule" or self.stopped:
                return False
            report = self._report(o)
            if report is not None:
                self.send(report)
            return report is not None

    def _report(self, o: Operation) -> Optional[Message]:
        windows, self._windows = self._windows, []
        if not windows:
            return None
        first = o.message["first"] + self._windows_at
        self._windows_at += sum(w.clocks for w in windows)
        none = [0.0] * len(windows)
        m = {"kind": "report", "op": o.op, "branch": o.branch, "first": first,
             "sum": text_numbers([w.sum for w in windows]),
             "samples": [w.samples for w in windows],
             "clocks": [w.clocks for w in windows],
             "seconds": [w.seconds for w in windows],
             "wait_s": none, "copy_s": none, "stalled_s": none}
        names = sorted({name for w in windows for name in w.values})
        if names:
            m["values"] = {name: [None if w.values.get(name) is None else
                                  text_numbers([w.values[name]])[0]
                                  for w in windows] for name in names}
        return m

    def _say_failed(self, m: Message, failure: Failure) -> None:
        answer = {"kind": "failed", "op": m.get("op", 0),
                  "code": failure.code, "reason": cut_text(failure)}
        if type(m.get("branch")) is int:
            answer["branch"] = m["branch"]
        self.send(answer)

    @property
    def units(self) -> int:
        """Complete branches that memory is reserved for."""
        return len(self._groups)

    @property
    def branches(self) -> int:
        """Live ones, once the queue is empty."""
        return len(self._entries)


def cut_text(failure: Failure, bytes_max: int = 1023) -> str:
    """The reason, as long as a message may have it: its end."""
    data = failure.reason.encode("utf-8", "replace")
    return data[-bytes_max:].decode("utf-8", "ignore")


# ---- shapes of requests ------------------------------------------------------


def _shape_fork(m: Message) -> None:
    whole(m, "branch", 0, BRANCH_NUMBER_MAX)
    whole(m, "parent", 0, BRANCH_NUMBER_MAX)
    if m.get("type") not in TYPES or not _is_setting(m.get("setting")):
        raise ValueError("fork: type or setting")


def _shape_branch(m: Message) -> None:
    whole(m, "branch", 0, BRANCH_NUMBER_MAX)


def _shape_schedule(m: Message) -> None:
    _shape_branch(m)
    whole(m, "first")
    whole(m, "count", 1)
    whole(m, "report_every", 1)


def _shape_path(m: Message) -> None:
    _shape_branch(m)
    text(m, "path", 1023)


def _shape_rows(m: Message) -> None:
    _shape_branch(m)
    text(m, "table", 64)


class _Check(NamedTuple):
    shape: Callable[[Message], None]
    grant: Callable[[Node, Message, Operation], None]


# pylint: disable=protected-access
_CHECKS: Dict[str, _Check] = {
    "fork": _Check(_shape_fork, Node._grant_fork),
    "free": _Check(_shape_branch, Node._grant_free),
    "schedule": _Check(_shape_schedule, Node._grant_schedule),
    "snapshot": _Check(_shape_path, Node._grant_snapshot),
    "restore": _Check(_shape_path, Node._grant_restore),
    "save": _Check(_shape_path, Node._grant_save),
    "rows": _Check(_shape_rows, Node._grant_rows),
}
