"""`"metric"` of a configuration: what tuning watches."""
import csv
import json
import shutil
import signal
import sys

import harness
import numpy
import test_log

CLASSES = ["accuracy", "balanced_accuracy", "macro_f1", "log_loss", "auc"]
NUMBERS = ["rmse", "mae", "r2"]
LESS = {"log_loss", "rmse", "mae"}


class Metric(harness.Case):
    def tables(self, numbers=False):
        rng = numpy.random.default_rng(4)
        for name, n in (("train.csv", 200), ("test.csv", 83)):
            x = rng.normal(size=(n, 2)).round(3)
            y = x[:, 0] - x[:, 1] + rng.normal(size=n)
            y = y.round(3) if numbers else numpy.where(y > 0.7, "yes", "no")
            self.write(name, "a,b,y\n" + "".join(
                f"{a},{b},{c}\n" for (a, b), c in zip(x, y)))

    def config(self, app, metric, workers=2, nodes=1, **settings):
        return {"app": {"name": app, "data": "train.csv", "test": "test.csv",
                        **settings},
                "metric": metric, "cluster": {"workers": workers,
                                              "nodes": nodes},
                "stop": {"max_epochs": 4, "plateau_epochs": 100}, "seed": 3}

    def check(self, config, names):
        """The run's metric is what eval, which agrees with scikit-learn, says
        of the saved model; the best epoch is the best by it."""
        metric = config["metric"]
        done = self.run_config(config, "--no-tune", "--json", "--out", "model")
        self.assert_code(done, 0)
        said = self.mltune("eval", "model", "test.csv", "--json").result
        self.assertEqual(list(said["metrics"]), names)
        self.assertEqual(said["metric_name"], metric)
        self.assertAlmostEqual(done.result["best"]["metric"],
                               said["metrics"][metric], delta=1e-6)
        self.assertAlmostEqual(said["metric"], said["metrics"][metric],
                               delta=1e-6)
        model = json.loads((self.folder / "model/model.json").read_text())
        self.assertEqual(model["metric"]["name"], metric)
        self.assertIs(model["metric"]["higher_better"], metric not in LESS)
        run = done.result["run"]
        self.assert_code(self.mltune("export", run, "--format", "csv"), 0)
        with open(self.folder / f"{run}-csv" / "epochs.csv", newline="") as f:
            values = [float(r["metric"]) for r in csv.DictReader(f)]
        self.assertEqual(len(values), 4)
        pick = min if metric in LESS else max
        self.assertEqual(done.result["best"]["metric"], pick(values))
        return done.result

    def test_classes(self):
        self.tables()
        for metric in CLASSES:
            self.check(self.config("mlr", metric), CLASSES)
        self.check(self.config("nn", "auc", 3, preset="mlp"), CLASSES)

    def test_numbers(self):
        self.tables(numbers=True)
        for metric in NUMBERS:
            self.check(self.config("nn", metric, loss="squared",
                                   layers=[{"type": "dense", "units": 4},
                                           {"type": "tanh"},
                                           {"type": "dense", "units": 1}]),
                       NUMBERS)

    def test_nodes_agree(self):
        """The first node measures for all."""
        self.tables()
        one = self.check(self.config("mlr", "auc", 4), CLASSES)
        two = self.check(self.config("mlr", "auc", 2, 2), CLASSES)
        self.assertAlmostEqual(one["metric"], two["metric"], delta=1e-3)

    def test_ratings(self):
        config = harness.mf_config()
        config["metric"] = "mae"
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertLess(done.result["best"]["metric"], 1)
        shown = self.mltune("show", done.result["run"])
        self.assertRegex(shown.out, r"mae [\d.]+ \(lower is better\)")

    def test_target_stops_and_show_names_it(self):
        """A target is reached from the metric's own side."""
        self.tables()
        config = self.config("mlr", "log_loss")
        config["stop"] = {"target_metric": 0.6, "max_epochs": 300,
                          "plateau_epochs": 300}
        config["tuner"] = {"trial_clocks": 8}
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["reason"], "target")
        self.assertLessEqual(done.result["metric"], 0.6)
        run = done.result["run"]
        shown = self.mltune("show", run).out
        self.assertRegex(shown, r"log_loss [\d.]+ \(lower is better\)")
        one = json.loads(self.mltune("show", run, "--json").out)
        self.assertEqual(one["job"]["metric"],
                         {"name": "log_loss", "higher_is_better": False})
        self.assert_code(self.mltune("export", run, "--format", "mlflow",
                                     "--out", "flow"), 0)
        tags = {p.name: p.read_text() for p in
                (self.folder / "flow").rglob("tags/mltune.metric*")}
        self.assertEqual(tags, {"mltune.metric": "log_loss",
                                "mltune.metric_direction": "lower is better"})
        place, = (self.folder / "flow").rglob("tags/mltune.model")
        self.assertEqual(place.read_text(), done.result["model"])

    def test_refused_with_a_list(self):
        self.tables()
        done = self.run_config(self.config("mlr", "rmse"))
        self.assert_code(done, 78)
        self.assertIn("expected a metric of classes: accuracy, "
                      "balanced_accuracy, macro_f1, log_loss, auc, found "
                      '"rmse"', done.err)
        done = self.run_config(self.config("nn", "auc", loss="squared",
                                           layers=[{"type": "dense",
                                                    "units": 1}]))
        self.assert_code(done, 78)
        self.assertIn("a metric of numbers: rmse, mae, r2", done.err)
        three = self.config("mlr", "auc")
        three["app"] = {"name": "mlr", "data": "gen:digits?samples=200&size=8"}
        for more in ([], ["--dry-run"]):
            done = self.run_config(three, *more)
            self.assertNotEqual(done.code, 0)
            self.assertIn('found "auc", which is of two classes', done.err)
        none = self.config("mlr", "auc")
        del none["app"]["test"]
        none["app"]["test_fraction"] = 0
        done = self.run_config(none)
        self.assertNotEqual(done.code, 0)
        self.assertIn("expected validation data to measure", done.err)
        topics = {"app": {"name": "lda", "data": "gen:bow?docs=50"},
                  "metric": "auc"}
        done = self.run_config(topics)
        self.assertNotEqual(done.code, 0)
        self.assertIn('expected "perplexity", the only metric', done.err)

    def test_resume_keeps_it(self):
        config = harness.endless_config()
        config["metric"] = "macro_f1"
        self.write("config.json", config)
        process = self.start("run", "config.json", "--json")
        self.wait_for_training()
        process.send_signal(signal.SIGINT)
        run = self.finish(process).result["run"]
        epochs = self.mltune("show", run, "--json").result["epochs"]
        process = self.start("resume", run, "--json")
        self.wait_until(
            lambda: self.mltune("show", run, "--json").result["epochs"] >
            epochs, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)
        one = self.mltune("show", run, "--json").result
        self.assertEqual(one["job"]["metric"],
                         {"name": "macro_f1", "higher_is_better": True})
        self.assertIsNotNone(one["best"]["metric"])


