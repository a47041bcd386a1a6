"""Training loops that mltune can fork: `Run` for loops that the user owns,
`Trainable` for a class with `step` and `validate`."""
import math
import os
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from . import _files
from ._engine import (METRIC_BYTES_MAX, METRICS_MAX, Batch, Engine, Meter,
                      Order, Place, Program, Test, batch_size, check_loss, mix,
                      one_number)
from ._link import Message
from ._session import (Config, Session, config, own_setting,
                       renew_generators, seed_generators, session)
from ._state import (PLAIN, Registry, TreeHolder, Values)

EPOCHS = 10        # of a program that is alone and says nothing else
REDUCTIONS = ("mean", "sqrt_mean", "exp_mean")
_LESS = ("loss", "error", "mse", "mae", "rmse", "perplexity", "ppl", "nll",
         "bpc", "distance", "cost", "wer", "cer", "deviance")


class _Validation:
    """A registered function, and what its numbers mean."""

    def __init__(self, function: Callable[[], Any], metric: Optional[str],
                 better: Optional[str], reduction: str,
                 wanted: Optional[str] = None) -> None:
        self.function = function
        self.wanted = wanted
        self.name = metric or getattr(function, "__name__", "metric")
        self.better = better
        self.reduction = reduction
        self.others: List[str] = []
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction: one of {', '.join(REDUCTIONS)}")
        if better not in (None, "higher", "lower"):
            raise ValueError("better: higher or lower")

    @property
    def higher(self) -> bool:
        if self.better is not None:
            return self.better == "higher"
        return not any(word in self.name.lower().replace("-", "_").split("_")
                       for word in _LESS)

    def result(self, samples: int) -> Test:
        """Calls it. Raises ValueError for what is no result."""
        found = self.function()
        if not isinstance(found, dict):
            return Test(*_terms(found, samples), {})
        name = self.name if self.name in found else next(iter(found), "")
        if not name:
            raise ValueError("validation gave no metric")
        if self.wanted in found and self.wanted != name:
            # What was said of the other is not true of this one.
            name, self.better, self.reduction = self.wanted, None, "mean"
        self.name = name
        values = {k: _terms(v, samples) for k, v in found.items() if k != name}
        self.others = list(values)
        return Test(*_terms(found[name], samples),
                    {k: s / n if n else math.nan for k, (s, n)
                     in values.items()})


def _terms(found: Any, samples: int) -> Tuple[float, int]:
    """Sum and number of samples of a metric: of a pair, or of a mean."""
    if isinstance(found, (tuple, list)):
        if len(found) != 2:
            raise ValueError("validation gives sum and number of samples, or "
                             "a mean")
        return float(found[0]), int(found[1])
    return float(found) * max(1, samples), max(1, samples)


class _Reading(Dict[str, Any]):
    """A setting that notes which tunables are read."""

    def __init__(self, values: Dict[str, Any],
                 declare: Callable[[str, Any], Any]) -> None:
        super().__init__(values)
        self._declare = declare

    def __getitem__(self, name: str) -> Any:
        self._declare(name, dict.get(self, name))
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self._declare(name, default)


class _Log:
    """Sums of what the program logs in a window."""

    def __init__(self) -> None:
        self._sums: Dict[str, Meter] = {}
        self._left_out: Set[str] = set()

    def add(self, name: str, value: Any) -> None:
        if name not in self._sums:
            if name in self._left_out:
                return
            if len(self._sums) >= METRICS_MAX:
                self._leave_out(name)
                return
            if not 0 < len(name.encode()) <= METRIC_BYTES_MAX:
                raise ValueError("run.log: a name has at most "
                                 f"{METRIC_BYTES_MAX} bytes")
            self._sums[name] = Meter()
        self._sums[name].add(one_number(value, f"run.log({name}=...)"), 1)

    def _leave_out(self, name: str) -> None:
        if not self._left_out:
            print(f"mltune: run.log: at most {METRICS_MAX} names: {name!r} and "
                  "those that come later are left out", file=sys.stderr,
                  flush=True)
        self._left_out.add(name)

    def take(self) -> Dict[str, float]:
        means = {}
        for name, meter in self._sums.items():
            total, n = meter.take()
            if n:
                means[name] = total / n
        return means

    @property
    def names(self) -> List[str]:
        return list(self._sums)


