"""This process as a training system: its connection, configuration and end."""
import _random
import atexit
import importlib.abc
import importlib.machinery
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import traceback
from importlib.machinery import ModuleSpec
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from . import _files
from ._engine import Engine
from ._link import EXIT_LOST, Link, Message
from ._node import Failure, Node

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
REASON_BYTES = 480     # of what the tuner keeps of a reason
LINE_BYTES = 300       # of these, for the exception's own line
GRACE_S = 2.0  # for the program to unwind before the process is ended


class Config(Mapping[str, Any]):
    """The program's settings: `app.settings` of the configuration, above the
    defaults that the program gave. `config.data` is `config["data"]`.

    seed    of everything random
    folder  the working folder of the run
    alone   nobody tunes: the program trains with its defaults
    node, nodes  number of this process, and how many there are
    whole   the run's whole configuration; {} alone
    """

    def __init__(self, values: Dict[str, Any], seed: int, folder: str,
                 alone: bool, node: int, nodes: int,
                 whole: Dict[str, Any]) -> None:
        self._values = values
        self.seed, self.folder, self.alone = seed, folder, alone
        self.node, self.nodes, self.whole = node, nodes, whole

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"there is no setting {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Config({self._values!r}, seed={self.seed})"

    @property
    def tunables(self) -> Dict[str, Dict[str, Any]]:
        """Tunables of the configuration, by name."""
        found = self.whole.get("tunables")
        return found if isinstance(found, dict) else {}

    def tunable(self, name: str, default: Any = None) -> Any:
        """What @name has before anything is tuned: `fixed` or `default` of the
        configuration, else @default."""
        spec = self.tunables.get(name)
        spec = spec if isinstance(spec, dict) else {}
        return spec.get("fixed", spec.get("default", default))

    @property
    def memory_limit(self) -> int:
        """Bytes for branches in this process."""
        memory = self.whole.get("memory")
        limit = memory.get("limit") if isinstance(memory, dict) else None
        return to_bytes(limit) // self.nodes if limit else \
            available_bytes() * 4 // 5 // self.nodes


def to_bytes(size: Any) -> int:
    """A size of the configuration: bytes, or "1.5GiB". Raises Failure."""
    units = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
             "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    if type(size) in (int, float) and size >= 0:
        return int(size)
    text = str(size).strip()
    number = text.rstrip("BkKMGTi ")
    try:
        return int(float(number) * units[text[len(number):].strip() or "B"])
    except (ValueError, KeyError):
        raise Failure("inval",
                      f"/memory/limit: expected a size, not {size!r}") from None


