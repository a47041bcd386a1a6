"""`mltune predict`: what a saved model says of new data.

Each prediction is made again in NumPy from the arrays of the model folder alone.
"""
import csv
import io
import json
import re
import shutil
import subprocess

from harness import Case, ROOT, mf_config, mlr_config
from onnx_reader import Model

import numpy


def softmax(z):
    e = numpy.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def table(rows, header=None):
    lines = [",".join(header)] if header else []
    return "\n".join(lines + [",".join(map(str, row)) for row in rows]) + "\n"


class Predict(Case):
    def train(self, config):
        done = self.run_config(config, "--no-tune", "--json", "--out", "model")
        self.assert_code(done, 0)
        return done.result

    def load(self, name):
        return numpy.load(self.folder / "model" / f"{name}.npy")

    def predict(self, data, *more, model="model"):
        done = self.mltune("predict", model, data, *more)
        self.assert_code(done, 0)
        rows = list(csv.reader(io.StringIO(done.out)))
        return rows[0], rows[1:]

    def documented(self, number, value):
        """What the code block @number of docs/predict.md prints, and the
        @value that it leaves."""
        blocks = re.findall("```python\n(.*?)```",
                            (ROOT / "docs/predict.md").read_text(), re.S)
        code = blocks[number] + f"\nnp.save('value.npy', {value})\n"
        done = subprocess.run(["/usr/bin/python3", "-c", code],
                              cwd=self.folder, check=True, timeout=60,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout, numpy.load(self.folder / "value.npy")

    def refused(self, data, code, words, model="model"):
        done = self.mltune("predict", model, data)
        self.assert_code(done, code)
        self.assertIn(words, done.err)
        self.assertEqual(done.out, "")

    def train_table(self, app, **settings):
        """A table of three columns; its label is a class, or a number."""
        rng = numpy.random.default_rng(1)
        x = rng.normal(size=(400, 3)).round(4)
        y = x @ [2, -1, 0.5]
        label = ((100 + 10 * y).round(3) if settings.get("loss") == "squared"
                 else numpy.where(y > 0, '"big, so"', "small"))
        self.write("train.csv", table(
            [[*row, of] for row, of in zip(x, label)], ["a", "b", "c", "kind"]))
        config = mlr_config()
        config["app"] = {"name": app, "data": "train.csv", **settings}
        self.train(config)
        scaling = self.load("scaling")
        return x[:9], (x[:9] - scaling[0, :3]) * scaling[1, :3], scaling

    def test_classes_of_a_table(self):
        x, scaled, _ = self.train_table("mlr")
        weights = self.load("weights").astype(float)
        p = softmax(scaled @ weights[:, :3].T + weights[:, 3])
        self.write("plain.csv", table(x))
        title, rows = self.predict("plain.csv")
        self.assertEqual(
            title, ["class", "probability_big, so", "probability_small"])
        self.assertEqual([row[0] for row in rows],
                         [["big, so", "small"][k] for k in p.argmax(1)])
        numpy.testing.assert_allclose(
            numpy.array([row[1:] for row in rows], float), p, rtol=1e-5)
        # Columns by name, in any order, among others; and with the label.
        self.write("named.csv", table([["x", c, a, b] for a, b, c in x],
                                      ["more", "c", "a", "b"]))
        self.assertEqual(self.predict("named.csv")[1], rows)
        self.write("label.csv", table([[*row, "?"] for row in x]))
        self.assertEqual(self.predict("label.csv")[1], rows)
        # The lines of docs/predict.md say the same.
        self.write("new.csv", table(x))
        said, chances = self.documented(0, "p")
        self.assertEqual(said.strip(), str([row[0] for row in rows]))
        numpy.testing.assert_allclose(
            numpy.array([row[1:] for row in rows], float), chances, rtol=1e-5)
        # The share of right ones is what eval says.
        score = self.mltune("eval", "model", "train.csv", "--json").result
        with open(self.folder / "train.csv", newline="") as f:
            truth = [row["kind"] for row in csv.DictReader(f)]
        said = [row[0] for row in self.predict("train.csv")[1]]
        self.assertAlmostEqual(
            score["metric"], numpy.mean([a == b for a, b in zip(truth, said)]))

    def test_numbers_of_a_table(self):
        x, scaled, scaling = self.train_table("nn", preset="mlp",
                                              loss="squared")
        first, last = (self.load(f"layer{k}_dense").ravel().astype(float)
                       for k in (0, 2))
        hidden = numpy.maximum(
            scaled @ first[:768].reshape(256, 3).T + first[768:1024], 0)
        value = (hidden @ last[:256] + last[256]) / scaling[1, 3] \
            + scaling[0, 3]
        self.write("new.csv", table(x, ["a", "b", "c"]))
        title, rows = self.predict("new.csv")
        self.assertEqual(title, ["value"])
        numpy.testing.assert_allclose(
            numpy.array(rows, float).ravel(), value, rtol=1e-5)
        # The loader of docs/predict.md, too; with a layer in several rows.
        self.write("plain.csv", table(x))
        number = "z / scaling[1, -1] + scaling[0, -1]"
        self.loads_as_documented(number, rows)
        self.train_table("nn", loss="squared", layers=[
            {"type": "dense", "units": 300}, {"type": "tanh"},
            {"type": "dense", "units": 300}, {"type": "relu"},
            {"type": "dense", "units": "outputs"}])
        self.assertGreater(len(self.load("layer2_dense")), 1)
        self.loads_as_documented(number, self.predict("plain.csv")[1])

    def loads_as_documented(self, value, rows):
        _, got = self.documented(
            1, f"(lambda z, scaling: {value})(load('model')(np.loadtxt("
            "'plain.csv', delimiter=',')), np.load('model/scaling.npy'))")
        numpy.testing.assert_allclose(numpy.array(rows, float), got, rtol=1e-5)

    def mixed_rows(self, rng, n):
        """Rows of numbers and texts, some of them missing, and their class."""
        age, debt = rng.normal(40, 12, n).round(1), rng.normal(size=n).round(3)
        city = rng.choice(["Rome", "Oslo", "Bern, CH", "Lima"], n)
        plan = rng.choice([1, 2, 10], n)
        y = (age - 40) / 12 + (city == "Oslo") * 2 - debt - (plan == 2) + \
            rng.normal(size=n) / 4
        kind = numpy.where(y > 0, "stay", "leave")
        return [["" if rng.random() < 0.1 else of for of in row[:4]] +
                [row[4]] for row in zip(age, city, plan, debt, kind)]

    def encoded(self, train, rows):
        """@rows in scikit-learn as @train asks for: mean and indicator of
        numbers, one input a category, all scaled."""
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import OneHotEncoder, StandardScaler
        parts, nan = [], float("nan")
        for c, number in enumerate([True, False, False, True]):
            known, new = (numpy.array(
                [[nan if row[c] == "" else row[c]] for row in rows],
                float if number or c == 2 else object)
                for rows in (train, rows))
            of = SimpleImputer(add_indicator=True) if number else \
                OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            parts.append([of.fit_transform(known), of.transform(new)])
        known, new = (numpy.hstack([part[k] for part in parts])
                      for k in (0, 1))
        scaler = StandardScaler().fit(known)
        return scaler.transform(known), scaler.transform(new)

    def test_columns_to_ignore_are_no_inputs(self):
        """A name of each row is no category and no input: the model is the one
        that is trained without it, and predicts with it and without. A dry run
        reads the settings."""
        rng = numpy.random.default_rng(5)
        rows = [[*row, "yes" if row[0] + row[1] > 0 else "no"]
                for row in rng.normal(size=(1200, 2)).round(4).tolist()]
        title = ["age", "debt", "kind"]
        self.write("plain.csv", table(rows, title))
        self.write("train.csv", table(
            [[f"customer {k}", row[0], "a\xe9" if k % 2 else k, *row[1:]]
             for k, row in enumerate(rows)],
            ["name", "age", "note", "debt", "kind"]))
        self.write("new.csv", table([row[:2] for row in rows[:50]], title[:2]))
        self.write("wide.csv", table(
            [[f"x{k}", row[0], "", row[1]] for k, row in enumerate(rows[:50])],
            ["name", "age", "note", "debt"]))
        config = mlr_config(max_epochs=6)
        del config["tunables"]["batch_size"]
        config["app"] = {"name": "mlr", "data": "plain.csv", "label": "kind"}
        self.train(config)
        plain = self.load("weights")
        want = self.mltune("predict", "model", "new.csv").out
        config["app"]["data"] = "train.csv"
        self.write("config.json", config)
        done = self.mltune("run", "config.json", "--dry-run")
        self.assert_code(done, 78)
        self.assertIn('no input where "ignore" does', done.err)
        config["app"]["ignore"] = ["name", 3]
        self.write("config.json", config)
        self.assert_code(self.mltune("run", "config.json", "--dry-run"), 0)
        shutil.rmtree(self.folder / "model")
        self.train(config)
        numpy.testing.assert_array_equal(self.load("weights"), plain)
        encoding = json.loads(
            (self.folder / "model/encoding.json").read_text())
        self.assertEqual([c["name"] for c in encoding["columns"]],
                         ["age", "debt"])
        for data in "new.csv", "wide.csv", "train.csv":
            done = self.mltune("predict", "model", data)
            self.assert_code(done, 0)
            self.assertEqual(done.out.splitlines()[:51], want.splitlines())
        score = self.mltune("eval", "model", "train.csv", "--json").result
        self.assertGreater(score["metric"], 0.8)

    def test_texts_and_missing_values_are_scikit_learns(self):
        """Categories, means, indicators and scaling of scikit-learn give the
        probabilities that predict says; so do the lines of docs/predict.md,
        and of the graph in ONNX the inputs are those."""
        from sklearn.linear_model import LogisticRegression
        rng = numpy.random.default_rng(3)
        title = ["age", "city", "plan", "debt", "kind"]
        train, new = self.mixed_rows(rng, 900), self.mixed_rows(rng, 300)
        new[0][1:3] = ["Paris", 7]
        self.write("train.csv", table(
            [[row[0], f'"{row[1]}"', *row[2:]] for row in train], title))
        self.write("new.csv", table(
            [[row[3], row[2], f'"{row[1]}"', "?", row[0], row[4]]
             for row in new], ["debt", "plan", "city", "more", "age", "kind"]))
        self.write("test.csv", table(
            [[row[0], f'"{row[1]}"', *row[2:]] for row in new], title))
        config = mlr_config(max_epochs=30)
        config["app"] = {"name": "mlr", "data": "train.csv",
                         "test": "test.csv", "categories": ["plan"]}
        self.train(config)
        known, x = self.encoded(train, new)
        weights = self.load("weights").astype(float)
        p = softmax(x @ weights[:, :-1].T + weights[:, -1])
        done = self.mltune("predict", "model", "new.csv")
        self.assert_code(done, 0)
        self.assertIn("unknown_categories values=2", done.err)
        self.assertIn("missing_values values=", done.err)
        rows = list(csv.reader(io.StringIO(done.out)))[1:]
        said = numpy.array([row[1:] for row in rows], float)
        numpy.testing.assert_allclose(said, p, rtol=1e-5, atol=1e-6)
        _, inputs = self.documented(2, "encode('model', 'new.csv')")
        scaling = self.load("scaling")
        numpy.testing.assert_allclose(
            (inputs - scaling[0, :-1]) * scaling[1, :-1], x, atol=1e-5)
        # It learns what a logistic regression of scikit-learn does.
        truth = [row[4] for row in new]
        reference = LogisticRegression().fit(known, [row[4] for row in train])
        score = self.mltune("eval", "model", "test.csv", "--json").result
        self.assertAlmostEqual(score["metric"], reference.score(x, truth),
                               delta=0.05)
        self.assertGreater(score["metric"], 0.85)
        # The graph's notes say how inputs are made, and it takes those.
        self.assert_code(self.mltune("export", "model", "--format", "onnx"), 0)
        graph = Model((self.folder / "model.onnx").read_bytes())
        self.assertEqual(
            json.loads(graph.notes["encoding"]),
            json.loads((self.folder / "model/encoding.json").read_text()))
        self.assertEqual(len(json.loads(graph.notes["columns"])), x.shape[1])
        numpy.testing.assert_allclose(
            graph.run(inputs)["probabilities"], said, rtol=1e-4, atol=1e-5)
        # What is wrong is refused, and a file that says no sense, too.
        self.write("wrong.csv", "age,city,plan,debt\nold,Oslo,1,2\n")
        self.refused("wrong.csv", 78, "line 2, column 1 (age): expected a "
                     "number, as in the training data")
        (self.folder / "model/encoding.json").write_text('{"version": 3}')
        self.refused("new.csv", 78, "encoding.json: /version: expected 1")

    def test_classes_of_a_network(self):
        x, scaled, _ = self.train_table("nn", preset="mlp")
        first, last = (self.load(f"layer{k}_dense").ravel().astype(float)
                       for k in (0, 2))
        hidden = numpy.maximum(
            scaled @ first[:768].reshape(256, 3).T + first[768:1024], 0)
        p = softmax(hidden @ last[:512].reshape(2, 256).T + last[512:514])
        self.write("new.csv", table(x))
        self.write("plain.csv", table(x))
        self.loads_as_documented(
            "np.exp(z) / np.exp(z).sum(1, keepdims=True)",
            [row[1:] for row in self.predict("new.csv")[1]])
        done = self.mltune("predict", "model", "new.csv", "--out", "p.npy")
        self.assert_code(done, 0)
        got = numpy.load(self.folder / "p.npy")
        self.assertEqual(got.shape, (9, 3))
        self.assertEqual(list(got[:, 0]), list(p.argmax(1)))
        numpy.testing.assert_allclose(got[:, 1:], p, rtol=1e-4, atol=1e-6)

    def test_images_without_labels(self):
        config = mlr_config()
        self.assert_code(self.mltune("data", "gen", config["app"]["data"],
                                     "digits"), 0)
        config["app"]["data"] = "digits"
        self.train(config)
        path = self.folder / "digits" / "train-images-idx3-ubyte"
        pixels = numpy.frombuffer(path.read_bytes()[16:],
                                  numpy.uint8).reshape(-1, 144) / 255
        (self.folder / "lone").write_bytes(path.read_bytes())
        weights = self.load("weights").astype(float)
        p = softmax(pixels @ weights[:, :144].T + weights[:, 144])
        title, rows = self.predict("lone")
        self.assertEqual(title[:2], ["class", "probability_0"])
        self.assertEqual([int(row[0]) for row in rows], list(p.argmax(1)))
        numpy.testing.assert_allclose(
            numpy.array([row[1:] for row in rows], float), p, rtol=1e-4,
            atol=1e-7)
        self.refused("model/model.json", 78, "expected images")

    def test_ratings(self):
        """Of pairs, with or without a rating; the mean for whom nobody
        knows."""
        self.train(mf_config())
        users, items, mean = (self.load(n) for n in
                              ("users", "items", "rating_mean"))
        ids = [list(self.load(n).ravel()) for n in ("user_ids", "item_ids")]
        pairs = [(ids[0][k], ids[1][2 * k]) for k in range(20)]
        want = [float(mean.ravel()[0]) + float(
            users[k].astype(float) @ items[2 * k].astype(float))
            for k in range(20)] + [float(mean.ravel()[0])]
        pairs.append((987654321, pairs[0][1]))
        self.write("pairs.csv", "user,item\n" + table(pairs))
        title, rows = self.predict("pairs.csv")
        self.assertEqual(title, ["rating"])
        numpy.testing.assert_allclose(
            numpy.array(rows, float).ravel(), want, rtol=1e-5)
        self.write("rated.dat", "".join(f"{u}\t{i}\t3\n" for u, i in pairs))
        self.assertEqual(self.predict("rated.dat")[1], rows)

    def test_topics(self):
        """The shares add up; a document of one topic's own words has it."""
        docs = ["20 " + " ".join(f"{w}:2" for w in range(k * 20, k * 20 + 20))
                for k in (0, 1) for _ in range(40)]
        self.write("docs.txt", "\n".join(docs) + "\n")
        config = {"app": {"name": "lda", "data": "docs.txt", "topics": 2,
                          "clock": 2}, "cluster": {"workers": 1},
                  "stop": {"max_epochs": 20}, "seed": 3}
        self.train(config)
        counts = self.load("word_topic")
        self.write("new.txt", "20 " + " ".join(f"{w}:1" for w in range(20))
                   + "\n1 25:1\n")
        title, rows = self.predict("new.txt")
        self.assertEqual(title, ["topic", "share_0", "share_1"])
        shares = numpy.array([row[1:] for row in rows], float)
        numpy.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
        self.assertEqual([int(row[0]) for row in rows],
                         [int(counts[:20].sum(0).argmax()),
                          int(counts[25].argmax())])
        self.assertGreater(shares.max(1)[0], 0.9)

    def test_a_run_stands_for_its_model(self):
        """By its name, or the beginning of its id; in eval too."""
        config = mlr_config(max_epochs=1)
        done = self.run_config(config, "--no-tune", "--json")
        self.assert_code(done, 0)
        data = config["app"]["data"]
        _, rows = self.predict(data, model="small-mlr")
        self.assertEqual(len(rows), 333)
        done = self.mltune("eval", "small-mlr", data, "--json")
        self.assert_code(done, 0)
        self.assertEqual(done.result["samples"], 333)
        self.refused(data, 74, "found neither", model="nobody")

    def test_refusals(self):
        """Nothing is written, and the words say what to do."""
        x, _, _ = self.train_table("mlr")
        self.write("short.csv", table(x[:, :2]))
        self.refused("short.csv", 78, "expected the 3 columns that the model")
        self.write("other.csv", table(x, ["a", "b", "x"]))
        self.refused("other.csv", 78, 'expected the column "c"')
        self.write("text.csv", table([[1, 2, 3], [1, "yes", 3]]))
        self.refused("text.csv", 78, "line 2, column 2: expected a number")
        self.refused("nix", 74, "nix")
        self.write("new.csv", table(x))
        done = self.mltune("predict", "model", "new.csv", "--out", "no/p.csv")
        self.assert_code(done, 74)
        self.assertIn("no/p.csv", done.err)
        done = self.mltune("predict", "model", "new.csv", "--out", "p.csv")
        self.assert_code(done, 0)
        text = (self.folder / "p.csv").read_text()
        self.assertEqual(len(text.splitlines()), 10)
        self.assertFalse((self.folder / "p.csv.tmp").exists())
