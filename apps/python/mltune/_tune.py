"""`mltune.tune`: a run of `mltune run`, started from a script or a notebook."""
from __future__ import annotations

import csv
import ctypes
import io
import json
import os
import pathlib
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from typing import Any, Callable, Dict, List, Optional, Union

from . import _files, _hand
from ._show import Json, Quiet, setting_text, shower
from ._local import of_run
from .client import Client, ClientError, RemoteRun

LAST_LINES = 30
LOG_FROM = 100  # ranges from this factor on are searched by their logarithm
NOT_NAMED = "the program does not name "  # of mltune run: a tunable's name
PATIENCE_S = 120.0  # for an interrupted run to write its snapshot
_BOOT = ("import sys; sys.path.append(sys.argv[2]); "
         "from mltune._hand import main; main(sys.argv[1])")

Pathlike = Union[str, "os.PathLike[str]"]


class TuneError(Exception):
    """A run that failed: why, and the program's last words. run: its id, or
    None; log: the program's last lines."""

    def __init__(self, text: str, run: Optional[str], log: str) -> None:
        super().__init__(text + (f"\n\n{log}" if log else ""))
        self.run, self.log = run, log


class Interrupted(KeyboardInterrupt):
    """Ctrl-C: the run has ended after a snapshot, and can be resumed. run: its
    id."""

    def __init__(self, run: Optional[str]) -> None:
        super().__init__(
            f"run {run} is interrupted: mltune.tune(..., resume={run!r}) goes "
            "on with it" if run else "interrupted before the run began")
        self.run = run


class Result:
    """What a run found.

    run, status, reason   its id, and how it ended
    setting       the setting in use at the end; best_setting: at the best epoch
    best          {"epoch", "loss", "metric"}
    schedule      which setting was used from which clock, a list
    epochs, seconds, seed
    history       columns by name, an item an epoch of the surviving lineage:
                  epoch, clock, loss, metric, seconds, and the tunables; arrays
                  where numpy is installed, else lists
    trials        the same of the settings that were tried
    path          folder of the best model; model: what is in it, loaded
    told          all that `mltune run --json` said
    """

    def __init__(self, told: Json, tables: Dict[str, List[Json]]) -> None:
        self.told = told
        self.run, self.status = told["run"], told["status"]
        self.reason = told["reason"]
        self.setting, self.schedule = told["setting"], told["schedule"]
        self.best, self.epochs = told["best"], told["epochs"]
        self.seconds, self.seed = told["seconds"], told["seed"]
        self.state = pathlib.Path(told["state"])
        self.path = pathlib.Path(told["model"]) if told["model"] else None
        epochs = tables.get("epochs", [])
        self.history = _columns([r for r in epochs if r["surviving"]],
                                without=("branch", "surviving"))
        self.trials = _columns(tables.get("trials", []), without=("branch",))
        self.best_setting = self._setting_at(epochs) or self.setting
        self._model: Any = None

    def _setting_at(self, epochs: List[Json]) -> Optional[Json]:
        for row in epochs:
            if row["best"]:
                return {k: row[k] for k in self.setting or {} if k in row}
        return None

    @property
    def model(self) -> Any:
        """What the program saved: of PyTorch the state_dict (or one a module),
        of NumPy a dictionary of arrays, of scikit-learn the estimator, else
        all state by name. Files of its own (Run.saver) are in `path`."""
        if self._model is None:
            self._model = _load(self.path)
        return self._model

    def __repr__(self) -> str:
        best = self.best or {}
        return (f"<mltune {self.run}: {self.status} after {self.epochs} "
                f"epochs, best loss {best.get('loss')} metric "
                f"{best.get('metric')}, {setting_text(self.best_setting)}>")


def _load(folder: Optional[pathlib.Path]) -> Any:
    if folder is None:
        raise FileNotFoundError("the run has saved no model")
    if (folder / "model.pt").exists():
        import torch
        return torch.load(folder / "model.pt", map_location="cpu",
                          **_files.safe_loading(torch.load))
    if (folder / "model.npz").exists():
        import numpy
        with numpy.load(folder / "model.npz") as file:
            return dict(file)
    if (folder / "model.pkl").exists():
        return pickle.loads((folder / "model.pkl").read_bytes())
    if any((folder / f"state.{kind}").exists()
           for kind in ("pt", "npz", "json")):
        return _files.load_tree(str(folder), "state")
    raise FileNotFoundError(f"{folder} has no model that is known here: "
                            + ", ".join(sorted(p.name
                                               for p in folder.iterdir())))