def available_bytes() -> int:
    """Memory that the machine can give."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 1 << 32


class Session:
    """The conversation with a tuner, or none (`alone`)."""

    def __init__(self) -> None:
        self.endpoint = os.environ.get("MLTUNE_TUNER")
        if multiprocessing.parent_process() is not None:
            self.endpoint = None  # a loader's worker that runs the script
        self.alone = not self.endpoint
        self.node_number = int(os.environ.get("MLTUNE_NODE", "0") or 0)
        self.nodes = int(os.environ.get("MLTUNE_NODES", "1") or 1)
        self.engine: Optional[Engine] = None
        self.config: Optional[Config] = None
        self._pid = os.getpid()
        self._ended = self._leaving = False
        self.node = Node(self._send, self.nodes)
        self.link: Optional[Link] = None

    def _send(self, message: Message) -> None:
        if self.link is not None:
            self.link.send(message)

    # ---- the beginning -----------------------------------------------------

    def begin(self, defaults: Dict[str, Any], seed: Optional[int]) -> Config:
        """The configuration, from the tuner or from the environment."""
        if self.alone:
            values = {**defaults, **_object("MLTUNE_SETTINGS")}
            if seed is None:
                seed = int(os.environ.get("MLTUNE_SEED", "1"))
            self.config = Config(values, seed, os.getcwd(), True,
                                 self.node_number, self.nodes, {})
            return self.config
        self._connect()
        message = self.node.wait_config()
        if message is None:
            sys.exit(0)
        whole = message["config"]
        app = whole.get("app")
        settings = app.get("settings") if isinstance(app, dict) else None
        values = {**defaults, **(settings if isinstance(settings, dict)
                                 else {})}
        self.config = Config(values, message["seed"], message["folder"], False,
                             self.node_number, self.nodes, whole)
        return self.config

    def _connect(self) -> None:
        endpoint = self.endpoint
        assert endpoint is not None
        os.environ.pop("MLTUNE_TUNER", None)  # children are not the node
        self.link = Link(endpoint, self._receive, self._beat,
                         self.node.report, self.node.told, self._lost)
        sys.excepthook = self._hook(sys.excepthook)
        atexit.register(self._at_exit)
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self._signal)
        self._send({"kind": "hello", "version": 1, "node": self.node_number,
                    "workers": 1, "pid": os.getpid()})
        self.link.start()

    def _receive(self, message: Message) -> None:
        self.node.receive(message)
        if self.node.stopped and not self._leaving:
            # A clock may be long, or wait for a process that is gone.
            self._leave(0, lambda: self.engine is None or self.engine.running)

    def _beat(self) -> Message:
        engine, link = self.engine, self.link
        assert link is not None
        return {"kind": "beat", "node": self.node_number,
                "bytes_sent": link.bytes_sent,
                "bytes_received": link.bytes_received,
                **(engine.beat() if engine is not None else {"clocks": 0})}

    # ---- the end -----------------------------------------------------------

    def fail(self, code: str, reason: str) -> None:
        """Tells the tuner that the program has failed; it is to end."""
        if self.link is not None and not self.node.stopped:
            self.node.failed(Failure(code, reason))
            self.link.close()

    def _hook(self, before: Any) -> Any:
        def hook(kind: Any, value: Any, trace: Any) -> None:
            if os.getpid() == self._pid and not self._ended:
                self._raised(kind, value, trace)
            before(kind, value, trace)
        return hook

    def _raised(self, kind: Any, value: Any, trace: Any) -> None:
        link = self.link
        assert link is not None
        if self.node.stopped and self.engine is not None and \
                self.engine.running:
            self._end(0)  # the other processes stopped in the midst of a clock
        if not link.connected:
            link.wait_lost()  # others that lost the tuner ended before
        if not self.node.stopped and worker_killed(value):
            # The machine's trouble, which is tried again: to the tuner it is
            # what it would be, had this process been killed itself.
            traceback.print_exception(kind, value, trace)
            sys.stdout.flush()
            sys.stderr.flush()
            _files.remove_temporary()
            os.kill(os.getpid(), signal.SIGKILL)
        self.fail("app", reason_of(kind, value, trace))

    def _at_exit(self) -> None:
        if os.getpid() != self._pid or self._ended:
            return
        self._ended = True
        if not self.node.stopped:
            self.fail("app", "the program ended before the tuner said stop: "
                      "the loop over run.train() was left, or never entered")
        if self.link is not None:
            self.link.close()
            if self.link.garbage > 1:
                print(f"mltune: messages_ignored count={self.link.garbage}",
                      file=sys.stderr)
        _files.remove_temporary()

    def _signal(self, number: int, _frame: Any) -> None:
        if os.getpid() != self._pid:  # a child that did not set its own
            os._exit(128 + number)
        self._ended = True
        self._leave(128 + number)
        raise SystemExit(128 + number)

    def _leave(self, code: int,
               late: Callable[[], bool] = lambda: True) -> None:
        """Ends the process with @code soon, whatever the program does, if it is
        @late then."""
        self._leaving = True

        def end() -> None:
            if late():
                self._end(code)
        timer = threading.Timer(GRACE_S, end)
        timer.daemon = True
        timer.start()

    def _end(self, code: int) -> None:
        """Ends the process at once; what was to be said is sent."""
        self._ended = True
        if self.link is not None and \
                threading.current_thread() is not self.link.thread:
            self.link.close(0.5)
        _files.remove_temporary()
        os._exit(code)

    def _lost(self) -> None:
        """The tuner is gone. On the link's thread: the program is in a clock,
        or waits."""
        print("mltune: the tuner is gone", file=sys.stderr, flush=True)
        _files.remove_temporary()
        os._exit(EXIT_LOST)


def reason_of(kind: Any, value: Any, trace: Any) -> str:
    """What the tuner is told of an exception: its own line, where the user's
    code raised it, and the end of the stack; at most REASON_BYTES."""
    lines = traceback.format_exception_only(kind, value)
    own = lines[-1] if isinstance(value, SyntaxError) else lines[0]
    head = _bytes(own.strip())
    if len(head) > LINE_BYTES:
        head = _whole_characters(head[:LINE_BYTES - 3]) + b"..."
    where = _bytes(_where(value, trace))
    # A folder's name may be long: the file's end says most.
    most = REASON_BYTES - len(head) - 5
    if where:
        head += b"\nat " + (where if len(where) <= most else
                            _whole_characters(where[-most:]))
    stack = _bytes("".join(traceback.format_tb(trace)).rstrip())
    room = REASON_BYTES - len(head) - 1
    if len(stack) > room:
        stack = b"...\n" + _whole_characters(stack[-(room - 4):]) \
            if room > 40 else b""
    return (head + b"\n" + stack if stack else head).decode()


def _bytes(text: str) -> bytes:
    """Half of a pair, as names of files have, cannot be sent as it is."""
    return text.encode("utf-8", "backslashreplace")


def _whole_characters(data: bytes) -> bytes:
    return data.decode("utf-8", "ignore").encode()


def _where(value: Any, trace: Any) -> str:
    """File and line of the innermost frame that is the user's: of no library
    if there is one."""
    if isinstance(value, SyntaxError) and value.filename:
        return f"{value.filename}:{value.lineno}"
    ours = os.path.dirname(os.path.abspath(__file__)) + os.sep
    library = os.path.dirname(os.path.abspath(traceback.__file__)) + os.sep
    frames = [f for f in traceback.extract_tb(trace)
              if not os.path.abspath(f.filename).startswith(ours)]
    users = [f for f in frames
             if not f.filename.startswith((library, "<frozen"))
             and "-packages" + os.sep not in f.filename]
    found = (users or frames)[-1:]
    return f"{found[0].filename}:{found[0].lineno}" if found else ""


def worker_killed(value: Optional[BaseException]) -> bool:
    """A worker process of torch's DataLoader was killed: memory, or a hand."""
    seen = set()
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, RuntimeError):
            text = str(value)
            if "DataLoader worker" in text and "killed by signal" in text:
                return True
        value = value.__cause__ or value.__context__
    return False


