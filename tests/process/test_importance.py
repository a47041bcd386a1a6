"""The importance that the page tells, against Optuna's fANOVA on what is exported."""
import json
import subprocess

from harness import ROOT
import test_serve

RATE = {"type": "float", "min": 1e-5, "max": 1, "scale": "log", "default": 0.01}
MOMENTUM = {"type": "float", "min": 0, "max": 0.99, "default": 0.9}
BATCH = {"type": "int", "values": [16, 64, 256], "default": 64}
DIGITS = "gen:digits?samples=4000&size=12"
LAYERS = [{"type": "dense", "units": 24}, {"type": "relu"},
          {"type": "dense", "units": "outputs"}]

# Optuna's spread over its seeds is measured with so many.
SEEDS = 5
CLOSE = 0.1


def job(seed, app, tunables, searcher="random", **more):
    return {"name": f"importance-{seed}", "app": {"data": DIGITS, **app},
            "cluster": {"workers": 1}, "tunables": tunables, "seed": seed,
            "tuner": {"searcher": searcher, "max_trials": 30,
                      "trial_clocks": 20}, "stop": {"max_epochs": 1}, **more}


JOBS = [
    job(1, {"name": "mlr"}, {"learning_rate": RATE, "momentum": MOMENTUM,
                             "batch_size": BATCH}),
    job(2, {"name": "mlr"}, {"learning_rate": RATE, "momentum": MOMENTUM,
                             "batch_size": BATCH}, "tpe"),
    job(3, {"name": "nn", "layers": LAYERS},
        {"learning_rate": RATE, "momentum": MOMENTUM, "batch_size": BATCH}),
    job(4, {"name": "nn", "layers": LAYERS},
        {"learning_rate": RATE, "batch_size": BATCH},
        ps={"update_rule": "adam"}),
    # The learning rate far too high: trials diverge.
    job(5, {"name": "nn", "layers": LAYERS},
        {"learning_rate": {**RATE, "max": 1000}, "momentum": MOMENTUM}),
]

# Optuna's fANOVA weighs the space as it lies on a linear axis, whatever the
# distribution's own scale (3.1: transform_log=False). On stdin: the study's file,
# its name, whether logarithms are given in place of values. A trial that diverged
# has the speed 0 for the tuner; in the export it has failed.
OPTUNA = """
import json, math, sys, warnings
warnings.simplefilter("ignore")
import optuna
from optuna.distributions import FloatDistribution
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
optuna.logging.set_verbosity(optuna.logging.ERROR)
path, seeds, studies = json.load(sys.stdin)

def told(trial, own):
    params, space = dict(trial.params), dict(trial.distributions)
    for name, d in trial.distributions.items():
        if own and getattr(d, "log", False):
            space[name] = FloatDistribution(math.log(d.low), math.log(d.high))
            params[name] = min(max(math.log(params[name]), space[name].low),
                               space[name].high)
    value = trial.value if trial.state.name == "COMPLETE" else 0.0
    return optuna.create_trial(params=params, distributions=space, value=value)

out = []
for file, name in studies:
    storage = optuna.storages.JournalStorage(
        optuna.storages.JournalFileStorage(file))
    trials = [t for t in optuna.load_study(study_name=name, storage=storage).trials
              if t.state.name == "COMPLETE"
              or t.user_attrs.get("label") == "diverged"]
    for own in True, False:
        study = optuna.create_study(direction="maximize")
        study.add_trials([told(t, own) for t in trials])
        out.append([get_param_importances(
            study, evaluator=FanovaImportanceEvaluator(seed=s))
            for s in range(seeds)])
print(json.dumps(out))
"""


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    middle = mean(values)
    return mean([(v - middle) ** 2 for v in values]) ** 0.5


class Importance(test_serve.Service):
    def ours(self, runs):
        """Of each run: on the tunables' own scales, and all on a linear one."""
        cases = []
        for run in runs:
            base = f"/api/v1/runs/{run}"
            survey = self.get(f"{base}/survey?search=1")
            specs = self.get(f"{base}/searches")["searches"][0]["tunables"]
            linear = {name: {**spec, "scale": "linear"} if "scale" in spec
                      else spec for name, spec in specs.items()}
            cases += [{"survey": survey, "specs": specs},
                      {"survey": survey, "specs": linear}]
        done = subprocess.run(
            ["node", str(ROOT / "tests/browser/importance.js")],
            input=json.dumps(cases), capture_output=True, text=True,
            timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def theirs(self, runs):
        for run in runs:
            done = self.mltune("export", run, "--format", "optuna-journal",
                               "--out", f"{run}.log")
            self.assert_code(done, 0)
        done = subprocess.run(
            ["/usr/bin/python3", "-W", "ignore", "-c", OPTUNA],
            input=json.dumps([".", SEEDS, [[f"{r}.log", f"{r}/search-1"]
                                           for r in runs]]),
            capture_output=True, text=True, timeout=300, cwd=self.folder,
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def compare(self, said, ours, seeds):
        """Ours as Optuna tells it: parts of what single tunables explain."""
        self.assertEqual(set(ours), set(seeds[0]), said)
        alone = sum(ours.values())
        ours = {name: share / alone for name, share in ours.items()}
        of = {name: [s[name] for s in seeds] for name in ours}
        said += f": ours {ours}, Optuna's {of}"
        for name, share in ours.items():
            allowed = max(CLOSE, 2 * deviation(of[name]))
            self.assertLessEqual(abs(share - mean(of[name])), allowed, said)
        for a in ours:
            for b in ours:
                doubt = 2 * (deviation(of[a]) + deviation(of[b])) + CLOSE / 2
                if mean(of[a]) > mean(of[b]) + doubt:
                    self.assertGreater(ours[a], ours[b], said)

    def test_of_five_runs_as_optuna_tells_it(self):
        """The same order, within 0.1 or Optuna's own spread."""
        runs = [self.submit(config) for config in JOBS]
        for run in runs:
            self.wait_for_status(run, "finished")
        diverged = self.get(f"/api/v1/runs/{runs[-1]}/survey?search=1")
        self.assertIn("diverged", diverged["columns"]["label"])
        ours, theirs = self.ours(runs), self.theirs(runs)
        self.assertEqual(len(ours), len(theirs))
        for i, (mine, others) in enumerate(zip(ours, theirs)):
            scale = "linear" if i % 2 else "own"
            self.compare(f"run {i // 2}, {scale} scale", mine, others)