def _columns(rows: List[Json], without: Any) -> Dict[str, Any]:
    names = [n for n in (rows[0] if rows else {}) if n not in without]
    columns = {n: [r[n] for r in rows] for n in names}
    try:
        import numpy
    except ImportError:
        return columns
    return {n: numpy.array([float("nan") if v is None else v for v in c]
                           if all(v is None or isinstance(v, (int, float))
                                  for v in c) else c)
            for n, c in columns.items()}


def _value(text: str) -> Any:
    if text in ("", "true", "false"):
        return {"": None, "true": True, "false": False}[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


# ---- the configuration ---------------------------------------------------

def _tunable(name: str, spec: Any) -> Json:
    """The configuration's form of a tunable; see tune()."""
    if isinstance(spec, dict):
        return spec
    if isinstance(spec, tuple):
        if len(spec) != 2 or not all(map(_is_number, spec)):
            raise ValueError(f"tunable {name}: (low, high), not {spec!r}")
        low, high = spec
        if isinstance(low, int) and isinstance(high, int):
            return {"type": "int", "min": low, "max": high}
        log = {"scale": "log"} if low > 0 and high >= LOG_FROM * low else {}
        return {"type": "float", "min": low, "max": high, **log}
    if isinstance(spec, list):
        kind = "categorical" if not all(map(_is_number, spec)) else \
            "int" if all(isinstance(v, int) for v in spec) else "float"
        return {"type": kind, "values": spec}
    if _is_number(spec) or isinstance(spec, str):
        return {"fixed": spec}
    raise ValueError(f"tunable {name}: {spec!r} is no tunable")


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _merged(a: Json, b: Json) -> Json:
    out = dict(a)
    for key, value in b.items():
        out[key] = _merged(out[key], value) if isinstance(value, dict) and \
            isinstance(out.get(key), dict) else value
    return out


def _slug(text: str) -> str:
    """A name as runs have it."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:40] or "run"


def find_program(program: Optional[Pathlike] = None) -> str:
    """Where `mltune` is: as told, MLTUNE_PROGRAM, beside this package, PATH."""
    named = program or os.environ.get("MLTUNE_PROGRAM")
    above = pathlib.Path(__file__).resolve().parents
    beside = [above[i] / name for i, name in
              ((3, "build/release/mltune"), (4, "bin/mltune"))
              if len(above) > i]
    for place in [named] if named else [*beside, shutil.which("mltune")]:
        if place and os.path.isfile(place) and os.access(place, os.X_OK):
            return os.fspath(place)
    raise FileNotFoundError(
        f"{named} is no program" if named else
        "mltune is not there: put its folder into PATH, or name it with "
        "program= or MLTUNE_PROGRAM")


# ---- the process ---------------------------------------------------------

def _die_with_parent() -> Callable[[], None]:
    """A kernel that is killed takes its runs along: they are interrupted, and
    can be resumed. PR_SET_PDEATHSIG, prctl(2)."""
    libc = ctypes.CDLL(None)

    def preexec() -> None:
        libc.prctl(1, signal.SIGINT, 0, 0, 0)
    return preexec


class _Process:
    """`mltune run`, and where it can be asked."""

    def __init__(self, words: List[str], state: pathlib.Path) -> None:
        self.state = state
        self.began = time.time()
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        # Its own session: Ctrl-C comes to us, and goes on to it once.
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
            start_new_session=True, preexec_fn=_die_with_parent())
        self.run: Optional[str] = None
        self.remote: Optional[RemoteRun] = None

    def find(self) -> Optional[str]:
        """The run's id, once it is known: whose lock names the process, and
        behind it how the run ended. A number may come again: locks from before
        it began are others'."""
        if self.run is None:
            for lock in self.state.glob("runs/*/lock"):
                try:
                    if lock.stat().st_mtime >= self.began - 1 and \
                            lock.read_text().split()[:1] == [
                                str(self.process.pid)]:
                        self.run = lock.parent.name
                except OSError:
                    continue
        return self.run

    def look(self) -> Optional[Json]:
        """The run now; None: nobody answers."""
        try:
            if self.remote is None and self.find():
                client = Client._there(
                    of_run(self.state / "runs" / str(self.run)), self.state,
                    {"timeout": 10})
                self.remote = client and client.run(str(self.run))
            return self.remote.look() if self.remote else None
        except (OSError, ClientError):
            return None

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def leave(self) -> None:
        """Interrupts it, and waits for its end for a while."""
        self.interrupt()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            pass

    def kill(self) -> None:
        """Ends it, with all that it started: they end with their tuner."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)

    def text(self, file: Any) -> str:
        file.seek(0)
        return file.read().decode("utf-8", "replace")

    def close(self) -> None:
        self.out.close()
        self.err.close()


class _Shield:
    """Ctrl-C within it comes at its end. Of the main thread alone: no other
    gets any. Where no function of Python takes it (it is ignored, or a program
    around us has a handler of its own) it is left alone."""

    def __init__(self) -> None:
        self._pressed = False
        self._before: Any = None

    def __enter__(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and \
                threading.current_thread() is threading.main_thread():
            self._before = before
            signal.signal(signal.SIGINT, self._note)

    def _note(self, _number: int, _frame: Any) -> None:
        self._pressed = True

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._pressed:
            signal.raise_signal(signal.SIGINT)


def _follow(process: _Process, shown: Quiet) -> None:
    """Until it has ended; Ctrl-C interrupts it. Raises KeyboardInterrupt
    then."""
    interrupted = 0
    until = float("inf")
    while True:
        try:
            process.process.wait(shown.every)
            break
        except subprocess.TimeoutExpired:
            pass
        except KeyboardInterrupt:
            interrupted += 1
            until = time.monotonic() + PATIENCE_S
            process.interrupt()
        try:
            now = process.look()
            if now is not None and not interrupted:
                shown.show(now, process.remote)
        except ClientError:
            pass  # it is about to end
        except KeyboardInterrupt:
            interrupted += 1
            until = time.monotonic() + PATIENCE_S
            process.interrupt()
        if time.monotonic() > until:
            process.kill()
    if interrupted:
        raise KeyboardInterrupt


def _tables(program: str, run: str, state: pathlib.Path) -> Dict[str, Any]:
    """The run's tables, as `mltune export` writes them."""
    with tempfile.TemporaryDirectory(prefix="mltune-") as folder:
        done = subprocess.run(
            [program, "export", run, "--state", str(state), "--format", "csv",
             "-q", "-o", f"{folder}/csv"], capture_output=True, text=True,
            timeout=600, check=False)
        if done.returncode:
            return {}
        found = {}
        for path in pathlib.Path(folder, "csv").glob("*.csv"):
            if path.stem in ("epochs", "trials"):
                rows = csv.DictReader(io.StringIO(
                    path.read_text(encoding="utf-8")))
                found[path.stem] = [{k: _value(v) for k, v in row.items()}
                                    for row in rows]
        return found


def _log_of(state: pathlib.Path, run: Optional[str]) -> str:
    """The program's last lines."""
    if run is None:
        return ""
    lines: List[str] = []
    for path in sorted((state / "runs" / run).glob("node-*.log")):
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 16384))
            found = file.read().decode("utf-8", "replace").splitlines()
        if found:
            lines += found[-LAST_LINES:]
    return "\n".join(lines)


