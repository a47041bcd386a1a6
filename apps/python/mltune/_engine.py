"""Branches, slices, windows, cuts and snapshots of a training program: what
carries out the tuner's requests. It knows nothing of torch.

The program is a `Program`: what registers state, acts on settings and validates.
`Engine.loop` is the training loop seen from inside: it yields a `Batch` for each
clock that is to be run, and does everything else between two of them.
"""
import collections
import ctypes
import math
import os
import sys
import threading
import time
from typing import (Any, Deque, Dict, Iterator, List, NamedTuple, Optional,
                    Tuple)

from ._link import Message
from ._node import Failure, Memory, Node, Operation, Window
from ._state import Registry, State, StateError

TRIM_BYTES = 16 << 20
AHEAD = 16  # clocks whose batches are made at once: what a clock's own work has
            # pushed out of the caches is then read once for all of them
METRICS_MAX = 16
METRIC_BYTES_MAX = 32
_MASK = (1 << 64) - 1


def mix(*numbers: int) -> int:
    """A number of 63 bits that each of @numbers decides (splitmix64)."""
    x = 0x9E3779B97F4A7C15
    for n in numbers:
        x = (x ^ (n & _MASK)) * 0xBF58476D1CE4E5B9 & _MASK
        x = (x ^ (x >> 30)) * 0x94D049BB133111EB & _MASK
        x ^= x >> 31
    return x >> 1


class Place(NamedTuple):
    """Where a branch is: clocks it has run; where in the data it goes on."""
    clock: int = 0
    epoch: int = 0
    at: int = 0     # samples of the epoch seen by all processes; or parts


class Order:
    """The order in which every branch of a run meets the samples: one seeded
    permutation an epoch. A branch's place counts samples, not clocks, so that
    siblings of different batch sizes train on the same ones.

    @samples  an epoch, over all processes; @parts: above 0, an epoch is that
              many clocks, and a clock has no samples of its own
    """

    KEPT = 3  # epochs' permutations; siblings are seldom further apart

    def __init__(self, samples: int, seed: int, workers: int = 1,
                 worker: int = 0, parts: int = 0) -> None:
        self.samples = samples - samples % workers
        self.seed, self.workers, self.worker = seed, workers, worker
        self.parts = parts
        self.wrap = lambda permutation: permutation
        self._known: Dict[int, Any] = {}

    def permutation(self, epoch: int) -> Any:
        """The samples of @epoch in their order."""
        found = self._known.get(epoch)
        if found is None:
            found = self.wrap(permutation(self.samples,
                                          mix(self.seed, 1, epoch)))
            while len(self._known) >= self.KEPT:
                del self._known[min(self._known)]
            self._known[epoch] = found
        return found

    def clock(self, place: Place, batch: int) -> Tuple[Any, int, Place]:
        """This process's samples of the clock at @place, their number, and the
        place after it. An epoch's last clock takes what is left."""
        clock, epoch, at = place
        if self.parts:
            part = at + 1
            after = Place(clock + 1, epoch, part) if part < self.parts else \
                Place(clock + 1, epoch + 1, 0)
            return range(0), 0, after
        count = min(batch * self.workers, self.samples - at)
        share = count // self.workers
        first = at + self.worker * share
        ids = self.permutation(epoch)[first:first + share]
        end = at + count
        if end >= self.samples:
            return ids, share, Place(clock + 1, epoch + 1, 0)
        return ids, share, Place(clock + 1, epoch, end)


def permutation(n: int, seed: int) -> Any:
    """0 to @n - 1 in an order that @seed decides; of NumPy where there is."""
    try:
        import numpy
    except ImportError:
        import array
        import random
        made = array.array("q", range(n))
        random.Random(seed).shuffle(made)
        return made
    words = [seed & 0xFFFFFFFF, seed >> 32]
    return numpy.random.RandomState(words).permutation(n).astype("int64")


