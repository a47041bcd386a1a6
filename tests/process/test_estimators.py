"""mltune.sklearn and mltune.numpy: branches of estimators and of dictionaries
of arrays, against an independent tuner."""
import json
import pickle
import subprocess
import sys

import numpy as np

from harness import ROOT
from test_python import PROGRAMS, Program

TUNABLES = {"learning_rate": {"default": 0.01}, "batch_size": {"default": 16}}


class Branching(Program):
    def check(self, path, tunables=None, **settings):
        """A branch that runs through has the sums of one that is interleaved
        with siblings, tests and probes, and cut into pieces; a fork has its
        parent's, also in another process that read a snapshot. Returns the
        model's folder."""
        ready = self.load(path, tunables or TUNABLES, **settings)
        self.assertEqual(ready["kind"], "ready", ready)
        self.assertGreater(ready["model_bytes"], 8)
        self.fork(1, learning_rate=0.02)
        begin = self.sums(1, 15)
        self.fork(2, 1, learning_rate=0.02)
        self.fork(3, 1, learning_rate=0.5)
        self.fork(4, 1, "testing")
        self.fork(5, 1, "probe", learning_rate=0.02)
        self.fork(6, 0, learning_rate=0.02)
        on = []
        for pieces in (1, 4, 2, 8):
            on += self.sums(1, pieces)
            self.sums(3, 3)
            self.tested = self.sums(4, 1)
            self.sums(5, 2)
        self.assertEqual(self.sums(2, 15), on)
        self.assertEqual(self.sums(6, 15), begin)
        self.assertNotEqual(self.sums(3, 3), on[:3])
        self.fork(7, 2, "kept")
        self.tuner.ask("snapshot", branch=7, path=str(self.folder / "s"))
        self.expect("done")
        after = self.sums(2, 5)
        self.tuner.ask("save", branch=7, path=str(self.folder / "m"))
        saved = self.expect("done")
        for name in saved["data"]["files"]:
            self.assertTrue((self.folder / "m" / name).exists())
        self.end()
        self.tuner.close()
        self.tuner = None
        self.restart()
        self.load(path, tunables or TUNABLES, **settings)
        self.tuner.ask("restore", branch=1, path=str(self.folder / "s"))
        self.expect("done")
        self.fork(2, 1, learning_rate=0.02)
        self.assertEqual(self.sums(2, 5), after)
        self.end()
        return self.folder / "m"

    def restart(self):
        from test_node import Tuner
        self.tuner = Tuner()

    def probe_learns_nothing(self, path, **settings):
        self.load(path, TUNABLES, **settings)
        self.fork(1, learning_rate=0.02)
        first = self.sums(1, 3)
        self.fork(2, 1, "probe", learning_rate=0.02)
        self.fork(3, 1, "probe", learning_rate=0.7)
        self.assertEqual(self.sums(2, 4), self.sums(3, 4))
        self.fork(4, learning_rate=0.02)
        self.assertEqual(self.sums(4, 3), first)
        self.end()