def _end(process: _Process, program: str, shown: Quiet) -> Result:
    """The result of a process that has ended. Raises TuneError."""
    said = "\n".join(line for line in process.text(process.err).splitlines()
                     if not line.startswith("mltune: watch at ")).strip()
    lines = process.text(process.out).strip().splitlines()
    try:
        told = json.loads(lines[-1])
    except (IndexError, ValueError):
        told = {}
    run = told.get("run") or process.run
    if not told or told.get("status") in ("failed", None):
        why = told.get("message") or told.get("reason") or said or \
            f"mltune ended with code {process.process.returncode}"
        if said and said not in why:
            why = f"{said}\n{why}" if told.get("message") else said
        log = _log_of(process.state, run)
        raise TuneError(f"the run failed: {why}", run,
                        "" if log.rpartition("\n")[2] in why else log)
    if NOT_NAMED in said:  # whoever shows no progress is to know it as well
        warnings.warn(said, stacklevel=3)
    elif said:
        shown.say(said)
    result = Result(told, _tables(program, told["run"], process.state))
    shown.finish({**told, "setting": result.best_setting},
                 {k: [None if x is None else float(x)
                      for x in result.history.get(k, ())]
                  for k in ("clock", "loss")})
    return result


def tune(train: Any = None, tunables: Optional[Dict[str, Any]] = None, *,
         settings: Optional[Json] = None, name: Optional[str] = None,
         max_epochs: Optional[int] = None,
         max_time: Union[str, float, None] = None,
         target_metric: Optional[float] = None,
         target_loss: Optional[float] = None, seed: Optional[int] = None,
         nodes: Optional[int] = None, config: Optional[Json] = None,
         state: Pathlike = ".mltune", resume: Optional[str] = None,
         progress: Optional[bool] = None,
         program: Optional[Pathlike] = None) -> Result:
    """Tunes a training function while it trains: runs `mltune run` underneath
    and returns its Result.

    train       a function with a training loop (mltune.Run), or a subclass of
                mltune.Trainable. It runs in a process of its own: a function of
                a module or of a script is loaded there again; one of a
                notebook is handed over by cloudpickle where that is installed,
                else by its source. In a script call tune below
                `if __name__ == "__main__"`
    tunables    by name: (low, high), logarithmic where high is a hundred times
                low; [values]; a number or a text to fix it; {} for a known
                name such as learning_rate; or the configuration's form. None:
                learning_rate and batch_size
    settings    what mltune.config() gives the program
    max_epochs, max_time ("10m"), target_metric, target_loss: what ends the run
    config      more of the configuration, which goes above all else
    state       folder of all runs; kept, so that `mltune ls` and the others
                know the run
    resume      id of an interrupted run, to go on with; nothing else is needed
    progress    False: show nothing; tunables that the program does not have
                are warned of (warnings). Else a line in a terminal, a picture in a
                notebook
    program     the program mltune, if it is not in PATH

    Raises TuneError with the program's last words; Interrupted, a
    KeyboardInterrupt, after Ctrl-C: the run can be resumed.
    """
    if _hand.loading:
        raise RuntimeError('mltune.tune is called while the script is loaded '
                           'to train: put the call below if __name__ == '
                           '"__main__"')
    if resume is None and train is None:
        raise TypeError("train: a function or a class")
    found = find_program(program)
    place = pathlib.Path(state).resolve()
    stop = {"max_epochs": max_epochs, "max_time": max_time,
            "target_metric": target_metric, "target_loss": target_loss}
    if isinstance(max_time, (int, float)):
        stop["max_time"] = f"{max_time:g}s"
    more: Json = {"stop": {k: v for k, v in stop.items() if v is not None},
                  "seed": seed, "cluster": {"nodes": nodes} if nodes else None}
    own = name or _slug(getattr(train, "__name__", "run"))
    folder = None if resume is not None else \
        place / "tune" / f"{_slug(own)}-{uuid.uuid4().hex[:8]}"
    shown = shower(progress)
    process = None
    try:  # from here on an interrupt leaves no folder that no run refers to
        try:
            if folder is None:
                words = [found, "resume", str(resume)]
            else:
                words = [found, "run", str(_configuration(
                    folder, train, own, tunables, settings, more,
                    config or {}))]
            with _Shield():  # one that is started is one that is known
                process = _Process([*words, "--state", str(place), "--json"],
                                   place)
            _follow(process, shown)
        except KeyboardInterrupt:
            if process is None:
                raise Interrupted(None) from None
            process.leave()
            process.find()
            said = process.text(process.out)
            if '"status":"interrupted"' in said or not said.strip():
                raise Interrupted(process.run) from None
            raise  # it had ended by itself
        process.find()
        return _end(process, found, shown)
    finally:
        if process is not None:
            process.kill()
            process.close()
        shown.end()
        if folder is not None and not _has_run(place, process):
            shutil.rmtree(folder, ignore_errors=True)