class Meter:
    """A weighted sum of losses. Those on a device are added up there, and read
    only by `take`: asking for each would wait for the device each time."""

    def __init__(self) -> None:
        self.samples = 0
        self._sum = 0.0
        self._weight = 0.0
        self._weighted = False
        self._device: Any = None       # sums that lie on a device: values,
        self._device_weight: Any = None  # weights

    def add_number(self, loss: float, samples: int) -> None:
        """@loss: mean over @samples, each weighing one."""
        self.samples += samples
        self._sum += loss * samples
        self._weight += samples

    def add(self, loss: Any, samples: int, weight: Any = None) -> None:
        """@loss: mean over @samples, each weighing one; or all @weight."""
        self.samples += samples
        if weight is None:
            weight = samples
        else:
            self._weighted = True
        if _on_device(loss) or _on_device(weight):
            self._add_on_device(loss, weight)
        else:
            weight = float(weight)
            self._sum += float(loss) * weight
            self._weight += weight

    def _add_on_device(self, loss: Any, weight: Any) -> None:
        x = (loss.detach() if hasattr(loss, "detach") else loss)
        w = weight.detach() if hasattr(weight, "detach") else weight
        add = x.double() * w if hasattr(x, "double") else w.double() * x
        self._device = add if self._device is None else self._device + add
        if hasattr(w, "double"):
            self._device_weight = w.double() if self._device_weight is None \
                else self._device_weight + w
        else:
            self._weight += w

    @property
    def finite(self) -> bool:
        """False once a sum that is at hand is not finite."""
        return math.isfinite(self._sum)

    def take(self) -> Tuple[float, int]:
        """The sum, as over samples that weigh the same, and the samples. Begins
        anew."""
        total, weight, samples = self._sum, self._weight, self.samples
        if self._device is not None:
            total += float(self._device)
        if self._device_weight is not None:
            weight += float(self._device_weight)
        if self._weighted:
            total = total / weight * samples if weight else 0.0
        self.__init__()  # type: ignore[misc]
        return total, samples


def _on_device(x: Any) -> bool:
    device = getattr(x, "device", None)
    return device is not None and getattr(device, "type", "cpu") != "cpu"


class Batch:
    """One clock.

    samples   which samples, as the framework indexes with them
    data      what the run's loader gave for them
    setting   the branch's tunables by name
    clock     clocks that the branch has run before; epoch: and epochs
    probe     the loss is measured and nothing is to be learned
    """

    __slots__ = ("samples", "data", "setting", "clock", "epoch", "probe",
                 "part", "_count", "_meter", "_given")

    def __init__(self, samples: Any, count: int, place: Place,
                 setting: Dict[str, Any], probe: bool, meter: Meter) -> None:
        self.samples, self._count = samples, count
        self.setting, self.probe = setting, probe
        self.clock, self.epoch, self.part = place
        self.data: Any = None
        self._meter = meter
        self._given = False

    def loss(self, loss: Any, samples: Optional[int] = None,
             weight: Any = None) -> None:
        """Says the loss of this clock, or of a part of it.

        @loss     mean over the samples; a number or a tensor of one element
        @samples  how many; those of the batch if not said
        @weight   sum of their weights, where they do not weigh the same
        """
        if samples is None:
            samples = self._count
        if weight is None and (type(loss) is float or
                               getattr(loss, "is_cpu", False)):
            # Nearly all of them; each step more is felt in a short clock.
            try:
                self._meter.add_number(float(loss), samples)
            except (TypeError, ValueError, RuntimeError):
                one_number(loss, "batch.loss(loss)")
                raise
        else:
            one_number(loss, "batch.loss(loss)")
            self._meter.add(loss, samples, weight)
        self._given = True

    def __len__(self) -> int:
        return self._count

    def split(self, parts: int) -> Iterator["Batch"]:
        """The batch in up to @parts parts of about the same size, for
        gradients that are summed over several passes: one step of the optimizer
        a batch. Each part's `loss` counts for its own samples; data are to be
        found by `samples`."""
        n = self._count
        parts = max(1, min(parts, n))
        for i in range(parts):
            first, end = n * i // parts, n * (i + 1) // parts
            part = Batch(self.samples[first:end], end - first,
                         Place(self.clock, self.epoch, self.part),
                         self.setting, self.probe, self._meter)
            yield part
            self._given = self._given or part._given


