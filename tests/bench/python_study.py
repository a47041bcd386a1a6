"""One Optuna study of a program of apps/examples, in this process, for a budget of
CPU time: median pruner, TPE, the space of the program's configuration.

    python_study.py '{"program": PATH, "settings": {}, "tunables": {}, "seed": 1,
                      "cpu_s": 100, "epochs": 10}'

The program's file is run as it stands, once a trial, with a stand-in for the
package mltune: it trains plainly, validates after each epoch, and reports to the
trial. Time that later trials take to read and prepare data again is not counted.

Prints one object: trials, pruned, epochs, best metric, its setting, CPU seconds,
and the course: the CPU seconds at which the metric became better, and to what.
"""
import json
import pathlib
import sys
import time
import types

import optuna
import torch

MOST = 10**6  # trials: the budget ends a study


class Over(Exception):
    """The budget is spent."""


class Batch:
    """What the loop sees of a clock."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def loss(self, _loss):
        """The study goes by the validation."""


class Study:
    """Counts CPU time and keeps the best."""

    def __init__(self, job):
        self.job = job
        self.free = 0.0        # seconds that do not count
        self.best, self.setting = None, {}
        self.epochs = self.finished = 0
        self.course = []

    def seconds(self):
        return time.process_time() - self.free

    def suggest(self, trial):
        """A setting of the configuration's space."""
        setting = {}
        for name, t in self.job["tunables"].items():
            if "values" in t:
                setting[name] = trial.suggest_categorical(name, t["values"])
            else:
                setting[name] = trial.suggest_float(
                    name, t["min"], t["max"], log=t.get("scale") == "log")
        return setting

    def train(self, trial):
        """One trial: its last value."""
        begun = time.process_time()
        setting = self.suggest(trial)
        torch.manual_seed(self.job["seed"])
        run = stand_in(self, trial, setting,
                       begun if trial.number > 0 else None)
        path = pathlib.Path(self.job["program"])
        code = compile(path.read_text(), str(path), "exec")
        exec(code, {"__name__": "__main__"})  # pylint: disable=exec-used
        self.finished += 1
        return run["value"]

    def note(self, trial, setting, epoch, value):
        """After an epoch of a trial."""
        self.epochs += 1
        if value == value and (self.best is None or value < self.best):
            self.best, self.setting = value, setting
            self.course.append([round(self.seconds(), 1), value])
        if self.seconds() >= self.job["cpu_s"]:
            raise Over
        trial.report(value, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned


def stand_in(study, trial, setting, begun):
    """Puts a module `mltune` where the program imports it."""
    job, last = study.job, {}
    made = types.ModuleType("mltune")

    class Run:
        def __init__(self, _model, optimizer, samples, batch_size=64, **_):
            self.optimizer, self.samples = optimizer, samples
            self.size = setting.get("batch_size", batch_size)
            self.model = _model
            for group in optimizer.param_groups:
                group["lr"] = setting.get("learning_rate", group["lr"])

        def validate(self, **_):
            def take(function):
                self.check = function
            return take

        def tunable(self, name, default):
            return setting.get(name, default)

        def train(self):
            if begun is not None:
                study.free += time.process_time() - begun
            for epoch in range(job["epochs"]):
                order = torch.randperm(self.samples if isinstance(
                    self.samples, int) else len(self.samples))
                for ids in order.split(self.size):
                    yield Batch(ids)
                self.model.eval()
                with torch.no_grad():
                    last["value"] = float(self.check())
                self.model.train()
                study.note(trial, setting, epoch, last["value"])

    made.Run = Run
    made.config = lambda **known: types.SimpleNamespace(
        **{**known, **job["settings"]})
    sys.modules["mltune"] = made
    return last


def main():
    job = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    sys.path.insert(0, str(pathlib.Path(job["program"]).parent))
    study = Study(job)
    found = optuna.create_study(
        direction="minimize", sampler=optuna.samplers.TPESampler(
            seed=job["seed"]), pruner=optuna.pruners.MedianPruner())
    try:
        found.optimize(study.train, n_trials=MOST)
    except Over:
        pass
    print(json.dumps({
        "trials": len(found.trials),
        "pruned": sum(t.state == optuna.trial.TrialState.PRUNED
                      for t in found.trials),
        "finished": study.finished, "epochs": study.epochs,
        "metric": study.best, "setting": study.setting,
        "course": study.course,
        "cpu_s": study.seconds()}))


if __name__ == "__main__":
    main()
