"""Programs in Python with the package apps/python/mltune, against an independent
tuner: their branches, slices, cuts, tests, snapshots and ends."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from harness import Case, ROOT
from test_node import SECONDS, Tuner, number

PACKAGE = ROOT / "apps/python"
PROGRAMS = pathlib.Path(__file__).parent / "programs"


class Program(Case):
    """Starts programs as `mltune run` does, under a tuner of our own."""

    def setUp(self):
        super().setUp()
        self.tuner = Tuner()
        self.addCleanup(lambda: self.tuner and self.tuner.close())
        self.process = None

    def start_program(self, path, node=0, **environment):
        env = {**self.env, "PYTHONPATH": str(PACKAGE), "MLTUNE_NODE": str(node),
               "MLTUNE_ENDPOINT": self.tuner.endpoint, **environment}
        self.process = subprocess.Popen(
            [sys.executable, path], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
            cwd=self.folder)
        return self.process

    def load(self, path=PROGRAMS / "net.py", tunables=None, memory=None,
             seed=7, **settings):
        """Starts @path and configures it; its `ready` or `failed`."""
        self.start_program(path)
        hello = self.tuner.receive()
        self.assertEqual((hello["kind"], hello["version"], hello["pid"]),
                         ("hello", 1, self.process.pid))
        config = {"app": {"command": ["python3", str(path)],
                          "settings": settings},
                  "tunables": tunables or
                  {"learning_rate": {"default": 0.02}, "dropout":
                   {"default": 0.2}, "batch_size": {"default": 16}}}
        if memory is not None:
            config["memory"] = {"limit": memory}
        self.tuner.ask("config", config=config, folder=str(self.folder),
                       seed=seed)
        self.ready = self.tuner.receive()
        self.clock = 0
        return self.ready

    def expect(self, kind, op=None):
        message = self.tuner.receive()
        self.assertEqual((message["kind"], message.get("op")),
                         (kind, op or self.tuner.op), message)
        return message

    def fork(self, branch, parent=0, kind="training", **setting):
        self.tuner.fork(branch, parent, kind, **setting)
        self.expect("forked")

    def free(self, branch):
        self.tuner.ask("free", branch=branch)
        self.expect("done")

    def slice(self, branch, count, every=1):
        """Runs a slice; its windows' sums, and `done`."""
        op = self.tuner.schedule(branch, self.clock, count, every)
        self.clock += count
        reports, done = self.tuner.until_done(op)
        self.assertEqual(done["kind"], "done", done)
        return [number(s) for r in reports for s in r["sum"]], done

    def sums(self, branch, count):
        return self.slice(branch, count)[0]

    def end(self, code=0):
        if code == 0:
            self.tuner.ask("stop", reason="test")
            self.expect("done")
        done = self.finish(self.process, SECONDS)
        self.assertEqual(done.code, code, done.err)
        self.assert_nothing_left()
        return done


class Branches(Program):
    def test_ready_says_what_the_program_is(self):
        ready = self.load()
        self.assertEqual(ready["kind"], "ready", ready)
        self.assertEqual((ready["samples"], ready["validation_samples"],
                          ready["parts"], ready["workers"]), (300, 100, 0, 1))
        self.assertEqual(ready["tunables"],
                         ["batch_size", "dropout", "learning_rate", "momentum",
                          "weight_decay"])
        self.assertEqual((ready["metric"], ready["metric_higher_better"],
                          ready["metric_reduction"], ready["loss_floor"]),
                         ("accuracy", True, "mean", 0))
        self.assertEqual(ready["metrics"], ["loss", "norm"])
        self.assertEqual(ready["cuts"], "own")
        self.assertGreater(ready["model_bytes"], 2 * 4 * 300)
        self.end()

    def test_forks_equal_their_parents(self):
        """A fork with its parent's setting goes on as the parent does; siblings
        and tests between change nothing."""
        self.load()
        self.fork(1, learning_rate=0.03)
        self.sums(1, 20)
        self.fork(2, 1, learning_rate=0.03)
        self.fork(3, 1, learning_rate=0.3)
        self.fork(4, 1, "testing")
        on = []
        for _ in range(5):
            on += self.sums(1, 3)
            self.sums(3, 2)
            self.sums(4, 1)
        self.assertEqual(self.sums(2, 15), on)
        self.assertNotEqual(self.sums(3, 1), on[:1])
        self.end()


if __name__ == "__main__":
    import unittest
    unittest.main()