class _Clock(NamedTuple):
    """A clock to be run."""
    batch: Batch
    seed: int
    after: Place


class Test(NamedTuple):
    """What validation gave."""
    sum: float
    samples: int
    values: Dict[str, float]


class Program:
    """What an engine needs of the program. All are called on its thread."""

    registry: Registry

    def seed(self, number: int) -> None:
        """Seeds every generator of random numbers."""

    def begin(self, kind: str, setting: Dict[str, Any],
              held: Dict[str, Any]) -> Dict[str, Any]:
        """A slice begins; the state is there, with the tunables in it as @held
        says. Makes it act by @setting; returns what it holds now."""
        del kind, held
        return setting

    def end(self, kind: str) -> None:
        """The slice has ended, nothing is captured yet."""

    def batch(self, batch: Batch, place: Place) -> None:
        """Adds what is the program's to a batch: loaded data."""

    def take_values(self) -> Dict[str, float]:
        """Means of what was logged since the last call."""
        return {}

    def test(self) -> Test:
        """Validation on the live state."""
        raise NotImplementedError

    def facts(self) -> Message:
        """Members of `ready` but for model_bytes; asked after the dry clock."""
        raise NotImplementedError

    def known(self) -> Dict[str, Any]:
        """Tunables that a setting may name, with their defaults."""
        raise NotImplementedError

    def worst(self) -> Dict[str, Any]:
        """A setting with which the state is as large as it can become."""
        return self.known()

    def scratch(self) -> int:
        """Bytes that a clock takes beside state, as far as that is known:
        gradients."""
        return 0

    def write(self, path: str, trees: Dict[str, Any]) -> int:
        """Writes the state as files into folder @path, durably; the bytes. On a
        thread of its own. Raises OSError."""
        raise NotImplementedError

    def read(self, path: str) -> Dict[str, Any]:
        """What `write` wrote. Raises OSError, StateError."""
        raise NotImplementedError

    def save(self, path: str) -> Tuple[int, Dict[str, Any]]:
        """Writes the live state as a model: bytes, and `data` of `done`."""
        raise NotImplementedError


class Branch:
    """A branch as it is now, while the node knows what it will be."""

    __slots__ = ("number", "type", "setting", "place", "state", "held",
                 "broken")

    def __init__(self, number: int, type_: str,
                 setting: Optional[Dict[str, Any]], place: Place,
                 state: State, held: Dict[str, Any]) -> None:
        self.number, self.type = number, type_
        self.setting = setting or {}
        self.place, self.state, self.held = place, state, held
        self.broken = ""  # the code of the slice that broke it