class Programs(harness.Case):
    def test_a_program_that_validates_by_something_else(self):
        """It is asked for by name, and its own is said."""
        shutil.copy(test_log.LINE, self.folder)
        config = test_log.line_config(epochs=2)
        config["metric"] = "auc"
        done = self.run_config(config, "--json")
        self.assert_code(done, 1)
        self.assertEqual(done.result["reason"], "load_failed")
        self.assertIn("/metric: expected what the program validates by, "
                      "error, found \"auc\"", done.err)
        config["metric"] = "error"
        self.assert_code(self.run_config(config, "--json"), 0)

    def test_python_takes_the_one_that_is_asked_for(self):
        """Of several by name; its direction goes with its name."""
        self.write("train.py", PROGRAM)
        for metric, higher in (("f1", True), ("log_loss", False)):
            config = {"app": {"command": [sys.executable, "train.py"]},
                      "metric": metric,
                      "tunables": {"learning_rate": harness.RATE},
                      "tuner": {"strategy": "fixed"},
                      "stop": {"max_epochs": 2}}
            done = self.run_config(config, "--json")
            self.assert_code(done, 0)
            one = json.loads(self.mltune("show", done.result["run"],
                                         "--json").out)
            self.assertEqual(one["job"]["metric"],
                             {"name": metric, "higher_is_better": higher})
            self.assertEqual({v["name"] for v in one["values"]},
                             {"accuracy", "f1", "log_loss"} - {metric})


PROGRAM = """
import mltune
import numpy

mltune.config()
w = {"w": numpy.zeros(1)}
run = mltune.Run(w, samples=64, validation_samples=8)

@run.validate(metric="accuracy", better="higher")
def scores():
    x = float(w["w"][0])
    return {"accuracy": (4, 8), "f1": x, "log_loss": 1 - x}

for batch in run.train():
    w["w"] += 0.01
    batch.loss(1.0)
"""
