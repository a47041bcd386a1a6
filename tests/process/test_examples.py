"""The gallery apps/examples: each trains alone, and is tuned as it stands."""
import json
import math
import os
import subprocess
import sys

from harness import ROOT, Case

EXAMPLES = ROOT / "apps/examples"
# Those that need data of their own have their own tests.
ELSEWHERE = {"mnist_cnn"}


class Examples(Case):
    def setUp(self):
        super().setUp()
        self.env.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                        PYTHONDONTWRITEBYTECODE="1")

    def config(self, name, **members):
        """Its configuration, for fewer epochs and with this interpreter."""
        config = json.loads((EXAMPLES / f"{name}.json").read_text())
        self.assertEqual(config["app"]["command"], ["python3", f"{name}.py"])
        config["app"].update(command=[sys.executable, f"{name}.py"],
                             folder=str(EXAMPLES))
        return {**config, "stop": {"max_epochs": 2},
                "tuner": {"searcher": "random", "trial_clocks": 4,
                          "strategy_settings": {}}, **members}

    def tuned(self, name, model):
        done = self.run_config(self.config(name), "--json", seconds=150)
        self.assert_code(done, 0)
        result = done.result
        self.assertEqual(result["status"], "finished")
        self.assertTrue(math.isfinite(result["best"]["loss"]))
        self.assertTrue(math.isfinite(result["best"]["metric"]))
        self.assertGreater(result["tuning"]["trials"], 1)
        self.assertTrue((self.folder / result["model"] / model).exists())
        self.assertNotIn("pinned", done.err)
        self.assert_nothing_left()
        return result

    def alone(self, name):
        """Without mltune around it the program trains and says how."""
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / f"{name}.py")], text=True,
            capture_output=True, timeout=100, check=False, cwd=self.folder,
            env={**self.env, "PYTHONPATH": str(ROOT / "apps/python"),
                 "MLTUNE_EPOCHS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^epoch 1  loss [\d.]+  \w+ [\d.]+")

    def test_char_gru(self):
        self.tuned("char_gru", "model.pt")
        self.alone("char_gru")

    def test_char_transformer(self):
        self.tuned("char_transformer", "model.pt")
        self.alone("char_transformer")

    def test_csv_mlp(self):
        self.tuned("csv_mlp", "model.pt")
        self.alone("csv_mlp")

    def test_factors(self):
        self.tuned("factors", "model.pt")
        self.alone("factors")

    def test_sgd_classifier(self):
        result = self.tuned("sgd_classifier", "model.pkl")
        self.assertIn(result["setting"]["penalty"], ("l1", "l2", "elasticnet"))
        self.alone("sgd_classifier")

    def test_mlp_classifier(self):
        self.tuned("mlp_classifier", "model.pkl")
        self.alone("mlp_classifier")

    def test_skorch_classifier(self):
        result = self.tuned("skorch_classifier", "model.pt")
        self.assertIn("momentum", result["setting"])
        self.alone("skorch_classifier")

    def test_numpy_logistic(self):
        self.tuned("numpy_logistic", "model.npz")
        self.alone("numpy_logistic")

    def test_boosting(self):
        result = self.tuned("boosting", "forest.ubj")
        self.assertIn("max_depth", result["setting"])
        self.alone("boosting")

    def keeps_the_protocol(self, name):
        """mltune check-trainer finds nothing, bit for bit. How a program in
        Python begins and ends is the package's doing: test_python has it."""
        done = self.mltune("check-trainer", "--json", "--skip",
                           "beats,memory,stop,loss,signals,unloadable", "--",
                           sys.executable, EXAMPLES / f"{name}.py",
                           seconds=170)
        self.assert_code(done, 0)

    def test_an_estimator_keeps_the_protocol(self):
        self.keeps_the_protocol("sgd_classifier")

    def test_arrays_keep_the_protocol(self):
        self.keeps_the_protocol("numpy_logistic")

    def test_trees_keep_the_protocol(self):
        self.keeps_the_protocol("boosting")

    def test_a_net_of_skorch_keeps_the_protocol(self):
        self.keeps_the_protocol("skorch_classifier")

    def test_a_net_of_skorch_that_takes_all_samples(self):
        """batch_size=-1, as skorch has it: a clock is an epoch."""
        self.write("all.py", """
import numpy as np, skorch, torch
import mltune, mltune.skorch
mltune.config()
x = np.random.randn(120, 4).astype("float32")
y = (x[:, 0] > 0).astype("int64")
net = skorch.NeuralNetClassifier(torch.nn.Linear, module__in_features=4,
                                 module__out_features=2, batch_size=-1,
                                 criterion=torch.nn.CrossEntropyLoss)
run = mltune.skorch.Run(net, samples=len(x), epochs=3)
for batch in run.train():
    batch.loss(run.step(batch, x[batch.samples], y[batch.samples]))
    print("clock", batch.clock, "of", len(batch), batch.setting["batch_size"])
""")
        done = subprocess.run([sys.executable, "all.py"], cwd=self.folder,
                              env={**self.env, "PYTHONPATH":
                                   str(ROOT / "apps/python")},
                              text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line for line in done.stdout.splitlines()
                          if line.startswith("clock")],
                         [f"clock {i} of 120 120" for i in range(3)])

    def test_all_are_here(self):
        """Each has a program, a configuration and a test."""
        names = {p.stem for p in EXAMPLES.glob("*.json")
                 if json.loads(p.read_text())["app"].get("command", [""])[0] ==
                 "python3"}
        programs = {p.stem for p in EXAMPLES.glob("*.py")} - {"samples"}
        self.assertEqual(names, programs)
        for name in names - ELSEWHERE:
            self.assertTrue(hasattr(self, f"test_{name}"), name)

    def test_data_of_people(self):
        """Files as they are: a table with a first line of words, in xz; a
        text; ratings in gzip."""
        import gzip
        import lzma
        self.write("t.csv", "")
        (self.folder / "t.csv.xz").write_bytes(lzma.compress(
            "a,b,target\n".encode() +
            b"".join(b"%d,%d,%d\n" % (i, i * i % 7, i % 3)
                     for i in range(60))))
        (self.folder / "u.data.gz").write_bytes(gzip.compress(
            b"".join(b"%d\t%d\t%d\t9\n" % (i % 7 + 1, i % 11 + 5, i % 5 + 1)
                     for i in range(200))))
        self.write("words.txt", "to be or not to be, " * 160)  # whole lines
        for name, file in (("numpy_logistic", "t.csv.xz"),
                           ("factors", "u.data.gz"),
                           ("char_gru", "words.txt")):
            self.env["MLTUNE_SETTINGS"] = json.dumps(
                {"data": os.fspath(self.folder / file)})
            self.alone(name)


if __name__ == "__main__":
    import unittest
    unittest.main()