class Estimators(Branching):
    def kind(self, kind, **settings):
        return self.check(PROGRAMS / "estimator.py", kind=kind, **settings)

    def model(self, folder):
        return pickle.loads((folder / "model.pkl").read_bytes())

    def test_logistic_regression(self):
        found = self.model(self.kind("logistic"))
        self.assertEqual(type(found).__name__, "SGDClassifier")
        self.assertEqual(found.coef_.shape, (3, 8))
        self.assertEqual(found.learning_rate, "constant")

    def test_labels_that_are_words(self):
        found = self.model(self.kind("logistic", words=True))
        self.assertEqual(found.classes_.tolist(), ["no", "very", "yes"])

    def test_hinge_with_a_seed_of_its_own(self):
        self.kind("hinge")

    def test_average(self):
        """Arrays that stand in several places."""
        self.kind("average")

    def test_regressor(self):
        self.kind("regressor")
        self.assertLess(self.tested[0], 100)

    def test_perceptron(self):
        self.kind("perceptron")

    def test_network_with_adam(self):
        found = self.model(self.kind("adam"))
        self.assertEqual(len(found.loss_curve_), 1)

    def test_network_with_sgd_and_a_generator_of_its_own(self):
        self.kind("sgd", tunables={**TUNABLES, "momentum": {"default": 0.5}})

    def test_estimator_without_a_rate(self):
        """Counts alone: it trains, its rate is no tunable."""
        self.load(PROGRAMS / "estimator.py", {"batch_size": {"default": 8}},
                  kind="bayes")
        self.assertEqual(self.ready["tunables"], ["batch_size"])
        self.fork(1, batch_size=8)
        sums = self.sums(1, 10)
        self.fork(2, batch_size=8)
        self.assertEqual(self.sums(2, 10), sums)
        self.end()

    def test_probes(self):
        self.probe_learns_nothing(PROGRAMS / "estimator.py", kind="adam")

    def test_parameters_of_the_estimator_are_tunables(self):
        """By their own names, numbers and words."""
        self.load(PROGRAMS / "estimator.py",
                  {**TUNABLES, "alpha": {"default": 0.001},
                   "penalty": {"values": ["l1", "l2"]},
                   "colour": {"default": 1}}, kind="logistic")
        self.assertEqual(self.ready["tunables"],
                         ["alpha", "batch_size", "learning_rate", "penalty"])
        common = {"learning_rate": 0.05, "batch_size": 16}
        sums = []
        for branch, (alpha, penalty) in enumerate(
                ((0.001, "l2"), (0.5, "l2"), (0.5, "l1"), (0.001, "l2")), 1):
            self.fork(branch, alpha=alpha, penalty=penalty, **common)
            sums.append(self.sums(branch, 6))
        self.assertEqual(sums[0], sums[3])
        self.assertEqual(len({str(s) for s in sums}), 3)
        self.end()

    def test_rate_of_a_network_acts_in_its_midst(self):
        """The optimizer within was made by an earlier setting."""
        for kind in ("adam", "sgd"):
            self.load(PROGRAMS / "estimator.py", TUNABLES, kind=kind)
            self.fork(1, learning_rate=0.01)
            self.sums(1, 3)
            for branch, rate in ((2, 0.01), (3, 0.0)):
                self.fork(branch, 1, learning_rate=rate)
            self.assertNotEqual(self.sums(2, 5), self.sums(3, 5))
            self.fork(4, 3, "probe", learning_rate=0.01)
            self.fork(5, 1, "probe", learning_rate=0.01)
            for branch in (3, 4, 5):
                self.slice(branch, 1)
            self.end()
            self.tuner.close()
            self.restart()

    def test_a_rate_too_large_is_a_loss_that_is_not_finite(self):
        """Overflow is the branch's end, not the program's."""
        self.load(PROGRAMS / "estimator.py", TUNABLES, kind="regressor")
        self.fork(1, learning_rate=1e200)
        sums = self.sums(1, 50)
        self.assertLess(len(sums), 50)
        self.assertFalse(np.isfinite(sums[-1]))
        self.fork(2, learning_rate=0.01)
        self.assertTrue(np.isfinite(self.sums(2, 5)).all())
        self.end()

    def test_errors_say_what_is_wrong(self):
        tried = (
            ("s.Run(SVC(), samples=3)", "SVC has no partial_fit"),
            ("s.Run(SGDClassifier(), samples=3)", "classes"),
            ("s.Run(MLPRegressor(solver='lbfgs'), samples=3)", "lbfgs"),
            ("s.train(SGDRegressor(), [[1.0], [2.0]], [1.0])",
             "2 rows, but 1"),
            ("s._class_of('os:system')", "no class of scikit-learn"),
            ("s._class_of('sklearn.base:clone')", "no class of scikit-learn"))
        code = """
import json, sys
import mltune.sklearn as s
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVC
for code in json.loads(sys.argv[1]):
    try:
        exec(code)
        print("nothing")
    except (TypeError, ValueError, s.StateError) as e:
        print(e)
"""
        done = subprocess.run(
            [sys.executable, "-c", code, json.dumps([t[0] for t in tried])],
            text=True, capture_output=True, timeout=60, check=True,
            env={**self.env, "PYTHONPATH": str(ROOT / "apps/python")})
        for line, (_, says) in zip(done.stdout.splitlines(), tried):
            self.assertIn(says, line)
        self.assertEqual(len(done.stdout.splitlines()), len(tried))


class Arrays(Branching):
    def test_sgd_and_adam(self):
        for kind in ("SGD", "Adam"):
            folder = self.check(PROGRAMS / "arrays.py", kind=kind)
            with np.load(folder / "model.npz") as model:
                self.assertEqual(sorted(model), ["b", "w"])
            self.restart()
            for name in ("s", "m"):
                (self.folder / name).rename(self.folder / f"{name}-{kind}")

    def test_probes(self):
        self.probe_learns_nothing(PROGRAMS / "arrays.py", kind="Adam")

    def test_steps_are_pytorchs(self):
        """Of both optimizers, from the same gradients."""
        code = """
import json, sys
import numpy as np, torch
from mltune.numpy import SGD, Adam
r = np.random.RandomState(2)
for make, of in ((SGD, torch.optim.SGD), (Adam, torch.optim.Adam)):
    p = {"a": r.randn(3, 2), "b": r.randn(4)}
    t = {k: torch.tensor(v.copy(), requires_grad=True) for k, v in p.items()}
    more = {"momentum": 0.8} if make is SGD else {}
    step = make(p, 0.1, weight_decay=0.01, **more)
    other = of(t.values(), lr=0.1, weight_decay=0.01, **more)
    for _ in range(20):
        g = {k: r.randn(*v.shape) for k, v in p.items()}
        step(g)
        for k in t:
            t[k].grad = torch.tensor(g[k])
        other.step()
    print(json.dumps([float(np.abs(p[k] - t[k].detach().numpy()).max())
                      for k in p]))
"""
        done = subprocess.run(
            [sys.executable, "-c", code], text=True, capture_output=True,
            timeout=60, check=True,
            env={**self.env, "PYTHONPATH": str(ROOT / "apps/python")})
        for line in done.stdout.splitlines():
            self.assertLess(max(json.loads(line)), 1e-12)


if __name__ == "__main__":
    import unittest
    unittest.main()