_session: Optional[Session] = None


def session() -> Session:
    """This process's, made at the first call."""
    global _session  # pylint: disable=global-statement
    if _session is None:
        _session = Session()
    return _session


def _object(name: str) -> Dict[str, Any]:
    """An object in JSON of the environment. Raises ValueError."""
    text = os.environ.get(name)
    found = json.loads(text) if text else {}
    if not isinstance(found, dict):
        raise ValueError(f"{name}: expected an object in JSON")
    return found


def own_setting() -> Dict[str, Any]:
    """Tunables that a program that is alone was given (MLTUNE_SETTING)."""
    return _object("MLTUNE_SETTING")


Seeder = Callable[[int], Any]
_PYTHON: random.Random = random.seed.__self__  # type: ignore[attr-defined]


def _seed_python(number: int) -> None:
    """random.seed of a whole number, without its Python part."""
    _random.Random.seed(_PYTHON, number)
    _PYTHON.gauss_next = None  # type: ignore[attr-defined]


def _seeders_of(name: str) -> List[Seeder]:
    """What seeds the generators of library @name, where it is imported."""
    library: Any = sys.modules.get(name)
    if library is None:
        return []
    if name == "numpy":
        seed = library.random.seed
        return [lambda number: seed(number & 0xFFFFFFFF)]
    found: List[Seeder] = [library.default_generator.manual_seed]
    if library.cuda.is_initialized():
        found += [generator.manual_seed
                  for generator in library.cuda.default_generators]
    return found


_generators: List[Seeder] = []  # found last
_seeded = 0                     # what they were seeded with last
_with_device = False            # those of CUDA devices were among them


def _uses_device() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def find_generators() -> None:
    """Looks which generators the program has imported; that costs more than
    seeding them, which is about 7 us, and several times that after a clock,
    when nothing of them is in the caches. torch's own torch.manual_seed costs
    ten times what its generator's does."""
    global _with_device  # pylint: disable=global-statement
    _with_device = _uses_device()
    _generators[:] = [_seed_python, *_seeders_of("numpy"),
                      *_seeders_of("torch")]


def renew_generators() -> None:
    """Looks again where a device is used that was not, which is rare; libraries
    that are imported later are seen by _Latecomers."""
    if _uses_device() != _with_device:
        find_generators()


def seed_generators(number: int) -> None:
    """Seeds every generator that was found, or imported since."""
    global _seeded  # pylint: disable=global-statement
    _seeded = number
    for seed in _generators:
        seed(number)


def seed_all(number: int) -> None:
    """Seeds every generator that the program has imported."""
    find_generators()
    seed_generators(number)


class _Latecomers(importlib.abc.MetaPathFinder):
    """Seeds the generators of a library that is imported later, with what the
    others were seeded with: in the midst of a clock, too."""

    def find_spec(self, fullname: str, path: Any,
                  target: Any = None) -> Optional[ModuleSpec]:
        """The usual spec, whose module is seeded once it is executed."""
        if fullname not in ("numpy", "torch"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            for seed in _seeders_of(fullname):
                seed(_seeded)
                _generators.append(seed)
        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def config(seed: Optional[int] = None, **defaults: Any) -> Config:
    """Connects to the tuner that started the program, or stands alone; seeds
    all generators of random numbers; returns the settings.

    To be called before the model is built: its first weights follow the seed.

    @seed      of a program that is alone; else the run's own holds
    @defaults  settings that the configuration may leave out
    """
    found = session()
    made = found.begin(defaults, seed) if found.config is None \
        else found.config
    seed_all(made.seed)
    if not any(isinstance(f, _Latecomers) for f in sys.meta_path):
        sys.meta_path.insert(0, _Latecomers())
    return made
