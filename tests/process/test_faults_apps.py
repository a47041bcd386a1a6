"""Calls that fail, as in test_faults, in what came after it: the nodes of other
applications, what is read of a run and of a model, data that a service is given.
"""
import random
import time

import test_faults
from test_faults import Wrong, config, ratings
from test_faults_verbs import NewWays


# ---- nodes of each application ---------------------------------------------

class RanksNode(test_faults.RunNode):
    """All ways of a node whose application has nothing to be tuned."""
    APP = {"name": "pagerank", "tolerance": 0,
           "data": "gen:edges?nodes=60&edges=300"}

    def config(self):
        return {**config(), "app": self.APP, "tunables": {}}


class AppNode(NewWays):
    """Of a node's ways to an allocation those that one of `mf` does not come."""
    PLAIN = test_faults.RunNode
    APP = None

    def config(self):
        return {**config(), "app": self.APP}


class GlmNode(AppNode, test_faults.RunNode):
    APP = {"name": "glm", "data": "gen:libsvm?samples=200&columns=30&entries=5"}


class SagaNode(AppNode, test_faults.RunNode):
    APP = {**GlmNode.APP, "solver": "saga", "clock": 10, "lambda": 1e-3}


class WordsNode(AppNode, test_faults.RunNode):
    APP = {"name": "word2vec", "size": 4, "window": 2, "clock": 10,
           "vectors_file": "both",
           "data": "gen:text?tokens=2000&rows=3&columns=3"}


class LdaNode(AppNode, test_faults.RunNode):
    APP = {"name": "lda", "topics": 3, "clock": 5,
           "data": "gen:bow?docs=40&words=50&topics=3"}


class NetNode(AppNode, test_faults.RunNode):
    APP = {"name": "nn", "preset": "mlp", "data": "gen:digits?samples=80&size=8"}


class SoftmaxNode(AppNode, test_faults.RunNode):
    """With a table of its own: columns, categories, scaling."""
    APP = {"name": "mlr", "data": "table.csv"}

    def write_data(self):
        (self.work / "table.csv").write_text(table())


# ---- what is read of a run, and of its model -------------------------------

def table():
    draw = random.Random(6)
    lines = ["a,b,colour,kind"]
    for _ in range(120):
        a, b = draw.random(), draw.random()
        lines.append(f"{a:.3f},{b:.3f},{draw.choice(['red', 'blue', ''])},"
                     f"{'yes' if a > b else 'no'}")
    return "\n".join(lines) + "\n"


class Reading(test_faults.Faults):
    """A verb says what it says undisturbed, or that it failed; and then it can
    be asked again. The run stays as it was."""
    WORDS = None  # RUN stands for the run's name
    OUT = None    # a file that the verb writes

    def prepare(self):
        done = self.plain("run", "config.json", "--out", "model")
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.run_id, _, _), = self.runs()
        self.said = self.verb()
        self.assertTrue(self.said)

    def words(self):
        return [self.run_id if w == "RUN" else w for w in self.WORDS]

    def ask_verb(self, **variables):
        ask = self.command if self.OUT else self.plain
        return ask(*self.words(), **variables)

    def answer(self, done):
        """What the verb that is @done has said, or has written."""
        if not self.OUT:
            return done.stdout
        out = self.work / self.OUT
        said = out.read_bytes()
        out.unlink()
        return said

    def verb(self):
        done = self.ask_verb()
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.answer(done)

    def act(self, fault):
        done = self.ask_verb(**self.faulty(fault))
        if done.returncode == 0 and self.answer(done) != self.said:
            raise Wrong(f"another answer: {done.stdout[-500:]}")
        return done.returncode, done.stdout, done.stderr

    def ends_well(self, code, out, said):
        if code != 0:
            self.fail_if_aborted(code, said)
            if code > 0 and not said.strip():
                raise Wrong(f"exit {code} without a word")
            # It may be there, whole, and its folder not be flushed.
            if (self.OUT and (self.work / self.OUT).exists() and
                    self.answer(None) != self.said):
                raise Wrong("a part is written")
        if self.verb() != self.said:
            raise Wrong(f"another answer afterwards: {said}")


class Listed(Reading):
    ROLE = "ls"
    WORDS = ["ls"]

    def test_calls_that_fail(self):
        self.loop()


class Shown(Reading):
    ROLE = "show"
    WORDS = ["show", "RUN"]

    def test_calls_that_fail(self):
        self.loop()


class Exported(Reading):
    ROLE = "export"
    WORDS = ["export", "RUN", "--format", "jsonl", "--out", "said"]
    OUT = "said"

    def test_calls_that_fail(self):
        self.loop()


class Predict(Reading):
    """Of a table whose columns are found by name, with categories."""
    ROLE = "predict"
    WORDS = ["predict", "model", "table.csv", "--out", "said"]
    OUT = "said"

    def config(self):
        return {**config(), "app": SoftmaxNode.APP}

    def write_data(self):
        (self.work / "table.csv").write_text(table())

    def test_calls_that_fail(self):
        self.loop()


class Eval(Predict):
    ROLE = "eval"
    WORDS = ["eval", "model", "table.csv"]
    OUT = None


class PredictTopics(Predict):
    WORDS = ["predict", "model", LdaNode.APP["data"], "--out", "said"]

    def config(self):
        return {**config(), "app": LdaNode.APP}


class PredictWords(Predict):
    WORDS = ["predict", "model", "asked.txt", "--out", "said"]

    def config(self):
        return {**config(), "app": WordsNode.APP}

    def write_data(self):
        (self.work / "asked.txt").write_text(
            ": cells\nw0_0 w0_1 w1_0 w1_1\nw0_1 w0_2 w2_1 w2_2\n")


# ---- data that a service is given ------------------------------------------

class Upload(test_faults.ServiceItself):
    """A file is uploaded before the run that reads it: whole, or not at all."""

    def config(self):
        return {**config(),
                "app": {**config()["app"], "data": "uploaded.txt"}}

    def undisturbed(self):
        path = self.work / "uploaded.txt"
        path.write_text(ratings())
        expected = super().undisturbed()
        path.unlink()
        return expected

    def submit(self, service, seconds=20):
        if not self.upload(service, seconds):
            return None
        return super().submit(service, seconds)

    def upload(self, service, seconds):
        """False where the service has ended, or says that it cannot."""
        path = "/api/v1/data/uploaded.txt"
        file = self.work / "uploaded.txt"
        begun = time.monotonic()
        while service.poll() is None:
            code, _ = self.ask("POST", f"{path}?anew=true", ratings().encode())
            if file.exists():
                if file.read_text() != ratings():
                    raise Wrong("another file")
                return True
            if code in (200, 201):
                raise Wrong(f"{code}, and no file")
            if code == 507 or (self.lasting and time.monotonic() > begun + 3):
                return False
            if time.monotonic() > begun + seconds:
                raise Wrong(f"nothing can be uploaded: {code}")
            time.sleep(0.02)
        return False
