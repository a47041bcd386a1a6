"""Linear models and ranks as processes: glm beside scikit-learn, barriers by
configuration, pagerank to its own tolerance."""
import csv
import io
import json
import lzma
import os
import pathlib
import signal

from harness import ROOT, Case

import numpy
from sklearn import metrics
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression, Ridge

SPEC = "gen:libsvm?samples=3000&columns=200&entries=12"


def samples(name):
    return load_svmlight_file(str(name), zero_based=True)


class Glm(Case):
    def data(self, spec=SPEC, name="train.svm"):
        self.assert_code(self.mltune("data", "gen", spec, name), 0)
        return samples(self.folder / name)

    def train(self, app, fixed, **more):
        config = {"app": {"name": "glm", "data": "train.svm",
                          "test_fraction": 0, **app},
                  "cluster": {"workers": 1},
                  "tunables": {name: {"fixed": value}
                               for name, value in fixed.items()},
                  "stop": {"max_epochs": 60, "plateau_epochs": 60}, "seed": 3,
                  **more}
        done = self.run_config(config, "--no-tune", "--json", "--out", "model")
        self.assert_code(done, 0)
        weights = numpy.load(self.folder / "model" / "weights.npy")
        return done.result, weights.astype(float)

    def test_saga_reaches_the_objective_of_scikit_learn(self):
        """Logistic loss, with an l2 and an elastic net penalty, to 1e-4."""
        x, y = self.data()
        for ratio in 0, 0.5:
            with self.subTest(ratio):
                lam = 1e-3

                def objective(w, b):
                    z = y * (x @ w + b)
                    return (numpy.logaddexp(0, -z).mean() + lam *
                            (ratio * abs(w).sum() + (1 - ratio) / 2 * w @ w))

                peer = LogisticRegression(
                    penalty="elasticnet", solver="saga", l1_ratio=ratio,
                    C=1 / (lam * len(y)), tol=1e-6, max_iter=2000).fit(x, y)
                best = objective(peer.coef_[0], peer.intercept_[0])
                _, w = self.train({"solver": "saga", "lambda": lam, "clock": "pass",
                                   "l1_ratio": ratio}, {"learning_rate": 0.3})
                got = objective(w[:x.shape[1], 0], w[-1, 0])
                self.assertLess(got, best * (1 + 1e-4))

    def test_sgd_reaches_the_ridge_of_scikit_learn(self):
        """Squared loss: the weights that Ridge solves for."""
        x, y = self.data(SPEC + "&classes=0")
        lam = 1e-2
        peer = Ridge(alpha=lam * len(y)).fit(x, y)
        _, w = self.train({"loss": "squared", "lambda": lam, "clock": "pass"},
                          {"learning_rate": 1},
                          stop={"max_epochs": 600, "plateau_epochs": 600})
        self.assertLess(abs(w[:x.shape[1], 0] - peer.coef_).max(), 2e-3)

    def test_a_run_tunes_rate_batch_staleness_and_k_together(self):
        """And what it says of its validation, scikit-learn says of its model."""
        self.data()
        self.data(SPEC + "&seed=2", "new.svm")
        config = {"app": {"name": "glm", "data": "train.svm"},
                  "cluster": {"workers": 3},
                  "ps": {"consistency": {"barrier": {"slower_than": 2}}},
                  "metric": "auc",
                  "tunables": {"learning_rate": {"min": 0.01, "max": 3,
                                                 "default": 0.1},
                               "batch_size": {}, "staleness": {},
                               "k": {"values": [1, 2, 3], "default": 2}},
                  "tuner": {"searcher": "random", "trial_clocks": 10,
                            "max_trials": 6},
                  "stop": {"max_epochs": 4}, "seed": 5}
        done = self.run_config(config, "--json", "--out", "model")
        self.assert_code(done, 0)
        self.assertGreaterEqual(done.result["tuning"]["trials"], 3)
        for name in "learning_rate", "batch_size", "staleness", "k":
            self.assertIn(name, done.result["setting"])
        done = self.mltune("eval", "model", "new.svm", "--json")
        self.assert_code(done, 0)
        said = json.loads(done.out)
        x, y = samples(self.folder / "new.svm")
        w = numpy.load(self.folder / "model" / "weights.npy").astype(float)
        z = x @ w[:x.shape[1], 0] + w[-1, 0]
        self.assertAlmostEqual(
            said["loss"], numpy.logaddexp(0, -y * z).mean(), 4)
        self.assertAlmostEqual(said["metrics"]["auc"],
                               metrics.roc_auc_score(y, z), 4)
        done = self.mltune("predict", "model", "new.svm")
        self.assert_code(done, 0)
        rows = list(csv.reader(io.StringIO(done.out)))
        self.assertEqual(rows[0], ["class", "probability_-1", "probability_1"])
        p = numpy.array([row[2] for row in rows[1:]], float)
        self.assertLess(abs(p - 1 / (1 + numpy.exp(-z))).max(), 1e-4)

    def a9a(self):
        """Training and test file: a9a where it is there, else of its shape."""
        folder = pathlib.Path(os.environ.get("MLTUNE_DATA") or
                              ROOT.parent / "shared/data")
        names = "a9a", "a9a.t"
        for seed, name in enumerate(names, 1):
            packed = folder / f"{name}.xz"
            if packed.exists():
                (self.folder / name).write_bytes(
                    lzma.decompress(packed.read_bytes()))
            else:
                spec = ("gen:libsvm?samples=16000&columns=123&entries=14"
                        f"&noise=0.5&seed={seed}")
                self.assert_code(self.mltune("data", "gen", spec, name), 0)
        return [load_svmlight_file(str(self.folder / name), n_features=124,
                                   zero_based=True) for name in names]

    def test_a9a_is_tuned_by_four_tunables_to_what_scikit_learn_reaches(self):
        (x, y), (test_x, test_y) = self.a9a()
        peer = LogisticRegression(max_iter=300).fit(x, y)
        config = {"app": {"name": "glm", "data": "a9a", "test": "a9a.t"},
                  "cluster": {"workers": 3},
                  "ps": {"consistency": {"barrier": {"slower_than": 3}}},
                  "tunables": {"learning_rate": {"min": 0.05, "max": 1},
                               "batch_size": {"values": [16, 64]},
                               "staleness": {"values": [0, 1, 3]},
                               "k": {"values": [1, 2, 3]}},
                  "tuner": {"searcher": "random", "trial_clocks": 40,
                            "max_trials": 10, "retune": False},
                  "stop": {"max_epochs": 8}, "seed": 5}
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        shown = self.mltune("show", done.result["run"], "--json")
        self.assert_code(shown, 0)
        tried = [trial["setting"] for trial in shown.result["trial_list"]]
        for name in config["tunables"]:
            self.assertGreater(len({setting[name] for setting in tried}), 1,
                               name)
        self.assertGreater(done.result["best"]["metric"],
                           peer.score(test_x, test_y) - 0.015)

    def test_a_barrier_that_never_holds_is_named(self):
        for rule, words in [
                ({"k": 3}, "at most the 2 workers that there are"),
                ({"k": 1, "fraction": 0.5}, "not both"),
                ({"slower_than": 0.5}, "slower_than"),
                ({"quorum": 1}, "quorum")]:
            with self.subTest(rule):
                done = self.run_config(
                    {"app": {"name": "glm", "data": SPEC},
                     "cluster": {"workers": 2},
                     "ps": {"consistency": {"barrier": rule}}})
                self.assert_code(done, 78)
                self.assertIn(words, done.err)

    def test_two_nodes_train_with_a_barrier(self):
        self.data()
        result, _ = self.train(
            {}, {"learning_rate": 1, "batch_size": 32},
            cluster={"nodes": 2, "workers": 2},
            ps={"consistency": {"barrier": {"k": 3, "slower_than": 2}}},
            stop={"max_epochs": 5})
        self.assertLess(result["loss"], 0.65)