def _count(samples: Any, what: str) -> int:
    """@samples, or its length."""
    if isinstance(samples, int):
        return samples
    try:
        return len(samples)
    except TypeError:
        raise TypeError(
            f"{what}: {type(samples).__name__} has no length. mltune trains "
            "every branch on the same samples, by number: give a number, or a "
            "dataset that has __len__ and __getitem__") from None


class Run(Program):
    """A training program, as mltune forks it.

    @state               what training changes: modules, optimizers, schedulers,
                         scalers, anything with state_dict and load_state_dict,
                         tensors, arrays, dictionaries of arrays; by name where
                         given by name. Local variables of the loop are not
                         state: all branches see the same
    @samples             of an epoch: a number, or what has a length
    @validation_samples  0: there is no validation
    @batch_size          without a tuner, and where nothing else is said
    @epochs              without a tuner
    @parts               above 0: an epoch is that many clocks, whatever the
                         batch size
    @keep_gradients      gradients outlive a clock: the loop steps once in
                         several. None: as the first clock shows
    @loss_floor          no loss is below; None: not known
    """

    def __init__(self, *state: Any, samples: Any, validation_samples: Any = 0,
                 batch_size: int = 64, epochs: Optional[int] = None,
                 parts: int = 0, loss_floor: Optional[float] = None,
                 keep_gradients: Optional[bool] = None,
                 config: Optional[Config] = None,
                 **named: Any) -> None:
        self.samples = _count(samples, "samples")
        self.validation_samples = _count(validation_samples,
                                         "validation_samples")
        if self.samples < 1:
            raise ValueError("samples: at least one is needed")
        self.config = config or _config()
        self.epochs = epochs
        self.loss_floor = loss_floor
        self._keep_gradients = keep_gradients
        self.values = Values()
        self.registry = Registry()
        self._own: Dict[str, Any] = {}    # tunables that act, with own defaults
        self._setting: Dict[str, Any] = {}
        self._savers: List[Callable[[str], Any]] = []
        self._hooks: List[Callable[[Any], Any]] = []
        self._validation: Optional[_Validation] = None
        self._log = _Log()
        self._loader: Any = None
        self._frames: List[Any] = []      # adapters of frameworks
        session_ = session()
        if not parts:
            self._own["batch_size"] = batch_size
        self.order = Order(self.samples, self.config.seed, session_.nodes,
                           session_.node_number, parts)
        for x in state:
            self.register(_name(x), x)
        for name, x in named.items():
            self.register(name, x)
        self.registry.add("values", self.values)

    # ---- what the user calls -----------------------------------------------

    def register(self, name: str, x: Any) -> None:
        """More state, before the loop begins."""
        name = self.registry.add(name, x).name
        torch = sys.modules.get("torch")
        if torch is not None:
            from . import torch as mltune_torch
            if not self._frames:
                self._frames.append(mltune_torch.Frame(self))
            self._frames[0].add(name, x)

    def tunable(self, name: str, default: Any = None) -> Any:
        """The branch's value of a tunable; before the loop, its default."""
        return self._declare(name, default)

    def apply(self, function: Callable[[Dict[str, Any]], Any]
              ) -> Callable[[Dict[str, Any]], Any]:
        """Registers a function that makes the program act by a setting, a
        dictionary by name of tunable. Called as each slice begins, with the
        branch's state in place."""
        self._hooks.append(function)
        return function

    def validate(self, function: Optional[Callable[[], Any]] = None, *,
                 metric: Optional[str] = None, better: Optional[str] = None,
                 reduction: str = "mean") -> Any:
        """Registers the function that validates: over the whole validation set.

        It returns a sum over the samples and their number, or a mean, or a
        dictionary of these by name, of which is tuned by what the
        configuration calls "metric", else @metric, else the first one. Modules are in evaluation mode and no gradient is kept
        while it runs.

        @better     `higher` or `lower`; guessed from the name if not said
        @reduction  of sum / samples: mean, sqrt_mean, exp_mean
        """
        def register(f: Callable[[], Any]) -> Callable[[], Any]:
            wanted = self.config.whole.get("metric")
            self._validation = _Validation(f, metric, better, reduction,
                                           wanted)
            return f
        return register if function is None else register(function)

    def saver(self, function: Callable[[str], Any]) -> Callable[[str], Any]:
        """Registers a function that writes the model in a form of its own: new
        files into the folder that it is given. Called with the best state in
        place. Any name but model.json."""
        self._savers.append(function)
        return function

    def log(self, **values: Any) -> None:
        """Further metrics of this clock, numbers or tensors of one element;
        each window has their means."""
        for name, value in values.items():
            self._log.add(name, value)

    def loader(self, dataset: Any, **options: Any) -> Any:
        """Batches of @dataset with worker processes: `batch.data`. Options are
        those of torch.utils.data.DataLoader but for batches and their order,
        which are the branch's."""
        from . import torch as mltune_torch
        self._loader = mltune_torch.Loader(self, dataset, **options)
        return self._loader

    def train(self) -> Iterator[Batch]:
        """The clocks to run. Under a tuner, until it says stop; alone, for
        `epochs`, printing loss and metric."""
        self._declare_frames()
        if self.validation_samples and self._validation is None:
            print("mltune: there are validation_samples, and no function has "
                  "@run.validate: the best epoch is that of the least "
                  "training loss", file=sys.stderr, flush=True)
        if self.config.alone:
            return self._alone()
        found = session()
        if found.engine is not None:
            _refuse_second(found)
        part = f"node-{found.node_number}" if found.nodes > 1 else ""
        found.engine = Engine(found.node, self, self.order, self.config.seed,
                              part, self.config.memory_limit)
        return found.engine.loop()

    # ---- tunables ----------------------------------------------------------

    def _declare(self, name: str, default: Any) -> Any:
        if name not in self._own or self._own[name] is None:
            self._own[name] = default
        if name in self._setting:
            return self._setting[name]
        value = self._default(name)
        if value is None:
            raise KeyError(f"tunable {name!r}: neither the configuration nor "
                           "the program says a default")
        return value

    def _default(self, name: str) -> Any:
        given = own_setting() if self.config.alone else {}
        own = self._own.get(name)
        return given.get(name, self.config.tunable(name, own))

    def _declare_frames(self) -> None:
        for frame in self._frames:
            for name, value in frame.tunables().items():
                self._own.setdefault(name, value)
            frame.prepare(self.order, self._keep_gradients)

    def known(self) -> Dict[str, Any]:
        """Called by the engine."""
        names = {**dict.fromkeys(self.config.tunables), **self._own}
        if self.config.alone:
            names.update(own_setting())
        return {name: self._default(name) for name in names}

    def worst(self) -> Dict[str, Any]:
        """Called by the engine."""
        setting = self.known()
        if "momentum" in self.config.tunables and not setting["momentum"]:
            setting["momentum"] = 0.5  # buffers are there once it is not 0
        return setting

    # ---- what the engine calls ---------------------------------------------

    def seed(self, number: int) -> None:
        """Called by the engine."""
        seed_generators(number)

    def begin(self, kind: str, setting: Dict[str, Any],
              held: Dict[str, Any]) -> Dict[str, Any]:
        """Called by the engine."""
        self._setting = setting
        renew_generators()
        for frame in self._frames:
            held = frame.begin(kind, setting, held)
        for hook in self._hooks:
            hook(_Reading(setting, self._declare))
        return held

    def end(self, kind: str) -> None:
        """Called by the engine."""
        for frame in self._frames:
            frame.end(kind)

    def batch(self, batch: Batch, place: Place) -> None:
        """Called by the engine."""
        if self._loader is not None:
            batch.data = self._loader.get(batch, place)

    def take_values(self) -> Dict[str, float]:
        """Called by the engine."""
        return self._log.take()

    def test(self) -> Test:
        """Called by the engine."""
        validation = self._validation
        assert validation is not None
        for frame in self._frames:
            frame.begin_test()
        try:
            return validation.result(self.validation_samples)
        finally:
            for frame in self._frames:
                frame.end_test()

    def _steady_clocks(self) -> int:
        """Clocks of an epoch where the configuration leaves the batch size to
        the program: the tuner then counts clocks, as it does not know what one
        takes. 0: it does."""
        if "batch_size" in self.config.tunables or \
                not self.config.tunables or self.config.alone:
            return 0
        clock = batch_size(self.known()) * self.order.workers
        return -(-self.order.samples // clock)

    def facts(self) -> Message:
        """Called by the engine."""
        v = self._validation
        floor = self.loss_floor
        return {
            "samples": self.order.samples,
            "validation_samples":
                max(1, self.validation_samples) if v else 0,
            "parts": self.order.parts or self._steady_clocks(),
            "workers": self.order.workers,
            "tunables": sorted(self._own)[:64],
            "metric": v.name[:METRIC_BYTES_MAX] if v else "",
            "metric_higher_better": v.higher if v else True,
            "metric_reduction": v.reduction if v else "mean",
            "loss_floor": "nan" if floor is None else float(floor),
            "metrics": ([*(v.others if v else []), *self._log.names]
                        )[:METRICS_MAX],
            "cuts": "agreed" if self.order.workers > 1 else "own",
        }

    def scratch(self) -> int:
        """Called by the engine."""
        return sum(frame.gradient_bytes() for frame in self._frames)

    def write(self, path: str, trees: Dict[str, Any]) -> int:
        """Called by the engine."""
        return _files.save_tree(path, "state", trees)

    def read(self, path: str) -> Dict[str, Any]:
        """Called by the engine."""
        return _files.load_tree(path, "state")

    def save(self, path: str) -> Tuple[int, Dict[str, Any]]:
        """Called by the engine."""
        os.makedirs(path, exist_ok=True)
        files = [f for frame in self._frames for f in frame.save(path)]
        for saver in self._savers:
            before = set(os.listdir(path))
            saver(path)
            made = sorted(set(os.listdir(path)) - before)
            files += [(n, _files.flush(os.path.join(path, n))) for n in made]
        if not files:
            state = self.registry.first()
            size = _files.save_tree(path, "state", self.registry.export(state))
            files = [(n, size) for n in
                     ("state.pt", "state.npz", "state.json")
                     if os.path.exists(os.path.join(path, n))]
        if any(name == "model.json" for name, _ in files):
            raise ValueError("model.json is mltune's own file in the model's "
                             "folder: name it otherwise")
        size = sum(bytes_ for _, bytes_ in files)
        files = [name for name, _ in files]
        return size, {"tables": [], "app": {}, "files": files}

    # ---- without a tuner ---------------------------------------------------

    def _alone(self) -> Iterator[Batch]:
        epochs = int(os.environ.get("MLTUNE_EPOCHS", "0")) or self.epochs or \
            EPOCHS
        setting = self.known()
        self.begin("training", setting, {})
        seed = mix(self.config.seed, 2)
        place, meter, began = Place(), Meter(), time.perf_counter()
        while place.epoch < epochs:
            ids, count, after = self.order.clock(place, batch_size(setting))
            batch = Batch(ids, count, place, setting, False, meter)
            self.batch(batch, place)
            self.seed(mix(seed, place.clock, self.order.worker))
            yield batch
            check_loss(batch)
            if after.epoch != place.epoch:
                self._say_epoch(place, meter, began, seed)
                began = time.perf_counter()
            place = after
        self.end("training")

    def _say_epoch(self, place: Place, meter: Meter, began: float,
                   seed: int) -> None:
        total, n = meter.take()
        words = [f"epoch {place.epoch + 1}",
                 f"loss {total / n if n else math.nan:.5g}"]
        words += [f"{k} {v:.5g}" for k, v in self.take_values().items()]
        seconds = time.perf_counter() - began
        if self._validation is not None:
            self.seed(mix(seed, place.clock + 1, self.order.worker))
            test = self.test()
            value = test.sum / test.samples if test.samples else math.nan
            value = {"mean": lambda: value, "sqrt_mean": lambda:
                     math.sqrt(value), "exp_mean": lambda: math.exp(value)}[
                         self._validation.reduction]()
            words.append(f"{self._validation.name} {value:.5g}")
            words += [f"{k} {v:.5g}" for k, v in test.values.items()]
        if self.order.worker == 0:
            print("  ".join([*words, f"{seconds:.1f} s"]), flush=True)


def _refuse_second(found: Session) -> None:
    """A program has one training loop. Where it has ended, so has the run, and
    what comes after it is not for mltune: no error."""
    if not found.node.stopped:
        raise RuntimeError("run.train() was called before: under mltune a "
                           "program has one training loop. Make one mltune.Run "
                           "of all that is trained together, or a "
                           "configuration for each loop")
    print("mltune: the run is over. Under mltune a program has one training "
          "loop: the second one is not begun, and the program ends here",
          file=sys.stderr, flush=True)
    sys.exit(0)


def _config() -> Config:
    return config()


def _name(x: Any) -> str:
    """What state is called in snapshots, by what it is."""
    for base in type(x).__mro__:
        word = {"Module": "model", "Optimizer": "optimizer",
                "_LRScheduler": "scheduler", "LRScheduler": "scheduler",
                "GradScaler": "scaler"}.get(base.__name__)
        if word:
            return word
    return type(x).__name__.lower()


class Trainable:
    """A training program as a class. Subclasses define `setup` and `step`, most
    of them `validate`; `run` trains.

    Modules, optimizers, schedulers and scalers that are attributes are the
    branch's state, as are attributes that are plain numbers and words. Data are
    not.
    """

    samples: Any = None
    validation_samples: Any = 0
    batch_size = 64
    epochs: Optional[int] = None
    run_: Run

    def setup(self, config: Config) -> None:
        """Builds the model and loads the data; sets `samples` and
        `validation_samples`."""
        raise NotImplementedError

    def step(self, batch: Batch) -> Any:
        """Trains on `batch.samples`; returns the mean loss, or a dictionary of
        `loss` and further metrics."""
        raise NotImplementedError

    def validate(self) -> Any:
        """See Run.validate."""
        raise NotImplementedError

    def apply(self, setting: Dict[str, Any]) -> None:
        """Makes the program act by a setting; see Run.apply."""

    def loader(self, run: Run) -> Any:
        """Where `batch.data` come from: `run.loader(dataset, ...)`; None: from
        nowhere."""
        return None

    def tunable(self, name: str, default: Any = None) -> Any:
        """The branch's value of a tunable."""
        made = self.__dict__.get("run_")
        if made is None:
            return config().tunable(name, default)
        return made.tunable(name, default)

    def state(self) -> Dict[str, Any]:
        """What is the branch's state, by name of attribute."""
        return {name: x for name, x in vars(self).items()
                if hasattr(x, "state_dict") and hasattr(x, "load_state_dict")}

    def run(self) -> None:
        """Sets up and trains."""
        self.setup(config())
        if self.samples is None:
            raise TypeError("setup() must set `samples`")
        kind = type(self)
        run = Run(samples=self.samples,
                  validation_samples=self.validation_samples,
                  batch_size=self.batch_size, epochs=self.epochs,
                  **self.state())
        run.registry.add("attributes", TreeHolder(
            "attributes", self._plain, self.__dict__.update))
        self.__dict__["run_"] = run
        if kind.validate is not Trainable.validate:
            run.validate(self.validate, metric=getattr(self, "metric", None),
                         better=getattr(self, "better", None))
        self.loader(run)
        if kind.apply is not Trainable.apply:
            run.apply(self.apply)
        for batch in run.train():
            found = self.step(batch)
            if isinstance(found, dict):
                batch.loss(found["loss"])
                run.log(**{k: v for k, v in found.items() if k != "loss"})
            else:
                batch.loss(found)

    def _plain(self) -> Dict[str, Any]:
        return {k: v for k, v in vars(self).items()
                if isinstance(v, PLAIN) and not k.startswith("_")}
