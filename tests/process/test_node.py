"""The training node over a real socket, with an independent tuner in Python.

What the two say to each other is docs/protocol.md; this tuner knows nothing of
the C code's.
"""
import json
import math
import shutil
import signal
import tempfile
import time

from harness import Case, endless_config, mlr_config

import numpy
import zmq

SECONDS = 30


class Tuner:
    """The least that can be called a tuner."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mltune-tuner-")
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 0)
        self.router.setsockopt(zmq.RCVTIMEO, SECONDS * 1000)
        self.endpoint = f"ipc://{self.folder}/tuner"
        self.router.bind(self.endpoint)
        self.peer = None
        self.op = 0
        self.beats = []

    def close(self):
        self.router.close()
        self.context.term()
        shutil.rmtree(self.folder)

    def receive(self):
        """The next message that is no beat."""
        while True:
            self.peer, text = self.router.recv_multipart()
            message = json.loads(text)
            if message["kind"] != "beat":
                return message
            self.beats.append((time.monotonic(), message))

    def send_bytes(self, text):
        self.router.send_multipart([self.peer, text])

    def ask(self, kind, **members):
        self.op += 1
        self.send_bytes(json.dumps(
            {"kind": kind, "op": self.op, **members}).encode())
        return self.op

    def fork(self, branch, parent=0, kind="training", **setting):
        return self.ask("fork", branch=branch, parent=parent, type=kind,
                        setting=setting)

    def schedule(self, branch, first, count, every):
        return self.ask("schedule", branch=branch, first=first, count=count,
                        report_every=every)

    def gather(self, ops):
        """Everything that comes until all of @ops are answered."""
        ops, messages = set(ops), []
        while ops:
            messages.append(self.receive())
            if messages[-1]["kind"] != "report":
                ops.discard(messages[-1]["op"])
        return messages

    def until_done(self, op):
        """Reports of the slice @op and its end."""
        messages = [m for m in self.gather([op]) if m["op"] == op]
        return messages[:-1], messages[-1]


def number(x):
    return float(x)  # "nan", "inf" and "-inf" are numbers that came as text


class NodeTest(Case):
    def setUp(self):
        super().setUp()
        self.tuner = Tuner()
        self.addCleanup(lambda: self.tuner and self.tuner.close())
        self.node = None

    def start_node(self):
        self.node = self.start("node", "--tuner", self.tuner.endpoint,
                               "--node", 0)
        hello = self.tuner.receive()
        self.assertEqual(hello["kind"], "hello")
        self.assertEqual(hello["version"], 1)
        self.assertEqual(hello["pid"], self.node.pid)

    def load(self, workers=1, **app):
        self.start_node()
        self.configure(workers, **app)

    def configure(self, workers, **app):
        config = mlr_config()
        config["cluster"]["workers"] = workers
        config["app"].update(app)
        op = self.tuner.ask("config", config=config, folder=str(self.folder),
                            seed=7)
        self.ready = self.tuner.receive()
        self.assertEqual(self.ready["kind"], "ready", self.ready)
        self.assertEqual(self.ready["op"], op)

    def expect(self, kind, op):
        message = self.tuner.receive()
        self.assertEqual((message["kind"], message.get("op")), (kind, op),
                         message)
        return message

    def end(self, code=0):
        if code == 0:
            self.expect("done", self.tuner.ask("stop", reason="test"))
        done = self.finish(self.node, SECONDS)
        self.assertEqual(done.code, code, done.err)
        self.assert_nothing_left()
        return done

    # ---- the conversation ------------------------------------------------

    def test_handshake(self):
        """Hello, configuration, ready with what the application is."""
        self.load(workers=2)
        ready = self.ready
        self.assertGreater(ready["samples"], 1000)
        self.assertGreater(ready["validation_samples"], 100)
        self.assertEqual(ready["parts"], 0)
        self.assertEqual(ready["workers"], 2)
        self.assertEqual(sorted(ready["tunables"]),
                         ["batch_size", "learning_rate", "momentum",
                          "warmup", "weight_decay"])
        self.assertEqual(ready["metric"], "accuracy")
        self.assertIs(ready["metric_higher_better"], True)
        self.assertEqual(ready["loss_floor"], 0)
        self.assertGreater(ready["model_bytes"], 0)
        self.end()

    def test_operations_keep_their_order(self):
        """All operations of a trial sent at once: forks are answered at once,
        slices run in their order, each one's windows before its done."""
        t = self.tuner
        self.load()
        forks = [t.fork(1, learning_rate=0.1, batch_size=16),
                 t.fork(2, 1, "testing"), t.fork(3, 1, "kept")]
        trial = t.schedule(1, 0, 50, 5)
        forks.append(t.fork(4, 1, "testing"))  # of the trained branch
        before, after = t.schedule(2, 50, 1, 1), t.schedule(4, 51, 1, 1)
        free = t.ask("free", branch=2)
        messages = t.gather(forks + [trial, before, after, free])
        self.assertEqual([m["op"] for m in messages if m["kind"] == "forked"],
                         forks)
        self.assertEqual([m["op"] for m in messages if m["kind"] == "done"],
                         [trial, before, after, free])
        done, reports = {}, {}
        for m in messages:
            if m["kind"] == "done":
                done[m["op"]] = m
            elif m["kind"] == "report":
                self.assertNotIn(m["op"], done)
                reports.setdefault(m["op"], []).append(m)
        self.assertEqual(done[trial]["clocks"], 50)
        self.assertGreaterEqual(done[trial]["switch_s"], 0)
        self.check_reports(reports[trial], 0, 50, 5)
        loss = [number(s) / n for r in reports[trial]
                for s, n in zip(r["sum"], r["samples"])]
        self.assertAlmostEqual(loss[0], math.log(10), delta=0.8)
        self.assertLess(loss[-1], loss[0])
        self.assertEqual(reports[before][0]["first"], 50)
        self.assertEqual(reports[before][0]["samples"],
                         [self.ready["validation_samples"]])
        accuracy = [reports[op][0]["sum"][0] / reports[op][0]["samples"][0]
                    for op in (before, after)]
        self.assertGreater(accuracy[1], accuracy[0] + 0.2)
        self.end()

    def check_reports(self, reports, first, clocks, every):
        at = first
        for r in reports:
            self.assertEqual(r["first"], at)
            lengths = {len(r[k]) for k in ("sum", "samples", "clocks",
                                           "seconds", "wait_s", "copy_s",
                                           "stalled_s")}
            self.assertEqual(len(lengths), 1)
            self.assertTrue(all(c == every for c in r["clocks"]))
            self.assertTrue(all(s >= 0 for s in r["seconds"]))
            at += sum(r["clocks"])
        self.assertEqual(at, first + clocks)

    def test_same_seed_same_bits(self):
        """One worker, the same seed and clocks: another process computes the
        same losses to the last bit; a fork that goes on with its parent's
        setting does so, too."""
        runs = []
        for _ in range(2):
            t = self.tuner
            self.load()
            setting = {"learning_rate": 0.05, "momentum": 0.9, "batch_size": 16}
            t.fork(1, **setting)
            self.expect("forked", t.op)
            losses = self.losses(1, 0, 60)
            t.fork(2, 1, **setting)
            self.expect("forked", t.op)
            on, forked = self.losses(1, 60, 40), self.losses(2, 100, 40)
            self.assertEqual(on, forked)
            runs.append(losses + on)
            self.end()
            t.close()
            self.tuner = Tuner()
        self.assertEqual(runs[0], runs[1])

    def losses(self, branch, first, count):
        reports, _ = self.tuner.until_done(
            self.tuner.schedule(branch, first, count, 1))
        return [x for r in reports for x in r["sum"]]

    def test_cut_ends_a_slice(self):
        """A slice of a day ends at a cut, reports what it ran, and the next
        one goes on in the same branch."""
        t = self.tuner
        self.load(workers=2)
        t.fork(1, learning_rate=0.01, batch_size=16)
        self.expect("forked", t.op)
        op = t.schedule(1, 0, 10**9, 10**6)
        t.fork(2, 1)
        self.expect("forked", t.op)  # while the slice runs
        time.sleep(0.3)
        cut = t.ask("cut", target=op)
        messages = t.gather([cut, op])
        reports = [m for m in messages if m["kind"] == "report"]
        done = messages[-1]
        self.assertEqual(done["op"], op)
        self.assertGreater(done["clocks"], 10)
        self.assertLess(done["clocks"], 10**9)
        self.assertEqual(sum(sum(r["clocks"]) for r in reports),
                         done["clocks"])
        self.assertEqual(len(self.losses(1, 10**9, 3)), 3)
        self.end()

    def test_reports_come_while_a_slice_runs(self):
        """A slice that takes its time is reported on before it ends, and beats
        come all the while."""
        t = self.tuner
        self.load()
        t.fork(1, learning_rate=0.0, batch_size=64)
        self.expect("forked", t.op)
        op = t.schedule(1, 0, 10**7, 10**4)
        begin, times = time.monotonic(), []
        while time.monotonic() - begin < 3.2:
            message = t.receive()
            self.assertEqual(message["kind"], "report")
            times.append(time.monotonic())
        t.ask("cut", target=op)
        t.until_done(op)
        gaps = [b - a for a, b in zip(times, times[1:])]
        # The middle one: a busy machine may hold any single one up.
        self.assertLess(sorted(gaps)[len(gaps) // 2], 1.0)
        self.assertGreaterEqual(len(t.beats), 2)
        last = t.beats[-1][1]
        self.assertGreater(last["memory_limit_bytes"], 0)
        self.assertGreater(last["seconds"], 0)
        self.assertLessEqual(last["wait_s"], last["seconds"])
        self.assertGreater(last["workers"], 0)
        self.assertEqual(last["data_bytes_sent"], 0)
        self.end()

    # ---- refusals --------------------------------------------------------

    def test_refusals_change_nothing(self):
        """What cannot be is answered failed with code and reason, memory that
        is out too; the node goes on."""
        t = self.tuner
        self.load()
        for ask, code in [
                (lambda: t.fork(1, 9), "noent"),
                (lambda: t.fork(1, 0, learning_rate=-1), "inval"),
                (lambda: t.fork(1, 0, speed=1), "inval"),
                (lambda: t.schedule(0, 0, 1, 1), "inval"),
                (lambda: t.schedule(1, 0, 1, 1), "noent"),
                (lambda: t.ask("free", branch=5), "noent"),
                (lambda: t.ask("snapshot", branch=4, path="/x"), "noent"),
                (lambda: t.ask("save", branch=4, path="/x"), "noent"),
                (lambda: t.ask("rows", branch=0, table="no", first=0, count=1),
                 "noent")]:
            failed = self.expect("failed", ask())
            self.assertEqual(failed["code"], code, failed)
            self.assertTrue(failed["reason"])
        branch, refused = 1, None
        while refused is None and branch < 10000:
            t.fork(branch)
            message = t.receive()
            if message["kind"] == "failed":
                refused = message
            branch += 1
        self.assertEqual(refused["code"], "limit")
        t.ask("free", branch=1)
        self.expect("done", t.op)
        t.fork(1)
        self.expect("forked", t.op)
        t.schedule(1, 0, 3, 3)
        self.assertEqual(t.until_done(t.op)[1]["clocks"], 3)
        self.end()

    def test_garbage_is_logged_once_and_survived(self):
        """Whatever bytes come, the log says so once and the node goes on."""
        self.load()
        for text in [b"", b"{", b"\xff" * 100, b"[]", b'{"kind":"dance"}',
                     b'{"kind":"fork","op":"x"}', b'{"kind":"free","op":2}',
                     b"[" * 100000]:
            self.tuner.send_bytes(text)
        self.tuner.fork(1)
        self.expect("forked", self.tuner.op)
        done = self.end()
        self.assertEqual(done.err.count("message_ignored "), 1, done.err)
        self.assertIn("messages_ignored count=8", done.err)

    # ---- ends ------------------------------------------------------------

    def test_load_failures_are_told(self):
        """Missing data come back as the answer to the configuration."""
        self.start_node()
        config = mlr_config()
        config["app"]["data"] = "nowhere"
        op = self.tuner.ask("config", config=config, folder=str(self.folder),
                            seed=7)
        failed = self.expect("failed", op)
        self.assertEqual(failed["code"], "noent")
        self.assertIn("nowhere", failed["reason"])
        self.end(code=1)

    def test_too_little_memory_is_told(self):
        """A model that does not fit five times is refused with the sizes."""
        self.start_node()
        config = mlr_config()
        config["memory"] = {"limit": 1}
        failed = self.expect("failed", self.tuner.ask(
            "config", config=config, folder=str(self.folder), seed=7))
        self.assertEqual(failed["code"], "limit")
        self.assertIn("memory", failed["reason"])
        self.end(code=1)

    def test_lost_tuner_ends_the_node(self):
        """A tuner whose socket is gone for good ends the node, in the midst of
        a slice, within seconds and without a trace."""
        t = self.tuner
        self.load(workers=2)
        t.fork(1, learning_rate=0.01)
        self.expect("forked", t.op)
        t.schedule(1, 0, 10**9, 10**6)
        time.sleep(0.2)
        t.close()
        self.tuner = None
        begin = time.monotonic()
        done = self.finish(self.node, SECONDS)
        self.assertEqual(done.code, 69, done.err)
        self.assertLess(time.monotonic() - begin, 10)
        self.assert_nothing_left()

    def test_sigterm_ends_the_node(self):
        """SIGTERM in the midst of a slice: exit code 143, nothing left."""
        t = self.tuner
        self.load(workers=2)
        t.fork(1, learning_rate=0.01)
        self.expect("forked", t.op)
        t.schedule(1, 0, 10**9, 10**6)
        time.sleep(0.2)
        self.node.send_signal(signal.SIGTERM)
        self.end(code=143)

    def test_killed_tuner_takes_its_node_along(self):
        """kill -9 of a whole tuner process: its node ends by itself."""
        self.write("config.json", endless_config())
        tuner = self.start("run", "config.json")
        self.wait_until(lambda: len(self.marked()) >= 2, "a node")
        time.sleep(0.5)
        tuner.kill()
        tuner.communicate(timeout=SECONDS)
        self.wait_until(lambda: not self.marked(), "the node's end", 10)
        left = [p for p in self.folder.rglob("*.tmp")
                if p.name != "ipc.tmp"]  # the tuner's, swept by the next one
        self.assertEqual(left, [])

    # ---- the model -------------------------------------------------------

    def test_rows_and_save(self):
        """Rows are read as NumPy reads the saved table; an increment acts."""
        t = self.tuner
        self.load()
        t.fork(1, learning_rate=0.1, momentum=0, batch_size=16)
        self.expect("forked", t.op)
        self.losses(1, 0, 20)
        rows = self.expect("done", t.ask("rows", branch=1, table="weights",
                                         first=0, count=10))["data"]
        saved = self.expect("done", t.ask("save", branch=1,
                                          path=str(self.folder / "m")))
        table = numpy.load(self.folder / "m" / "weights.npy")
        self.assertEqual(table.tolist(), rows)
        self.assertEqual(saved["data"]["tables"],
                         [{"name": "weights", "rows": 10,
                           "width": len(rows[0]), "type": "f32"}])
        self.assertGreater(saved["bytes"], table.nbytes)
        step = [[1.0] + [0.0] * (len(rows[0]) - 1)]
        added = self.expect("done", t.ask("rows", branch=1, table="weights",
                                          first=3, count=1, increment=step))
        self.assertNotIn("data", added)
        after = self.expect("done", t.ask("rows", branch=1, table="weights",
                                          first=3, count=1))["data"]
        self.assertLess(after[0][0], rows[3][0])
        self.assertEqual(after[0][1:], rows[3][1:])
        self.end()