class Killed(Case):
    """A run whose tuner and nodes are killed goes on from its snapshot, and
    ends as one that nobody killed: bit for bit under bsp."""

    def config(self, app, cluster, epochs):
        # A rate so low that weights still move after any number of passes.
        return {"name": "killed", "cluster": cluster,
                "app": {"name": "glm", "data": SPEC, "lambda": 1e-4, **app},
                "tunables": {"learning_rate": {"fixed": 1e-6}},
                "stop": {"max_epochs": epochs, "plateau_epochs": epochs},
                "snapshot": {"every": 0.1}, "seed": 3}

    def killed(self, app, cluster, epochs):
        """The id of a run that was killed after a snapshot; None where it had
        ended before."""
        self.write("killed.json", self.config(app, cluster, epochs))
        state = f"state{epochs}"
        process = self.start("run", "killed.json", "--no-tune", "-q", "--state",
                             state)
        runs = self.folder / state / "runs"

        def has_snapshot():
            return process.poll() is not None or [
                p for p in runs.glob("*/snapshots/0*") if p.name.isdigit()]
        self.wait_until(has_snapshot, "a snapshot")
        for pid in [process.pid, *self.nodes_of(process)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.finish(process).code != -signal.SIGKILL:
            return None
        return next(runs.iterdir()).name

    def assert_same_after_kill(self, app, cluster):
        epochs, run = 50, None
        while not run:
            epochs *= 2
            self.assertLess(epochs, 10000)
            run = self.killed(app, cluster, epochs)
        again = self.mltune("resume", run, "--json", "--state",
                            f"state{epochs}")
        self.assert_code(again, 0)
        whole = self.run_config(self.config(app, cluster, epochs), "--no-tune",
                                "--json", "--out", "whole")
        self.assert_code(whole, 0)
        self.assertEqual(again.result["epochs"], epochs)
        for member in "reason", "epochs", "loss", "metric", "best":
            self.assertEqual(again.result[member], whole.result[member], member)
        weights = [numpy.load(self.folder / folder / "weights.npy")
                   for folder in (again.result["model"], "whole")]
        self.assertTrue(weights[0].any())
        self.assertEqual(weights[0].tobytes(), weights[1].tobytes())

    def test_svrg_goes_on_bit_for_bit(self):
        self.assert_same_after_kill({"solver": "svrg"}, {"workers": 2})

    def test_svrg_goes_on_bit_for_bit_on_two_nodes(self):
        self.assert_same_after_kill({"solver": "svrg"},
                                    {"nodes": 2, "workers": 2})

    def test_local_goes_on_bit_for_bit(self):
        self.assert_same_after_kill({"solver": "local", "local_batch": 30},
                                    {"workers": 2})

    def test_local_goes_on_bit_for_bit_on_two_nodes(self):
        self.assert_same_after_kill({"solver": "local", "local_batch": 30},
                                    {"nodes": 2, "workers": 2})

    def test_saga_goes_on_bit_for_bit_on_two_nodes(self):
        self.assert_same_after_kill({"solver": "saga"},
                                    {"nodes": 2, "workers": 2})


class Pagerank(Case):
    def ranks(self, nodes, workers):
        done = self.run_config(
            {"app": {"name": "pagerank", "tolerance": 1e-11,
                     "data": "gen:edges?nodes=400&edges=3000"},
             "cluster": {"nodes": nodes, "workers": workers}},
            "--json", "--out", f"model{nodes}")
        self.assert_code(done, 0)
        self.assertEqual(done.result["reason"], "target")
        self.assertLessEqual(done.result["loss"], 1e-11)
        folder = self.folder / f"model{nodes}"
        return (numpy.load(folder / "ranks.npy")[:, 0],
                numpy.load(folder / "node_ids.npy")[:, 0])

    def test_ends_by_its_tolerance_with_the_same_ranks_on_two_nodes(self):
        one, ids = self.ranks(1, 1)
        two, same = self.ranks(2, 2)
        self.assertTrue((ids == same).all())
        self.assertAlmostEqual(one.sum(), 1, 9)
        self.assertLess((abs(one - two) / one).max(), 1e-6)

    def test_takes_the_steps_that_its_tolerance_needs(self):
        """100 epochs, the default of other applications, do not end it; a
        number of the user's does."""
        ring = [f"{i}\t{(i + 1) % 120}\n" for i in range(120)]
        (self.folder / "ring.txt").write_text("".join(ring) + "0\t60\n")
        config = {"app": {"name": "pagerank", "tolerance": 1e-11,
                          "damping": 0.97, "data": "ring.txt"},
                  "cluster": {"nodes": 1, "workers": 1}}
        done = self.run_config(config, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["reason"], "target")
        self.assertGreater(done.result["epochs"], 100)
        done = self.run_config(config, "--json", "--set", "stop.max_epochs=7")
        self.assert_code(done, 0)
        self.assertEqual(done.result["reason"], "max_epochs")
        self.assertEqual(done.result["epochs"], 7)