class Engine:
    """Carries out what @node grants on the state of @program."""

    def __init__(self, node: Node, program: Program, order: Order, seed: int,
                 folder_part: str = "", memory_limit: int = 0) -> None:
        self.node, self.program, self.order = node, program, order
        self.registry = program.registry
        self.seed_number = mix(seed, 2)
        self.folder_part = folder_part  # of paths, where there are processes
        self.memory_limit = memory_limit
        self.branches: Dict[int, Branch] = {}
        self.running = False      # the loop is under way
        self.clocks = 0           # finished since the start
        self.seconds = 0.0        # of all windows
        self.model_bytes = 0
        self.memory_bytes = 0
        self.like: List[Any] = []
        self._trimmed = 0         # bytes of branches when that was last done,
        self._trim_step = TRIM_BYTES  # which is due when they are so many more
        self._done: Deque[State] = collections.deque()  # of snapshots
        self._writer: Optional[threading.Thread] = None
        self._left: Optional[Branch] = None  # live, and nobody has looked at
        self._late_s = 0.0     # what its last slice did; what that kept waiting

    # ---- the loop ----------------------------------------------------------

    def loop(self) -> Iterator[Batch]:
        """Runs until the tuner says stop. Raises what the program raises."""
        self.running = True
        yield from self._dry_clock()
        facts = {**self.program.facts(),
                 "model_bytes": self.model_bytes}
        try:
            self.node.ready(facts, self.program.known(), Memory(
                self.memory_limit, self.model_bytes,
                self.model_bytes + self.program.scratch(),
                self.order.workers))
        except Failure as failure:
            self.node.failed_to_load(failure)
            sys.exit(1)
        while True:
            o = self._next()
            self._release_written()
            if o is None:
                break
            if o.kind == "schedule":
                yield from self._slice(o)
            else:
                self._carry_out(o)
        if self._writer is not None:
            self._writer.join()
        self.running = False

    def _next(self) -> Optional[Operation]:
        """The next operation. What the slice before did is looked at while the
        tuner decides on it, where none was there when that slice ended. It keeps
        the next one waiting only where that comes so soon that the program has
        then not waited as long again."""
        self._late_s = 0.0
        if self._left is None or not self.node.is_idle():
            return self.node.take()
        began = time.perf_counter()
        self._look()
        looked = time.perf_counter()
        o = self.node.take()
        if time.perf_counter() - looked < looked - began:
            self._late_s = looked - began
        return o

    def _look(self) -> None:
        """What the last slice did to the live state becomes its branch's."""
        b, self._left = self._left, None
        if b is not None:
            b.state = self.registry.capture(b.state)
            self._count_memory()

    def _dry_clock(self) -> Iterator[Batch]:
        """A clock whose effects are taken back: it shows how large the state
        becomes, and errors of the program before anything is tuned."""
        state = self.registry.first()
        setting = self.program.worst()
        held = self.program.begin("training", setting, {})
        meter = Meter()
        place = Place()
        self.program.seed(mix(self.seed_number, 0))
        ids, count, _ = self.order.clock(place, batch_size(setting))
        batch = Batch(ids, count, place, setting, False, meter)
        self.program.batch(batch, place)
        self.program.seed(self._clock_seed(0))
        yield batch
        check_loss(batch)
        self.program.take_values()
        self.program.end("training")
        self.model_bytes, self.like = self.registry.likeness()
        self.model_bytes = max(1, self.model_bytes)
        self._trim_step = max(self.model_bytes, TRIM_BYTES)
        if self.program.facts()["validation_samples"]:
            self.program.begin("testing", setting, held)
            self.program.seed(self._clock_seed(0))
            self.program.test()
            self.program.end("testing")
        self.registry.activate(state)
        self.registry.spares.bytes_max = self.model_bytes
        self.branches[0] = Branch(0, "init", None, Place(), state, {})

    def _clock_seed(self, clock: int) -> int:
        return mix(self.seed_number, clock, self.order.worker)

    # ---- slices ------------------------------------------------------------

    def _slice(self, o: Operation) -> Iterator[Batch]:
        turn = time.perf_counter() - self._late_s
        try:
            b = self._whole_branch(o)
        except Failure as failure:
            self.node.fail(o, failure)
            return
        clocks, ran_s = 0, 0.0
        if self.node.begin_clock(o):
            try:
                self._make_live(b)
            except (MemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
                b.broken = "nomem"
                self.node.fail(o, Failure("nomem", str(error)))
                return
            held = self.program.begin(b.type, b.setting, b.held)
            began = time.perf_counter()
            if b.type == "testing":
                clocks = self._test(o, b)
                ran_s = time.perf_counter() - began
                self.program.end(b.type)
                self.registry.abandon()
            else:
                place, clocks, ended = yield from self._train(o, b, began)
                ran_s = ended - began
                self.program.end(b.type)
                if b.type == "probe":
                    self.registry.abandon()
                else:
                    b.held, self._left = held, b
                    # It has copies, of which some may go; or there is no wait.
                    if b.state.refs > 1 or not b.state.own or \
                            self.node.another_waits(b.number):
                        self._look()
                b.place = place
            self._count_memory()
        switch = time.perf_counter() - turn - ran_s
        self.node.finish(o, branch=o.branch, clocks=clocks,
                         switch_s=max(0.0, switch))

    def _make_live(self, b: Branch) -> None:
        """The state of @b, which goes on where its last slice ended if none of
        another branch was in between."""
        if self._left is b:
            self._left = None
            return
        self._look()
        self.registry.activate(b.state, "train" if b.type == "training"
                               else "test")

    def _train(self, o: Operation, b: Branch,
               began: float) -> Iterator[Batch]:
        """Clocks of the slice, the first of which has been granted."""
        node, program = self.node, self.program
        now = time.perf_counter
        every, size = o.message["report_every"], batch_size(b.setting)
        probe, together = b.type == "probe", self.order.workers > 1
        meter, place, clocks, inside, last = Meter(), b.place, 0, 0, began
        ahead: List[_Clock] = []
        most, more = o.message["count"], True
        while more:
            if not ahead:
                ahead = self._clocks_ahead(b, place, size, meter,
                                           min(most - clocks, AHEAD))
            batch, seed, after = ahead.pop()
            program.batch(batch, place)
            program.seed(seed)
            yield batch
            if not batch._given:
                check_loss(batch)
            if probe:  # S4: whatever the loop did, it has learned nothing
                self.registry.abandon()
                self.registry.activate(b.state, "test")
            place = after
            clocks += 1
            inside += 1
            self.clocks += 1
            # Of several processes none ends alone: others wait for it.
            finite = together or meter.finite
            more = finite and clocks < most and node.begin_clock(o)
            if inside == every or not more:
                total, samples = meter.take()
                ended = now()
                node.add_window(o, Window(total, samples, inside, ended - last,
                                          program.take_values()))
                self.seconds += ended - last
                inside, last = 0, ended
                if not together and not math.isfinite(total):
                    more = False  # known only now: summed on a device
        return place, clocks, last

    def _clocks_ahead(self, b: Branch, place: Place, size: int, meter: Meter,
                      n: int) -> List["_Clock"]:
        """The @n clocks of @b from @place on, the next one last."""
        probe, found = b.type == "probe", []
        for _ in range(n):
            ids, count, after = self.order.clock(place, size)
            found.append(_Clock(
                Batch(ids, count, place, b.setting, probe, meter),
                self._clock_seed(place.clock), after))
            place = after
        found.reverse()
        return found

    def _test(self, o: Operation, b: Branch) -> int:
        """Clocks of a testing branch, each over the whole validation set."""
        clocks, more = 0, True
        while more:
            begin = time.perf_counter()
            self.program.seed(self._clock_seed(b.place.clock))
            test = self.program.test()
            seconds = time.perf_counter() - begin
            clocks += 1
            self.clocks += 1
            self.seconds += seconds
            self.node.add_window(o, Window(test.sum, test.samples, 1, seconds,
                                           test.values))
            more = math.isfinite(test.sum) and clocks < o.message["count"] \
                and self.node.begin_clock(o)
        return clocks

    # ---- other operations --------------------------------------------------

    def _carry_out(self, o: Operation) -> None:
        self._look()
        try:
            if o.kind == "fork":
                self._fork(o)
            elif o.kind == "free":
                self.registry.release(self._branch(o.branch).state)
                del self.branches[o.branch]
                self.node.finish(o, branch=o.branch)
            elif o.kind == "snapshot":
                self._snapshot(o)
            elif o.kind == "restore":
                self._restore(o)
            else:
                self._save(o)
            self._count_memory()
        except Failure as failure:
            self.node.fail(o, failure)

    def _fork(self, o: Operation) -> None:
        parent = self._branch(o.message["parent"])
        child = Branch(o.branch, o.type, o.setting, parent.place,
                       self.registry.share(parent.state), parent.held)
        child.broken = parent.broken
        self.branches[o.branch] = child
        self.node.finish(o)

    def _whole_branch(self, o: Operation) -> Branch:
        b = self._branch(o.branch)
        if b.broken:
            raise Failure(b.broken, f"branch {o.branch} is broken: a slice of "
                          "it failed")
        return b

    def _branch(self, number: int) -> Branch:
        """A branch that was granted: but what was to make it may have failed
        since."""
        if number not in self.branches:
            raise Failure("noent", f"there is no branch {number}")
        return self.branches[number]

    def _path(self, o: Operation) -> str:
        return os.path.join(o.message["path"], self.folder_part)

    def _snapshot(self, o: Operation) -> None:
        b = self._whole_branch(o)
        state = self.registry.share(b.state)
        trees = self._trees(b, state)
        if self._writer is not None:
            self._writer.join()
        self._writer = threading.Thread(
            target=self._write, args=(o, self._path(o), trees, state),
            name="mltune-snapshot", daemon=True)
        self._writer.start()

    def _trees(self, b: Branch, state: State) -> Dict[str, Any]:
        return {"mltune": {"version": 1, "place": tuple(b.place),
                           "held": dict(b.held)},
                "state": self.registry.export(state)}

    def _write(self, o: Operation, path: str, trees: Dict[str, Any],
               state: State) -> None:
        try:
            size = self.program.write(path, trees)
            self.node.finish(o, branch=o.branch, bytes=size)
        except (OSError, RuntimeError) as error:
            self.node.fail(o, Failure("io", f"{path}: {error}"))
        except Exception as error:  # pylint: disable=broad-except
            self.node.fail(o, Failure("app", f"{path}: {error!r}"))
        finally:
            self._done.append(state)

    def _release_written(self) -> None:
        while self._done:
            self.registry.release(self._done.popleft())

    def _restore(self, o: Operation) -> None:
        path = self._path(o)
        try:
            trees = self.program.read(path)
            head = trees["mltune"]
            if head["version"] != 1:
                raise StateError("another version wrote it")
            place = Place(*(int(x) for x in head["place"]))
            held = dict(head["held"])
            state = self.registry.load(trees["state"], self.like)
        except FileNotFoundError as error:
            raise Failure("noent", str(error)) from None
        except OSError as error:
            raise Failure("io", str(error)) from None
        except Exception as error:  # pylint: disable=broad-except
            raise Failure("format", f"{path}: {error}") from None
        self.branches[o.branch] = Branch(o.branch, "kept", None, place, state,
                                         held)
        self.node.finish(o, branch=o.branch)

    def _save(self, o: Operation) -> None:
        b = self._whole_branch(o)
        self.registry.activate(b.state, "look")
        try:
            size, data = self.program.save(self._path(o))
        except OSError as error:
            raise Failure("io", str(error)) from None
        finally:
            self.registry.abandon()
        data["files"] = [os.path.join(self.folder_part, name)
                         for name in data.get("files", [])]
        self.node.finish(o, branch=o.branch, bytes=size, data=data)

    # ---- what beats say ----------------------------------------------------

    def _count_memory(self) -> None:
        self.memory_bytes = self.registry.bytes + self.registry.spares.bytes
        if self.registry.bytes >= self._trimmed + self._trim_step:
            self._trimmed = self.registry.bytes
            give_back_memory()

    def beat(self) -> Message:
        """Members of a beat; on the link's thread."""
        return {"memory_bytes": self.memory_bytes,
                "memory_reserved_bytes": self.node.units * self.model_bytes,
                "memory_limit_bytes": self.memory_limit,
                "branches": self.node.branches, "workers": 1,
                "seconds": self.seconds, "wait_s": 0.0, "copy_s": 0.0,
                "stalled_s": 0.0, "clocks": self.clocks}


def give_back_memory() -> None:
    """Gives pages of the heap that nobody uses back to the system. What clocks
    allocate and free lies between the branches' tensors, and glibc keeps it: a
    quarter more than the branches have."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        pass  # another libc


def batch_size(setting: Dict[str, Any]) -> int:
    """Samples a clock takes in each process."""
    return int(setting.get("batch_size") or 1)


def check_loss(batch: Batch) -> None:
    """Raises RuntimeError where a clock's loss was not said."""
    if not batch._given:
        raise RuntimeError("mltune: batch.loss(...) was not called in this "
                           "clock: nobody would know how it went")


def one_number(x: Any, call: str) -> Any:
    """@x, which has to be one number: a tensor or an array has one element.
    Raises ValueError that names the @call."""
    shape = getattr(x, "shape", None)
    if shape is not None and math.prod(shape) != 1:
        raise ValueError(f"{call}: one number is needed, not "
                         f"{type(x).__name__} of shape {tuple(shape)}; take "
                         "its mean")
    return x


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error) or \
        "can't allocate memory" in str(error)