def _has_run(state: pathlib.Path, process: Optional[_Process]) -> bool:
    """Whether a run began, and is there still."""
    return process is not None and process.find() is not None and \
        (state / "runs" / str(process.run)).is_dir()


def _configuration(folder: pathlib.Path, train: Any, own: str,
                   tunables: Optional[Json], settings: Optional[Json],
                   more: Json, over: Json) -> pathlib.Path:
    """Writes the configuration, and what hands @train over, into @folder of
    the state folder, where a resumed run finds it: the file's path."""
    made: Json = {"name": _slug(own)}
    if tunables is not None:
        made["tunables"] = {k: _tunable(k, v) for k, v in tunables.items()}
    folder.mkdir(parents=True)
    handed = _hand.hand_over(train, folder)
    (folder / "program.json").write_text(json.dumps(handed), encoding="utf-8")
    app: Json = {
        "command": [sys.executable, "-c", _BOOT, str(folder / "program.json"),
                    str(pathlib.Path(__file__).resolve().parents[1])],
        "folder": os.getcwd(), "name": _slug(own)}
    if settings is not None:
        app["settings"] = settings
    made["app"] = app
    made.update((k, v) for k, v in more.items() if v)
    path = folder / "config.json"
    path.write_text(json.dumps(_merged(made, over), indent=1),
                    encoding="utf-8")
    return path
