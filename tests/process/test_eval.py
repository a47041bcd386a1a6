"""`mltune eval`: a saved model on other data."""
import json
import shutil
import math

from harness import Case, mf_config, mlr_config

import numpy
from sklearn import metrics


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

    def table(self, target, app, **settings):
        """A model of half of a table, evaluated on all of it, and what
        predict says of it."""
        rng = numpy.random.default_rng(2)
        x = rng.normal(size=(300, 2)).round(3)
        y = target(x, rng.normal(size=300))
        lines = ["a,b,y"] + [f"{a},{b},{c}" for (a, b), c in zip(x, y)]
        self.write("all.csv", "\n".join(lines) + "\n")
        self.write("half.csv", "\n".join(lines[:151]) + "\n")
        config = mlr_config()
        config["app"] = {"name": app, "data": "half.csv", **settings}
        self.train(config)
        done = self.mltune("predict", "model", "all.csv", "--out", "p.npy")
        self.assert_code(done, 0)
        return y, numpy.load(self.folder / "p.npy"), self.eval("all.csv")

    def test_classes_agree_with_scikit_learn(self):
        """Two classes and three, of mlr and of nn; names that are long."""
        long = "a class with a long name"
        for app, names in [("mlr", ["no", "yes"]), ("nn", ["no", "yes"]),
                           ("mlr", ["a", long, "c"])]:
            y, p, score = self.table(
                lambda x, e: [names[k] for k in numpy.clip(
                    (x[:, 0] - x[:, 1] + e > 0).astype(int)
                    + (x[:, 0] + e > 1), 0, len(names) - 1)],
                app, **({"preset": "mlp"} if app == "nn" else {}))
            truth = [names.index(k) for k in y]
            said, chance = p[:, 0], p[:, 1:]
            want = {"accuracy": metrics.accuracy_score(truth, said),
                    "balanced_accuracy": metrics.balanced_accuracy_score(
                        truth, said),
                    "macro_f1": metrics.f1_score(truth, said,
                                                 average="macro"),
                    "log_loss": metrics.log_loss(truth, chance)}
            if len(names) == 2:
                want["auc"] = metrics.roc_auc_score(truth, chance[:, 1])
            self.assertEqual(list(score["metrics"]), list(want))
            self.assertEqual(score["task"], "classification")
            for name, value in want.items():
                self.assertAlmostEqual(score["metrics"][name], value,
                                       delta=1e-9, msg=name)
            self.assertEqual(score["metric"], want["accuracy"])
            self.assertEqual(score["confusion"], {
                "classes": names,
                "counts": metrics.confusion_matrix(truth, said).tolist()})
        done = self.mltune("eval", "model", "all.csv")
        self.assertIn(f"\n 1 {long}  ", done.out)
        # A name is data: the terminal is not to obey it.
        self.table(lambda x, e: numpy.where(x[:, 0] > 0, "\x9b31mred", "off"),
                   "mlr")
        done = self.mltune("eval", "model", "all.csv")
        self.assertRegex(done.out, "\n[?]+31mred  ")
        self.assertNotIn("\x9b", done.out)
        # One class alone has no area under the curve.
        self.table(lambda x, e: numpy.where(x[:, 0] > 0, "on", "off"), "mlr")
        self.write("one.csv", "a,b,y\n1,2,on\n2,1,on\n")
        self.assertEqual(self.eval("one.csv")["metrics"]["auc"], "nan")

    def test_numbers_agree_with_scikit_learn(self):
        y, p, score = self.table(
            lambda x, e: (50 + 20 * x[:, 0] - 7 * x[:, 1] + e).round(3),
            "nn", preset="mlp", loss="squared")
        want = {"rmse": metrics.mean_squared_error(y, p) ** 0.5,
                "mae": metrics.mean_absolute_error(y, p),
                "r2": metrics.r2_score(y, p)}
        self.assertEqual(list(score["metrics"]), list(want))
        self.assertEqual(score["task"], "regression")
        for name, value in want.items():
            self.assertAlmostEqual(score["metrics"][name] / value, 1,
                                   delta=1e-5, msg=name)
        self.assertNotIn("confusion", score)
        done = self.mltune("eval", "model", "all.csv")
        self.assertEqual([line.split()[0] for line in done.out.splitlines()],
                         ["samples", "loss", "rmse", "mae", "r2"])

    def test_ratings_agree_with_scikit_learn(self):
        rng = numpy.random.default_rng(4)
        lines = [f"{u}::{i}::{rng.integers(1, 6)}" for u in range(30)
                 for i in rng.choice(20, 8, replace=False)]
        self.write("ratings.dat", "\n".join(lines) + "\n")
        config = mf_config()
        config["app"]["data"] = "ratings.dat"
        config["app"]["clock"] = 2
        self.train(config)
        self.assert_code(self.mltune("predict", "model", "ratings.dat",
                                     "--out", "p.npy"), 0)
        p = numpy.load(self.folder / "p.npy")
        y = [float(line.split("::")[2]) for line in lines]
        score = self.eval("ratings.dat")["metrics"]
        self.assertAlmostEqual(score["rmse"],
                               metrics.mean_squared_error(y, p) ** 0.5,
                               delta=1e-5)
        self.assertAlmostEqual(score["mae"], metrics.mean_absolute_error(y, p),
                               delta=1e-5)
        self.assertAlmostEqual(score["r2"], metrics.r2_score(y, p), delta=1e-5)

    def test_text_for_people(self):
        """Without --json: loss and metric by name."""
        config = mlr_config()
        self.train(config)
        done = self.mltune("eval", "model", config["app"]["data"])
        self.assert_code(done, 0)
        words = [line.split()[0] for line in done.out.splitlines()[:6]]
        self.assertEqual(words, [
            "samples", "loss", "accuracy", "balanced_accuracy", "macro_f1",
            "log_loss"])
        self.assertEqual(done.out.splitlines()[7],
                         "confusion matrix, a row a true class:")
        matrix = [line.split() for line in done.out.splitlines()[8:]]
        self.assertEqual(matrix[0], ["predicted"] + [str(k)
                                                     for k in range(10)])
        score = self.eval(config["app"]["data"])["confusion"]
        self.assertEqual([[int(n) for n in row[1:]] for row in matrix[1:]],
                         score["counts"])
        self.assertEqual([row[0] for row in matrix[1:]], score["classes"])

    def test_columns_go_by_their_names(self):
        """As predict takes them: in any order, with others beside them, and
        the label where it is."""
        rows = [(f"{i % 7 / 7:.3f}", f"{i % 11 / 11:.3f}", "xyz"[i % 3],
                 "no" if i % 7 < 3 else "yes") for i in range(120)]

        def write(name, columns):
            at = {"a": 0, "b": 1, "c": 2, "y": 3}
            self.write(name, "\n".join(
                [",".join(columns)] +
                [",".join(r[at[c]] if c in at else "7" for c in columns)
                 for r in rows]) + "\n")

        write("train.csv", "abcy")
        for label in {"label": "y"}, {}:
            config = mlr_config()
            config["app"] = {"name": "mlr", "data": "train.csv", **label}
            shutil.rmtree(self.folder / "model", ignore_errors=True)
            self.train(config)
            score = {k: v for k, v in self.eval("train.csv").items()
                     if k != "data"}
            for columns in (["y", "c", "b", "a"], ["c", "y", "a", "b"],
                            *([["id", *"abc", "more", "y"],
                               [*"aby", "more", "c", "id"]] if label else [])):
                write("other.csv", columns)
                other = self.eval("other.csv")
                self.assertEqual(other.pop("data"), "other.csv")
                self.assertEqual(other, score)
            write("other.csv", ["a", "b", "d", "y"])
            self.assertIn('expected the column "c", which the model was '
                          "trained with", self.eval("other.csv", 78))
            self.write("other.csv", "a,b,c,y,y\n0.1,0.2,x,no,no\n")
            self.assertIn("expected each column's name once, found \"y\" as "
                          "column 4 and as column 5",
                          self.eval("other.csv", 78))
        # Which of two it is no place says: no wrong one is taken for it.
        for columns in ["id", *"abc", "y"], [*"abc", "y", "id"]:
            write("other.csv", columns)
            self.assertIn("expected one column beside those that the model "
                          "reads, the label, found 2",
                          self.eval("other.csv", 78))
        write("other.csv", ["y", "id", "c", "b", "a"])
        self.assertIn('expected the label as column 5, as the model\'s setting '
                      'has it, found "a", which the model reads',
                      self.eval("other.csv", 78))

    def test_a_validation_file_s_columns_go_by_their_names(self):
        """In a run as in eval: another order, and others among them, change
        nothing."""
        rows = [(f"{i % 7 / 7:.3f}", f"{i % 11 / 11:.3f}", "xyz"[i % 3],
                 "no" if i % 7 < 3 else "yes") for i in range(120)]

        def write(name, columns):
            at = {"a": 0, "b": 1, "c": 2, "y": 3}
            self.write(name, "\n".join(
                [",".join(columns)] +
                [",".join(r[at[c]] if c in at else "7" for c in columns)
                 for r in rows]) + "\n")

        write("train.csv", "abcy")
        found = set()
        for columns in "abcy", "ycba", ["id", *"cyab"]:
            write("test.csv", columns)
            config = {**mlr_config(), "cluster": {"workers": 1}}
            config["app"] = {"name": "mlr", "data": "train.csv",
                             "test": "test.csv", "label": "y"}
            shutil.rmtree(self.folder / "model", ignore_errors=True)
            result = self.train(config)
            found.add((result["metric"], result["loss"]))
        self.assertEqual(len(found), 1, found)

    def test_numbers_are_no_classes_by_mistake(self):
        """A label that shows numbers is refused with what to do, and `data
        info` takes it for numbers; where that is said, they are classes."""
        self.write("price.csv", "a,price\n" + "".join(
            f"{i},{i % 4 / 2}\n" for i in range(40)))
        config = mlr_config()
        config["app"] = {"name": "mlr", "data": "price.csv", "label": "price"}
        done = self.run_config(config, "--no-tune")
        self.assert_code(done, 78)
        self.assertIn('price.csv: line 3, column 2 (the label): expected a '
                      'class, a text or an integer, found "0.5": nn and glm '
                      'predict numbers with loss squared', done.err)
        done = self.mltune("data", "info", "price.csv")
        self.assert_code(done, 0)
        config["app"]["categories"] = ["price"]
        self.train(config)
        plan = self.run_config(config, "--dry-run")
        self.assertIn("\nlabel     price: 4 classes; nn and glm predict numbers "
                      "with loss squared\n", plan.out)
        numbers = {**config, "app": {
            "name": "nn", "data": "price.csv", "label": "price",
            "loss": "squared", "test_fraction": 0,
            "layers": [{"type": "dense", "units": "outputs"}]}}
        both = {**numbers, "app": {**numbers["app"], "categories": ["price"]}}
        plan = self.run_config(both, "--dry-run")
        self.assert_code(plan, 78)
        self.assertIn("choose one of the two", plan.err)
        plan = self.run_config(numbers, "--dry-run")
        self.assert_code(plan, 0)
        self.assertIn("\nlabel     price: numbers to predict, 0 to 1.5, since "
                      "loss is squared\n", plan.out)
        self.assertEqual(self.eval("price.csv")["confusion"]["classes"],
                         ["0", "0.5", "1", "1.5"])

    def test_refusals(self):
        """What cannot be evaluated is said, with the contract's exit codes."""
        config = mlr_config()
        self.train(config)
        data = config["app"]["data"]
        self.assertIn("nix", self.eval("nix", 74))
        self.assertIn("model.json", self.eval(data, 74, "nowhere"))
        (self.folder / "run").mkdir()
        shutil.copytree(self.folder / "model", self.folder / "run/model")
        self.assertIn("did you mean run/model?", self.eval(data, 74, "run"))
        said = self.eval(data.replace("size=12", "size=13"), 78)
        self.assertRegex(said, r"weights.npy: expected samples of 144 values in "
                         r"at most 10 classes, .*, found 169 values and 10 ")
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
