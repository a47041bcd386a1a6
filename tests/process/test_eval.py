"""`mltune eval`: a saved model on other data."""
import json
import math

from harness import Case, mf_config, mlr_config

import numpy


class EvalTest(Case):
    def train(self, config):
        done = self.run_config(config, "--no-tune", "--json", "--out", "model")
        self.assert_code(done, 0)
        return done.result

    def eval(self, data, code=0, model="model"):
        done = self.mltune("eval", model, data, "--json")
        self.assert_code(done, code)
        return done.result if code == 0 else done.err

    def test_metric_is_the_runs_own(self):
        """On the data that the run validated with, the metric is the run's."""
        config = mlr_config()
        result = self.train(config)
        score = self.eval(config["app"]["data"])
        self.assertEqual(score["metric"], result["best"]["metric"])
        self.assertEqual(score["metric_name"], "accuracy")
        self.assertEqual(score["app"], "mlr")
        self.assertTrue(0 < score["loss"] < math.log(10))
        again = self.eval(config["app"]["data"])
        self.assertEqual(score, again)

    def test_mf_agrees_with_numpy(self):
        """RMSE over all ratings of a file, computed again from the arrays;
        whom training never saw is predicted by the mean."""
        rng = numpy.random.default_rng(3)
        lines, ratings = [], []
        for user in range(40):
            for item in rng.choice(30, 12, replace=False):
                rating = float(rng.integers(1, 6))
                ratings.append((user, int(item), rating))
                lines.append(f"{user}::{item}::{rating}")
        self.write("ratings.dat", "\n".join(lines) + "\n")
        config = mf_config()
        config["app"]["data"] = "ratings.dat"
        config["app"]["clock"] = 2
        self.train(config)
        self.write("other.dat", "\n".join(lines[::3] + ["999::3::4.0"]) + "\n")
        score = self.eval("other.dat")
        m = {n: numpy.load(self.folder / "model" / f"{n}.npy")
             for n in ("users", "items", "user_ids", "item_ids",
                       "rating_mean")}
        mean = float(m["rating_mean"].ravel()[0])
        users = {int(i): k for k, i in enumerate(m["user_ids"].ravel())}
        items = {int(i): k for k, i in enumerate(m["item_ids"].ravel())}
        errors = []
        for user, item, rating in ratings[::3] + [(999, 3, 4.0)]:
            guess = mean
            if user in users and item in items:
                guess += float(m["users"][users[user]].astype(float)
                               @ m["items"][items[item]].astype(float))
            errors.append((guess - rating) ** 2)
        rmse = math.sqrt(sum(errors) / len(errors))
        self.assertAlmostEqual(score["metric"], rmse, delta=1e-5)
        self.assertEqual(score["samples"], len(errors))

    def test_text_for_people(self):
        """Without --json: loss and metric by name."""
        config = mlr_config()
        self.train(config)
        done = self.mltune("eval", "model", config["app"]["data"])
        self.assert_code(done, 0)
        words = [line.split()[0] for line in done.out.splitlines()]
        self.assertEqual(words, ["samples", "loss", "accuracy"])

    def test_refusals(self):
        """What cannot be evaluated is said, with the contract's exit codes."""
        config = mlr_config()
        self.train(config)
        data = config["app"]["data"]
        self.assertIn("nix", self.eval("nix", 74))
        self.assertIn("model.json", self.eval(data, 74, "nowhere"))
        self.assertIn("weights.npy",
                      self.eval(data.replace("size=12", "size=13"), 78))
        path = self.folder / "model" / "model.json"
        model = json.loads(path.read_text())
        for change, words in [({"version": 9}, "version 9"),
                              ({"app": "magic"}, "magic"),
                              ({"settings": 3}, "settings")]:
            path.write_text(json.dumps({**model, **change}))
            self.assertIn(words, self.eval(data, 78))
        path.write_text(json.dumps(model))
        table = self.folder / "model" / "weights.npy"
        table.write_bytes(table.read_bytes()[:-1])
        self.assertIn("weights.npy", self.eval(data, 78))
        self.assert_code(self.mltune("eval", "model"), 2)
