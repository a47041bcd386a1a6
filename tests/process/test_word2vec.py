"""word2vec as a process: its model in NumPy, its answers, two nodes, a model
from a snapshot."""
import json
import struct

from harness import Case

import numpy

SPEC = "gen:text?tokens=60000&rows=6&columns=6&near=4"
SIZE = 20


def config(**more):
    return {"app": {"name": "word2vec", "data": SPEC, "size": SIZE, "sample": 0,
                    "vectors_file": "both"},
            "cluster": {"workers": 1},
            "tunables": {"learning_rate": {"fixed": 0.05}},
            "stop": {"max_epochs": 4}, "seed": 3, **more}


def text_vectors(path):
    """word2vec's own text form: words, vectors."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines[1:]]
    vectors = numpy.array([row[1:] for row in rows], dtype=numpy.float32)
    assert [int(n) for n in lines[0].split()] == list(vectors.shape)
    return [row[0] for row in rows], vectors


def binary_vectors(path):
    data = path.read_bytes()
    head, data = data.split(b"\n", 1)
    words, vectors = [], []
    count, size = map(int, head.split())
    for _ in range(count):
        word, data = data.split(b" ", 1)
        words.append(word.decode())
        vectors.append(struct.unpack(f"{size}f", data[:4 * size]))
        data = data[4 * size + 1:]
    assert not data
    return words, numpy.array(vectors, dtype=numpy.float32)


def analogies():
    return [(f"w{i}_{j}", f"w{i}_{j + 1}", f"w{i + 1}_{j}", f"w{i + 1}_{j + 1}")
            for i in range(5) for j in range(5)]


class Word2vec(Case):
    def train(self, given, *words):
        done = self.run_config(given, "--no-tune", "--json", "--out", "model",
                               *words)
        self.assert_code(done, 0)
        return done.result

    def test_answers_are_those_of_numpy(self):
        """eval and predict beside the same reckoned of vectors.txt, which holds
        what vectors.bin and the table do."""
        self.train(config())
        model = self.folder / "model"
        words, vectors = text_vectors(model / "vectors.txt")
        again, binary = binary_vectors(model / "vectors.bin")
        self.assertEqual(words, again)
        self.assertEqual([line.split()[0] for line in (
            model / "vocabulary.txt").read_text().splitlines()], words)
        table = numpy.load(model / "vectors.npy")
        self.assertTrue((vectors == table).all() and (binary == table).all())
        unit = table / numpy.linalg.norm(table, axis=1, keepdims=True)
        place = {word: i for i, word in enumerate(words)}
        asked = [[place[w] for w in line] for line in analogies()]
        answers = []
        for a, b, c, _ in asked:
            near = unit @ (unit[b] - unit[a] + unit[c])
            near[[a, b, c]] = -numpy.inf
            answers.append(near.argmax())
        right = numpy.mean([n == d for n, (*_, d) in zip(answers, asked)])
        self.assertGreater(right, 0.8)  # chance: 1 of 80
        self.write("q", ": cells\n" + "".join(
            " ".join(line) + "\n" for line in analogies()) + "w0_0 zz w0_1 w1_1\n")
        done = self.mltune("eval", "model", "q", "--json")
        self.assert_code(done, 0)
        self.assertAlmostEqual(json.loads(done.out)["metric"], right, places=9)
        done = self.mltune("predict", "model", "q")
        self.assert_code(done, 0)
        self.assertEqual(done.out.split(),
                         ["word"] + [words[n] for n in answers] + ["nan"])

        from scipy.stats import spearmanr
        pairs = [(a, b, float((a[1] == b[1]) + (a[3] == b[3])))
                 for a in words if a[0] == "w" for b in words if b[0] == "w"
                 if a < b]
        self.write("s.csv", "word1,word2,score\n" + "".join(
            f"{a},{b},{n}\n" for a, b, n in pairs))
        found = [float(unit[place[a]] @ unit[place[b]]) for a, b, _ in pairs]
        rho = spearmanr([n for *_, n in pairs], found).statistic
        done = self.mltune("eval", "model", "s.csv", "--json")
        self.assert_code(done, 0)
        self.assertAlmostEqual(json.loads(done.out)["metric"], rho, places=4)
        done = self.mltune("predict", "model", "s.csv")
        self.assert_code(done, 0)
        numpy.testing.assert_allclose(
            [float(v) for v in done.out.split()[1:]], found, atol=1e-5)

    def test_what_is_no_question_is_told(self):
        self.train(config())
        self.write("text", "r0_0 r0_1 c0_0\n")
        done = self.mltune("predict", "model", "text")
        self.assert_code(done, 78)
        self.assertIn("expected questions", done.err)
        self.write("bad", ": s\na b c\n")
        done = self.mltune("eval", "model", "bad")
        self.assert_code(done, 78)
        self.assertIn("bad: line 2: expected a word (an analogy has four)",
                      done.err)
        self.write("strangers", ": s\na b c d\n")
        done = self.mltune("eval", "model", "strangers")
        self.assert_code(done, 78)
        self.assertIn("does not know all words", done.err)
        (self.folder / "model" / "vocabulary.txt").write_text(
            "r0_0 3\nr0_1 3\n")
        done = self.mltune("eval", "model", "text")
        self.assertNotEqual(done.code, 0)
        self.assertIn("vocabulary.txt", done.err)

    def test_no_asked_word_is_an_answer(self):
        """Of a model of three words, all of which are asked with."""
        given = config()
        self.write("three", "a b c b a c\n" * 500)
        given["app"]["data"] = "three"
        self.train(given)
        self.write("asked", ": s\na b c a\n")
        done = self.mltune("predict", "model", "asked")
        self.assert_code(done, 0)
        self.assertEqual(done.out.split(), ["word", "nan"])

    def test_two_nodes_learn_as_one(self):
        """Four workers of two processes end where four of one do: bsp, the same
        bits."""
        ends = []
        for nodes in 1, 2:
            self.train(config(cluster={"nodes": nodes,
                                       "workers": 4 // nodes}))
            ends.append(numpy.load(self.folder / "model" / "vectors.npy"))
        self.assertTrue((ends[0] == ends[1]).all())

    def test_tunes_rate_and_staleness(self):
        """As any application. Chance is 6 log 2, 4.16."""
        given = config(cluster={"workers": 2}, ps={"consistency": "ssp"},
                       stop={"max_epochs": 6})
        given["tunables"] = {
            "learning_rate": {"type": "float", "min": 1e-4, "max": 10,
                              "scale": "log"},
            "staleness": {"type": "int", "values": [0, 2]}}
        done = self.run_config(given, "--json", "--out", "model")
        self.assert_code(done, 0)
        self.assertLess(done.result["metric"], 3)
