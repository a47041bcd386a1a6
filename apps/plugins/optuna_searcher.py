#!/usr/bin/python3
"""Puts an Optuna study behind mltune's searcher protocol.

    "tuner": {"searcher": {"command": ["/usr/bin/python3", "optuna_searcher.py"],
                           "timeout": "30s"},
              "searcher_settings": {"sampler": "tpe"}}

Needs Optuna 3 (Debian: python3-optuna). The study is made anew from what was
told each time mltune asks: so it follows from seed, trials and running trials
alone, a trial that is told again counts once, and a restart, when mltune tells
everything again, changes nothing. docs/searcher-protocol.md has the protocol.
"""
import json
import sys
import warnings

import optuna
from optuna.distributions import (CategoricalDistribution, FloatDistribution,
                                  IntDistribution)
from optuna.trial import TrialState, create_trial

SETTINGS = {"type": "object", "properties": {
    "sampler": {"enum": ["tpe", "random", "qmc"], "default": "tpe",
                "description": "Optuna's sampler"},
    "startup": {"type": "integer", "minimum": 1, "default": 10,
                "description": "random trials before tpe's densities"}}}


class Space:
    """The tunables that are searched, as Optuna's distributions."""

    def __init__(self, tunables, axes):
        self.tunables = tunables
        self.axes = axes
        self.distribution = {n: self.make(tunables[n]) for n in axes}

    @staticmethod
    def make(t):
        if "values" in t:
            return CategoricalDistribution(t["values"])
        log = t["scale"] == "log"
        if t["type"] == "int":
            return IntDistribution(t["min"], t["max"], log=log)
        # Optuna has no scale that is fine near the maximum: it gets the
        # distance from both ends' sum, whose logarithm is uniform.
        if t["scale"] == "reverse_log":
            log = True
        return FloatDistribution(t["min"], t["max"], log=log)

    def mirror(self, name, value):
        """To Optuna's value of a tunable, and back."""
        t = self.tunables[name]
        if t["type"] != "float" or t.get("scale") != "reverse_log":
            return value
        return min(max(t["min"] + t["max"] - value, t["min"]), t["max"])

    def active(self, name, setting):
        for parent, wanted in self.tunables[name].get("when", {}).items():
            if not self.active(parent, setting):
                return False
            value = setting.get(parent, self.tunables[parent].get("fixed"))
            if isinstance(wanted, dict):
                if not wanted["min"] <= value <= wanted["max"]:
                    return False
            elif value not in (wanted if isinstance(wanted, list)
                               else [wanted]):
                return False
        return True

    def parents_first(self):
        done = []

        def visit(name):
            for parent in self.tunables[name].get("when", {}):
                if parent in self.axes:
                    visit(parent)
            if name not in done:
                done.append(name)
        for name in self.axes:
            visit(name)
        return done

    def trial(self, setting, state, value=None):
        names = [n for n in self.axes if self.active(n, setting)]
        return create_trial(
            state=state, value=value,
            params={n: self.mirror(n, setting[n]) for n in names},
            distributions={n: self.distribution[n] for n in names})

    def suggest(self, trial):
        setting = {}
        for name in self.parents_first():
            if self.active(name, setting):
                setting[name] = self.mirror(name, self.draw(trial, name))
        return setting

    def draw(self, trial, name):
        d = self.distribution[name]
        if isinstance(d, CategoricalDistribution):
            return trial.suggest_categorical(name, d.choices)
        if isinstance(d, IntDistribution):
            return trial.suggest_int(name, d.low, d.high, log=d.log)
        return trial.suggest_float(name, d.low, d.high, log=d.log)


class Searcher:
    def open(self, m):
        self.space = Space(m["space"], m["axes"])
        self.settings = m["settings"]
        self.seed = m["seed"]
        self.told = {}  # trial number -> the latest message about it

    def tell(self, m):
        self.told[m["trial"]] = m

    def sampler(self, running):
        seed = (self.seed + 1000003 * len(self.told) + running) % 2 ** 32
        if self.settings["sampler"] == "random":
            return optuna.samplers.RandomSampler(seed=seed)
        if self.settings["sampler"] == "qmc":
            return optuna.samplers.QMCSampler(scramble=True,
                                              seed=self.seed % 2 ** 32)
        return optuna.samplers.TPESampler(
            n_startup_trials=self.settings["startup"], multivariate=True,
            group=True, constant_liar=True, seed=seed)

    def study(self, running):
        study = optuna.create_study(direction="maximize",
                                    sampler=self.sampler(len(running)))
        speeds = [m["speed"] for m in self.told.values()
                  if m["outcome"] in ("speed", "stopped")]
        for _, m in sorted(self.told.items()):
            if m["outcome"] == "failed":
                continue  # says nothing about speed
            speed = m["speed"] if m["outcome"] != "diverged" \
                else min(speeds, default=0.0)
            study.add_trial(self.space.trial(m["setting"], TrialState.COMPLETE,
                                             speed))
        for point in running:
            study.add_trial(self.space.trial(point["setting"],
                                             TrialState.RUNNING))
        return study

    def ask(self, m):
        return self.space.suggest(self.study(m["running"]).ask())


def main():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    searcher = Searcher()
    for line in sys.stdin:
        m = json.loads(line)
        if m["type"] == "tell":
            searcher.tell(m)
            continue
        answer = {"id": m["id"]}
        if m["type"] == "hello":
            answer.update(protocol=1, name="optuna", settings=SETTINGS,
                          summary=f"a study of Optuna {optuna.__version__}")
        elif m["type"] == "open":
            searcher.open(m)
        elif m["type"] == "ask":
            answer["setting"] = searcher.ask(m)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
