"""Programs in Python with the package apps/python/mltune, against an independent
tuner: their branches, slices, cuts, tests, snapshots and ends."""
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

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
               "MLTUNE_TUNER": self.tuner.endpoint, **environment}
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


class Probe(Program):
    def test_probe_of_a_loop_that_updates_by_hand_learns_nothing(self):
        """Arrays that the loop itself writes are as the probe was forked with
        them at each clock: the loss is that of no knowledge, log 4."""
        self.load(PROGRAMS / "softmax.py",
                  {"learning_rate": {"default": 0.3},
                   "batch_size": {"default": 10}})
        self.fork(1, kind="probe")
        for mean in (s / 10 for s in self.sums(1, 3) + self.sums(1, 4)):
            self.assertAlmostEqual(mean, math.log(4), places=9)
        self.fork(2)
        self.assertLess(self.sums(2, 90)[-1] / 10, 1)
        self.end()


class Refusals(Program):
    def fails(self, code):
        failed = self.expect("failed")
        self.assertEqual(failed["code"], code, failed)
        self.assertTrue(failed["reason"])

    def test_refusals_change_nothing(self):
        """What cannot be is answered failed with code and reason, memory that
        is out too; the program goes on."""
        t = self.tuner
        bytes_ = self.load()["model_bytes"]
        self.end()
        t.close()
        self.tuner = t = Tuner()
        self.load(memory=11 * bytes_)  # one of them, and gradients, for clocks
        for ask, code in [
                (lambda: t.fork(1, 9), "noent"),
                (lambda: t.fork(1, 0, learning_rate=-1), "inval"),
                (lambda: t.fork(1, 0, batch_size=0.5), "inval"),
                (lambda: t.fork(1, 0, momentum=1), "inval"),
                (lambda: t.fork(1, 0, speed=1), "inval"),
                (lambda: t.fork(0, 0), "exist"),
                (lambda: t.schedule(0, 0, 1, 1), "inval"),
                (lambda: t.schedule(1, 0, 1, 1), "noent"),
                (lambda: t.ask("free", branch=5), "noent"),
                (lambda: t.ask("snapshot", branch=4, path="/x"), "noent"),
                (lambda: t.ask("restore", branch=4, path="/x"), "noent"),
                (lambda: t.ask("save", branch=4, path="/x"), "noent"),
                (lambda: t.ask("save", branch=0, path="/proc/x"), "io"),
                (lambda: t.ask("rows", branch=0, table="no", first=0, count=1),
                 "noent"),
                (lambda: t.ask("config", config={}, folder="/", seed=1),
                 "exist")]:
            ask()
            self.fails(code)
        self.fork(1)
        t.schedule(1, 0, 5000, 1)
        self.fails("inval")  # windows
        t.ask("snapshot", branch=1, path=str(self.folder / "s"))
        self.fails("inval")
        self.slice(1, 3)
        t.schedule(1, 2, 1, 1)
        self.fails("inval")  # a clock that was run
        for b in range(2, 9):
            self.fork(b, 1)
        t.fork(9, 1)
        self.fails("limit")
        self.free(2)
        self.fork(10, 1, "kept")
        self.fork(11, 10, "kept")  # costs nothing
        t.fork(12, 1)
        self.fails("limit")
        self.assertEqual(len(self.sums(3, 3)), 3)
        self.end()

    def test_sixty_four_branches_stay_within_the_limit(self):
        """As many as memory holds are forked and train; each one more is
        refused at once, and the process takes no more than was said."""
        wide = PROGRAMS / "wide.py"
        tunables = {"learning_rate": {"default": 0.001}}
        bytes_ = self.load(wide, tunables)["model_bytes"]
        self.assertGreater(bytes_, 3 * 4 * 4 * 256 * 256)
        self.end()
        self.tuner.close()
        self.tuner = Tuner()
        self.load(wide, tunables, memory=22 * bytes_)
        before = self.peak_bytes()
        forked, begin = [], time.monotonic()
        for b in range(1, 65):
            self.tuner.fork(b, 0, learning_rate=0.001 * b)
            answer = self.tuner.receive()
            if answer["kind"] == "forked":
                forked.append(b)
                self.sums(b, 2)
            else:
                self.assertEqual((answer["kind"], answer["code"]),
                                 ("failed", "limit"))
                self.assertIn("memory.limit", answer["reason"])
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(forked, list(range(1, 20)))  # and branch 0
        self.assertEqual(len([s for b in forked for s in self.sums(b, 1)]), 19)
        self.assertLess(self.peak_bytes() - before, 22 * bytes_)
        self.end()

    def test_the_resident_peak_stays_within_the_limit(self):
        """Above what the process had when it was ready: gradients, copies and
        what the heap keeps of both are within memory.limit, too."""
        wide = PROGRAMS / "wide.py"
        tunables = {"learning_rate": {"default": 0.001}}
        bytes_ = self.load(wide, tunables, width=700)["model_bytes"]
        self.end()
        self.tuner.close()
        self.tuner = Tuner()
        self.load(wide, tunables, memory=22 * bytes_, width=700)
        before = self.bytes_of("VmRSS")
        for b in range(1, 20):
            self.fork(b, learning_rate=0.001 * b)
            self.sums(b, 2)
        self.assertLess(self.peak_bytes() - before, 22 * bytes_)
        self.end()

    def test_too_little_memory_says_how_much_would_do(self):
        """With what it says, it loads; with a MiB less it does not."""
        wide = PROGRAMS / "wide.py"
        failed = self.load(wide, {"learning_rate": {}}, memory=8 << 20)
        self.assertEqual((failed["kind"], failed["code"]), ("failed", "limit"))
        self.assertRegex(failed["reason"], r"^a memory.limit of 8.0 MiB holds "
                         r"1 complete branches of 3.0 MiB, beside 4.0 MiB for "
                         r"gradients and a working copy; 5 are needed")
        self.end(1)
        least = re.search(r"raise memory.limit to (\d+)MiB$",
                          failed["reason"])[1]
        for less, kind in ((1, "failed"), (0, "ready")):
            self.tuner.close()
            self.tuner = Tuner()
            ready = self.load(wide, {"learning_rate": {}},
                              memory=f"{int(least) - less}MiB")
            self.assertEqual(ready["kind"], kind, ready)
            self.end(less)

    def peak_bytes(self):
        """The most memory that the program has had."""
        return self.bytes_of("VmHWM")

    def bytes_of(self, name):
        words = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(words.split(f"{name}:")[1].split()[0])

    def test_too_little_memory_is_told(self):
        failed = self.load(memory=1000)
        self.assertEqual((failed["kind"], failed["code"], failed["op"]),
                         ("failed", "limit", 1))
        self.assertIn("memory.limit", failed["reason"])
        self.end(code=1)

    def test_garbage_is_logged_once_and_survived(self):
        self.load()
        for text in [b"", b"{", b"\xff" * 100, b"[]", b'{"kind":"dance"}',
                     b'{"kind":"fork","op":"x"}', b'{"kind":"free","op":2.0}',
                     b'{"kind":"free","op":true,"branch":0}', b"[" * 100000,
                     b'{"kind":7}', b'{"kind":"cut","op":3}',
                     b'{"kind":"fork","op":9,"branch":1,"parent":0,'
                     b'"type":"other","setting":{}}']:
            self.tuner.send_bytes(text)
        self.fork(1)
        done = self.end()
        self.assertEqual(done.err.count("message_ignored "), 1, done.err)
        self.assertIn("messages_ignored count=12", done.err)

    def test_damaged_snapshots_are_refused(self):
        """A file that was cut, changed, or is of another program's shapes."""
        self.load(features="adam")
        self.fork(1, 0)
        self.sums(1, 2)
        self.fork(2, 1, "kept")
        path = self.folder / "s"
        self.tuner.ask("snapshot", branch=2, path=str(path))
        size = self.expect("done")["bytes"]
        file = path / "state.pt"
        whole = file.read_bytes()
        self.assertEqual(len(whole), size)
        middle = len(whole) // 2
        for damaged in [b"", whole[:middle], whole[:200] + b"\xff" * 64 +
                        whole[264:]]:
            file.write_bytes(damaged)
            self.tuner.ask("restore", branch=3, path=str(path))
            self.fails("format")
        file.write_bytes(whole)
        self.end()
        self.tuner.close()
        self.tuner = Tuner()
        self.load(features="step")  # a plan more, SGD
        self.tuner.ask("restore", branch=3, path=str(path))
        self.fails("format")
        self.end()

    def test_a_snapshot_runs_no_code(self):
        """A pickle that would call something is refused."""
        import torch

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(made),)
        made = self.folder / "made"
        self.load()
        (self.folder / "s").mkdir()
        torch.save({"text": Evil(), "arrays": []},
                   self.folder / "s" / "state.pt")
        self.tuner.ask("restore", branch=3, path=str(self.folder / "s"))
        self.fails("format")
        self.assertFalse(made.exists())
        self.end()


class Slices(Program):
    def test_windows_hold_what_was_asked(self):
        self.load()
        self.fork(1, batch_size=32)
        op = self.tuner.schedule(1, 0, 25, 4)
        reports, done = self.tuner.until_done(op)
        clocks = [c for r in reports for c in r["clocks"]]
        self.assertEqual(clocks, [4] * 6 + [1])
        self.assertEqual(done["clocks"], 25)
        samples = sum(n for r in reports for n in r["samples"])
        self.assertEqual(samples, 300 + 300 + 5 * 32)  # two epochs end
        at = 0
        for r in reports:
            self.assertEqual(r["first"], at)
            at += sum(r["clocks"])
            self.assertEqual(list(r["values"]), ["norm"])
            self.assertEqual(len(r["values"]["norm"]), len(r["sum"]))
            self.assertTrue(all(v > 0 for v in r["values"]["norm"]))
            self.assertTrue(all(s >= 0 for s in r["seconds"]))
        self.assertGreaterEqual(done["switch_s"], 0)
        self.end()

    def test_a_test_covers_the_validation_set(self):
        self.load()
        self.fork(1, 0, "testing")
        op = self.tuner.schedule(1, 0, 1, 1)
        (report,), done = self.tuner.until_done(op)
        self.assertEqual((report["samples"], done["clocks"]), ([100], 1))
        self.assertLessEqual(report["sum"][0], 100)
        self.assertAlmostEqual(report["values"]["loss"][0], 1.4, delta=0.5)
        self.end()

    def test_siblings_see_the_same_samples(self):
        """With a rate of nothing the loss over an epoch is the same whatever
        the batch size is."""
        self.load(tunables={"learning_rate": {"default": 0.0},
                            "dropout": {"default": 0.0},
                            "batch_size": {"default": 16}},
                  features="frozen")
        sums = []
        for b, size in enumerate([300, 300, 150], 1):
            self.fork(b, learning_rate=0, batch_size=size)
            sums.append(self.sums(b, 300 // size))
        self.assertEqual(sums[0], sums[1])
        self.assertEqual(len(sums[2]), 2)
        self.end()

    def test_a_probe_learns_nothing(self):
        self.load(samples=64, tunables={"dropout": {"default": 0.0}})
        self.fork(1, 0, "probe", learning_rate=1.0, batch_size=64)
        sums = self.sums(1, 3)
        self.assertAlmostEqual(sums[0], sums[1], places=3)
        self.assertAlmostEqual(sums[0], sums[2], places=3)
        self.end()

    def test_a_sum_that_is_not_finite_ends_the_slice(self):
        self.load(wrong="nan")
        self.fork(1)
        op = self.tuner.schedule(1, 0, 10, 10)
        (report,), done = self.tuner.until_done(op)
        self.assertEqual((report["sum"], report["clocks"], done["clocks"]),
                         (["nan"], [4], 4))
        self.end()

    def test_cut_ends_a_slice(self):
        """In the midst of it, while it waits, and when it is over."""
        t = self.tuner
        self.load()
        self.fork(1)
        op = t.schedule(1, 0, 10**9, 10**6)
        waits = t.schedule(1, 10**9, 10, 1)
        self.fork(2, 1)  # while the slice runs
        time.sleep(0.2)
        cut, late = t.ask("cut", target=op), t.ask("cut", target=waits)
        messages = t.gather([cut, late, op, waits])
        done = {m["op"]: m for m in messages if m["kind"] == "done"}
        self.assertGreater(done[op]["clocks"], 10)
        self.assertLess(done[op]["clocks"], 10**6)
        self.assertEqual(done[waits]["clocks"], 0)
        self.assertEqual(sum(sum(m["clocks"]) for m in messages
                             if m["kind"] == "report"), done[op]["clocks"])
        t.ask("cut", target=op)
        self.expect("done")
        self.clock = 10**9 + 10
        self.assertEqual(len(self.sums(1, 3)), 3)
        self.end()

    def test_reports_and_beats_come_while_a_slice_runs(self):
        t = self.tuner
        self.load()
        self.fork(1)
        op = t.schedule(1, 0, 40 * 1000, 40)  # windows: as many as may be
        reports, begun = 0, len(t.beats)
        while (reports < 3 or len(t.beats) < begun + 3 or
               t.beats[-1][1]["clocks"] <= 100):
            self.assertEqual(t.receive()["kind"], "report")
            reports += 1
        # A beat comes once a second, reports more often.
        self.assertGreater(reports, len(t.beats) - begun)
        t.ask("cut", target=op)
        t.until_done(op)
        last = t.beats[-1][1]
        self.assertGreater(last["memory_limit_bytes"], 0)
        self.assertGreater(last["memory_bytes"], 0)
        self.assertEqual((last["branches"], last["workers"]), (2, 1))
        self.assertGreater(last["seconds"], 0)
        self.end()

    def test_held_slices_end_where_they_are_told(self):
        """`hold` stops a slice and says how far it is; `cut` with `clocks` names
        the end."""
        t = self.tuner
        self.load()
        self.fork(1)
        op = t.schedule(1, 0, 10**6, 10**6)
        time.sleep(0.2)
        t.ask("hold", target=op)
        begun = self.expect("done")["clocks"]
        time.sleep(0.1)
        t.ask("hold", target=op)
        self.assertEqual(self.expect("done")["clocks"], begun)
        cut = t.ask("cut", target=op, clocks=begun + 7)
        done = [m for m in t.gather([cut, op]) if m["op"] == op][-1]
        self.assertEqual(done["clocks"], begun + 7)
        self.end()


class Rates(Program):
    """What settings do to torch's optimizers, read from a snapshot."""

    def groups(self, setting, features=""):
        ready = self.load(features=features)
        self.assertEqual(ready["kind"], "ready", ready)
        self.fork(1, **setting)
        self.sums(1, 1)
        self.fork(2, 1, "kept")
        path = self.folder / "s"
        self.tuner.ask("snapshot", branch=2, path=str(path))
        self.expect("done")
        done = self.end()
        sys.path.insert(0, str(PACKAGE))
        from mltune import _files
        return _files.load_tree(str(path), "state")["state"], done.err

    def test_groups_keep_their_ratio(self):
        """The rate is the first group's; a group without decay stays so."""
        state, _ = self.groups({"learning_rate": 0.04, "momentum": 0.5,
                                "weight_decay": 0.1})
        groups = state["opt"]["groups"]
        self.assertEqual(groups[0]["lr"], 0.04)
        self.assertAlmostEqual(groups[1]["lr"], 0.1)
        self.assertEqual([g["momentum"] for g in groups], [0.5, 0.5])
        self.assertEqual([g["weight_decay"] for g in groups], [0.0, 0.1])

    def test_schedules_are_scaled(self):
        state, err = self.groups({"learning_rate": 0.02}, "adam onecycle")
        self.assertAlmostEqual(state["opt"]["groups"][1]["max_lr"], 0.04)
        self.assertIn("OneCycleLR: learning_rate is its max_lr", err)

    def test_what_was_forgotten_is_warned_of(self):
        """The optimizer of a scheduler, the module of an optimizer; nothing
        where all was passed, in whatever form."""
        for state, says in (
                ("net, plan", ["optimizer of StepLR (SGD) is not registered"]),
                ("opt, plan", ["2 of the parameters of SGD (the first of shape "
                               "(1, 2))"]),
                ("net, opt, plan", []), ("wrapped, opt, plan", []),
                ("opt, plan, held=dict(net.named_parameters())", []),
                ("opt, w=net.weight, b=net.bias", [])):
            path = self.write("forgot.py", f"""import torch, mltune
mltune.config()
net = torch.nn.Linear(2, 1)
wrapped = torch.nn.Sequential(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
plan = torch.optim.lr_scheduler.StepLR(opt, 3)
run = mltune.Run({state}, samples=4, epochs=1)
for batch in run.train():
    batch.loss(1)
    opt.step()
""")
            done = subprocess.run(
                [sys.executable, path], text=True, check=True,
                cwd=self.folder, env={**self.env, "PYTHONPATH": str(PACKAGE)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            lines = [line for line in done.stderr.splitlines()
                     if line.startswith("mltune:")]
            self.assertEqual(len(lines), len(says), done.stderr)
            for line, word in zip(lines, says):
                self.assertIn(word, line)

    def test_a_validation_set_that_nobody_looks_at_is_warned_of(self):
        for how, says in (("", 1), ("@run.validate\ndef look(): return 1\n", 0)):
            path = self.write("look.py", f"""import numpy, mltune
mltune.config()
run = mltune.Run(w=numpy.zeros(2), samples=4, validation_samples=3, epochs=1)
{how}
for batch in run.train():
    batch.loss(1)
""")
            done = subprocess.run(
                [sys.executable, path], text=True, check=True,
                cwd=self.folder, env={**self.env, "PYTHONPATH": str(PACKAGE)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(done.stderr.count("no function has @run.validate"),
                             says, done.stderr)

    def test_plateau_is_warned_of(self):
        _, err = self.groups({"learning_rate": 0.04}, "plateau")
        self.assertIn("ReduceLROnPlateau", err)


class Rooms(unittest.TestCase):
    """A device that holds two branches, of four that train by turns."""

    def test_waiting_branches_leave_the_device(self):
        sys.path.insert(0, str(PACKAGE))
        import numpy
        from mltune import _state

        class Device(_state.Room):
            def __init__(self):
                self.moves = []

            def lies_there(self, page):
                return True

            def free(self):
                pages = {id(p): p for s in registry._states.values()
                         for p in s.pages() if p.home is None}
                return 25 * 8 - sum(p.bytes for p in pages.values())

            def out(self, page):
                page.home, page.data = "device", page.data.copy()
                self.moves.append("out")

            def back(self, page):
                page.home, page.data = None, page.data.copy()
                self.moves.append("back")

        live = {"x": numpy.zeros(10)}
        registry = _state.Registry()
        registry.holders.append(_state.TreeHolder(
            "x", lambda: dict(live), live.update, keeps=True))
        registry.room = Device()
        root = registry.first()
        states = [registry.share(root) for _ in range(4)]
        for turn in range(5):
            for i in range(4):
                registry.activate(states[i])
                live["x"] += i + 1
                states[i] = registry.capture(states[i])
                self.assertGreaterEqual(registry.room.free(), 0)
        self.assertGreater(registry.room.moves.count("back"), 4)
        for i in range(4):
            registry.activate(states[i], "look")
            self.assertEqual(live["x"].tolist(), [5.0 * (i + 1)] * 10)
        registry.activate(root, "look")
        self.assertEqual(live["x"].tolist(), [0.0] * 10)
        for state in [root, *states]:
            registry.release(state)
        self.assertEqual(registry.bytes, 0)


    def test_a_cuda_device_is_asked_and_relieved(self):
        """CudaRoom with torch.cuda played: no GPU is here. What is free is
        what the device has and the cache holds, less what a clock takes; a
        page goes to pinned memory and comes back, strides and values kept."""
        sys.path.insert(0, str(PACKAGE))

        import torch
        from mltune import _state
        from mltune import torch as mltune_torch
        device, pinned = torch.device("cpu"), []
        empty = torch.empty_strided

        def empty_strided(*args, pin_memory=False, **kwargs):
            pinned.append(pin_memory)
            return empty(*args, **kwargs)
        told = {"memory_allocated": 100, "max_memory_allocated": 160,
                "memory_reserved": 120, "mem_get_info": (1000, 5000)}
        with mock.patch.multiple(
                torch.cuda, reset_peak_memory_stats=mock.DEFAULT,
                **{name: mock.Mock(return_value=value)
                   for name, value in told.items()}), \
                mock.patch.object(torch, "empty_strided", empty_strided):
            room = mltune_torch.CudaRoom(device)
            self.assertEqual(room.free(), 1000 + 120 - 100)
            room.end_clocks()
            self.assertEqual(room.free(), 1000 + 120 - 100 - 60)
            # Branches that came since are no part of a clock.
            torch.cuda.memory_allocated.return_value = 130
            room.begin_clocks()
            torch.cuda.max_memory_allocated.return_value = 180
            room.end_clocks()
            self.assertEqual(room.free(), 1000 + 120 - 130 - 60)
            x = torch.randn(4, 6).t()
            page = _state.Page(mltune_torch.KIND, x)
            self.assertTrue(room.lies_there(page))
            self.assertFalse(room.lies_there(
                _state.Page(_state.KINDS[0], x.numpy())))
            room.out(page)
            self.assertEqual((page.home, pinned), (device, [True]))
            self.assertIsNot(page.data, x)
            room.back(page)
        self.assertEqual((page.home, pinned), (None, [True, False]))
        self.assertTrue(torch.equal(page.data, x))
        self.assertEqual(page.data.stride(), x.stride())


class Reports(unittest.TestCase):
    def test_a_report_goes_before_the_end_of_its_slice(self):
        """The link's thread reports and the training's ends a slice: whatever
        is sent, is sent under one lock, in the order of its clocks."""
        sys.path.insert(0, str(PACKAGE))
        from mltune import _node

        sent = []

        def send(message):
            free = []

            def take():
                free.append(node._mutex.acquire(blocking=False))
                if free[0]:
                    node._mutex.release()

            other = threading.Thread(target=take)
            other.start()
            other.join()
            sent.append((message["kind"], message.get("first"), *free))

        node = _node.Node(send)
        node._running = slice_ = _node.Operation(
            {"kind": "schedule", "op": 1, "branch": 1, "first": 5, "count": 3})
        self.assertFalse(node.report())
        for clocks in 2, 1:
            node.add_window(slice_, _node.Window(1.0, 32, clocks, 0.1, {}))
            if clocks == 2:
                self.assertTrue(node.report())
        node.finish(slice_, clocks=3)
        self.assertEqual(sent, [("report", 5, False), ("report", 7, False),
                                ("done", None, False)])


class Looks(unittest.TestCase):
    """What a slice did is looked at while the tuner decides, and before anybody
    can ask."""

    def setUp(self):
        sys.path.insert(0, str(PACKAGE))
        self.addCleanup(sys.path.remove, str(PACKAGE))
        from mltune import _engine, _node
        self.said = []
        self.node = _node.Node(self.said.append)
        program = _engine.Program()
        program.registry = self
        self.engine = _engine.Engine(self.node, program,
                                     _engine.Order(10, 1), 1)
        self.branches = [_engine.Branch(n, "training", None, _engine.Place(),
                                        self, {}) for n in (1, 2)]
        self.did = []
        self.bytes, self.spares = 0, self

    def capture(self, state):
        self.did.append("look")
        return state

    def activate(self, _state, how):
        self.did.append(how)

    def release(self, _state):
        pass

    def next(self):
        self.engine._left = self.branches[0]
        return self.engine._next()

    def late_after(self, *times):
        """What is told as late: a look begins, has ended, the next is there."""
        with mock.patch.multiple(self.node, is_idle=lambda: True,
                                 take=lambda: "operation"), \
                mock.patch("time.perf_counter", iter(times).__next__):
            self.assertEqual(self.next(), "operation")
        self.assertEqual(self.did, ["look"])
        return self.engine._late_s

    def test_a_look_counts_where_it_kept_the_next_one_waiting(self):
        self.assertEqual(self.late_after(10, 12, 13), 2)

    def test_a_look_that_fills_a_wait_is_free(self):
        self.assertEqual(self.late_after(10, 12, 15), 0)

    def test_a_look_begins_once_the_tuner_was_told(self):
        from mltune import _node
        with mock.patch.object(_node, "TOLD_S", 60):
            self.node._untold = True
            threading.Timer(0.1, self.node.told).start()
            self.assertTrue(self.node.is_idle())
        self.assertFalse(self.node._untold)

    def test_what_waits_is_known(self):
        from mltune import _node
        self.assertFalse(self.node.another_waits(1))
        for kind, branch, another in (("schedule", 1, False),
                                      ("schedule", 2, True),
                                      ("free", 1, True)):
            self.node._queue.clear()
            self.node._queue.append(_node.Operation(
                {"kind": kind, "op": 1, "branch": branch}))
            self.assertIs(self.node.another_waits(1), another)

    def test_a_look_does_not_come_before_what_waits(self):
        self.node._queue.append("operation")
        self.assertEqual(self.next(), "operation")
        self.assertEqual((self.did, self.engine._late_s), ([], 0))

    def test_a_branch_that_goes_on_is_not_looked_at(self):
        self.engine._left = self.branches[0]
        self.engine._make_live(self.branches[0])
        self.assertEqual(self.did, [])
        self.engine._left = self.branches[0]
        self.engine._make_live(self.branches[1])
        self.assertEqual(self.did, ["look", "train"])

    def test_every_other_operation_finds_it_done(self):
        from mltune import _node
        for kind in "fork", "free", "snapshot", "restore", "save":
            self.did, self.engine._left = [], self.branches[0]
            o = _node.Operation({"kind": kind, "op": 1, "branch": 9,
                                 "parent": 9, "path": "/"})
            with mock.patch.object(self.node, "fail"), \
                    mock.patch.object(self.engine, "_restore"):
                self.engine._carry_out(o)
            self.assertEqual(self.did, ["look"], kind)


class Switches(unittest.TestCase):
    """What is put back is what was there, whatever a program does to its
    optimizer and its tensors in between: beside copies of everything."""

    def setUp(self):
        sys.path.insert(0, str(PACKAGE))
        self.addCleanup(sys.path.remove, str(PACKAGE))
        import torch
        from mltune import _state
        self.torch, self.state = torch, _state
        torch.manual_seed(3)
        self.net = torch.nn.Sequential(*[torch.nn.Linear(5, 5)
                                         for _ in range(3)])
        self.net[0].register_buffer("column", torch.randn(5, 1))
        self.opt = torch.optim.Adam(
            [{"params": self.net[0].parameters(), "lr": 0.01},
             {"params": self.net[1:].parameters(), "lr": 0.02}])
        self.held = None
        self.registry = _state.Registry()
        self.registry.add("net", self.net)
        self.registry.add("opt", self.opt)

    def step(self, rng):
        if self.held is not None:
            self.assertIs(self.held, self.opt.state)
        self.opt.zero_grad()
        x = self.torch.randn(4, 5)
        ((self.net(x) - x) ** 2).mean().backward()
        self.opt.step()

    def replace_an_entry(self, rng):
        for s in list(self.opt.state.values())[:2]:
            s["exp_avg"] = s["exp_avg"] + rng.random()

    def add_an_entry(self, rng):
        for s in self.opt.state.values():
            s["more"] = rng.choice([1, 2.5, (1, 2), [1, [2]],
                                    self.torch.ones(2)])

    def lose_an_entry(self, rng):
        for s in self.opt.state.values():
            s.pop("more", None)

    def rename_an_entry(self, rng):
        for s in self.opt.state.values():
            if "more" in s:
                s["moved"] = s.pop("more")

    def swap_entries(self, rng):
        for s in self.opt.state.values():
            s["exp_avg"], s["exp_avg_sq"] = s["exp_avg_sq"].abs(), \
                s["exp_avg"].abs()

    def exchange_dictionaries(self, rng):
        found = list(self.opt.state)
        if len(found) > 4:
            a, b = found[0], found[4]
            state = self.opt.state
            state[a], state[b] = state[b], state[a]

    def forget(self, rng):
        self.opt.state.clear()

    def load(self, rng):
        self.opt.load_state_dict(self.opt.state_dict())
        self.held = None

    def change_a_group(self, rng):
        group = rng.choice(self.opt.param_groups)
        group["lr"] = rng.choice([0.01, 0.5, 1e-3])
        group.pop("note", None)
        if rng.random() < 0.5:
            group["note"] = rng.choice([[1, 2], self.torch.ones(1), -0.0, 0.0])

    def turn_a_matrix(self, rng):
        weight = self.net[1].weight
        weight.data = weight.data.t()

    def turn_a_column(self, rng):
        """One of its strides is 1 before and after, and the place is its own.
        """
        column = self.net[0].column
        column.data = column.data.t()

    def replace_memory(self, rng):
        bias = self.net[2].bias
        bias.data = bias.data + 1

    def nothing(self, rng):
        pass

    def take_hold(self, rng):
        """Of the dictionary that a switch would put others in the place of."""
        self.held = self.opt.state

    def seen(self):
        """All of the live state, as text."""
        def text(x):
            if isinstance(x, self.torch.Tensor):
                return f"{x.dtype} {tuple(x.shape)} {x.tolist()!r}"
            return repr(x)
        places = {p: i for i, p in enumerate(self.net.parameters())}
        return self.state.tree_map(
            [list(self.net.parameters()), list(self.net.buffers()),
             {places[p]: dict(s) for p, s in self.opt.state.items()},
             [{k: v for k, v in g.items() if k != "params"}
              for g in self.opt.param_groups]], text)

    def test_states_are_put_back_as_they_were(self):
        acts = [self.replace_an_entry, self.add_an_entry, self.lose_an_entry,
                self.rename_an_entry, self.swap_entries,
                self.exchange_dictionaries, self.forget, self.load,
                self.change_a_group, self.turn_a_matrix, self.turn_a_column,
                self.replace_memory, self.nothing]
        for seed in range(40):
            self.setUp()
            registry = self.registry
            rng = random.Random(seed)
            wild = (0.4, 0.4, 0.03, 0)[seed % 4]
            known = acts + [self.take_hold] * (seed % 3 == 0)
            branches = {0: [registry.first(), self.seen()]}
            for number in range(1, 60):
                b = rng.choice(list(branches)[len(branches) > 3:])
                state, was = branches[b]
                how = rng.choice(["fork", "free", "test", "look"] +
                                 ["train"] * 12)
                if b == 0 or how == "fork" and len(branches) < 5:
                    branches[number] = [registry.share(state), was]
                elif how == "free":
                    registry.release(branches.pop(b)[0])
                else:
                    registry.activate(state, how)
                    self.assertEqual(self.seen(), was, (seed, number, b))
                    if how != "look":
                        for _ in range(rng.randint(0, 2)):
                            self.step(rng)
                            if rng.random() < wild:
                                rng.choice(known)(rng)
                                self.lose_lists()
                    if how == "train":
                        seen = self.seen()
                        branches[b] = [registry.capture(state), seen]
                        if rng.random() < (0.9 if wild < 0.1 else 0.5):
                            continue  # seen when it runs again
                        registry.activate(branches[b][0], "test")
                        self.assertEqual(self.seen(), seen, (seed, number, b))
                        registry.abandon()
                    else:
                        registry.abandon()
            for state, was in branches.values():
                registry.activate(state, "look")
                self.assertEqual(self.seen(), was, seed)
                registry.release(state)
            self.assertEqual(registry.bytes, 0)

    def alternate(self, to_none, slices):
        """Two branches by turns, of which the first has its last layer learn
        from its tenth slice on. Which gradients the second one found at each
        slice's begin, and what its last layer became."""
        from mltune import torch as mltune_torch
        self.registry.add("gradients", mltune_torch.GradientsHolder(
            "gradients", list(self.net.parameters()), None))
        looks = self.looks = []
        late = list(self.net[2].parameters())
        root = self.registry.first()
        states = [self.registry.share(root) for _ in range(2)]
        began = []
        for i in range(slices):
            for b in (0, 1):
                for p in late:
                    p.requires_grad_(b == 0 and i >= 10)
                self.registry.activate(states[b])
                if b == 1:
                    began.append([p.grad is not None for p in late])
                for _ in range(1 + i % 3):
                    self.opt.zero_grad(set_to_none=to_none)
                    x = self.torch.ones(4, 5)
                    ((self.net(x) - x) ** 2).mean().backward()
                    self.opt.step()
                with mock.patch.object(
                        mltune_torch, "_GRAD",
                        side_effect=mltune_torch._GRAD) as asked:
                    states[b] = self.registry.capture(states[b])
                looks.append(asked.call_count)
        self.registry.activate(states[1], "look")
        return began, [p.tolist() for p in late]

    def test_which_gradients_there_are_is_seen_where_it_counts(self):
        """A loop that sets them to zero: a layer that never had one is never
        moved, not by its weight decay either."""
        for group in self.opt.param_groups:
            group["weight_decay"] = 0.1
        before = [p.tolist() for p in self.net[2].parameters()]
        began, after = self.alternate(False, 30)
        self.assertEqual(began, [[False, False]] * 30)
        self.assertEqual(after, before)
        self.assertNotIn(0, self.looks)

    def test_gradients_that_a_loop_drops_are_seldom_looked_at(self):
        """It finds none where it begins, whatever others have left."""
        for group in self.opt.param_groups:
            group["weight_decay"] = 0.1
        before = [p.tolist() for p in self.net[2].parameters()]
        _, after = self.alternate(True, 30)
        self.assertEqual(after, before)
        self.assertLess(0, self.looks[8:20].count(0))

    def test_a_loop_that_comes_to_keep_gradients_is_noticed(self):
        from mltune import torch as mltune_torch
        holder = mltune_torch.GradientsHolder(
            "gradients", list(self.net.parameters()), None)
        part = holder.capture(None)
        for i in range(40):
            holder.activate(part, self.state.Alone(True), self.registry.spares)
            self.opt.zero_grad(set_to_none=i < 20)
            self.net(self.torch.ones(4, 5)).mean().backward()
            part = holder.capture(part)
        self.assertFalse(holder._none_counts())

    def test_each_branch_has_its_own_memory_every_time(self):
        """Without buffers, where most of a switch is left out; by turns, and
        one that goes on."""
        torch = self.torch
        net = torch.nn.Linear(3, 3)
        registry = self.state.Registry()
        registry.add("net", net)
        first = registry.first()
        states = [registry.share(first), registry.share(first)]
        was = [0.0, 0.0]
        net.weight.data.zero_()
        rng = random.Random(4)
        for i in range(60):
            b = rng.randrange(2)
            registry.activate(states[b])
            if i > 12:
                self.assertEqual(net.weight[0, 0].item(), was[b], i)
            for x in net.parameters():
                x.data.fill_(i)
            was[b] = float(i)
            states[b] = registry.capture(states[b])

    def test_a_child_acts_by_its_own_setting(self):
        """Though its parent's slices did by another, once and again."""
        from mltune import torch as mltune_torch
        rates = mltune_torch.Rates([self.opt], [])
        parents, childs = {"learning_rate": 0.1}, {"learning_rate": 0.2}
        held = rates.apply(parents, {})
        self.assertIs(rates.apply(parents, held), held)
        self.assertAlmostEqual(self.opt.param_groups[1]["lr"], 0.2)
        rates.apply(childs, held)
        self.assertAlmostEqual(self.opt.param_groups[1]["lr"], 0.4)

    def test_tensors_that_come_late_are_told(self):
        """Not at the next switch, but soon: nobody would fork them."""
        from mltune import torch as mltune_torch
        state = self.registry.first()
        self.registry.activate(state)
        state = self.registry.capture(state)
        self.net[1].register_buffer("late", self.torch.ones(3))
        with self.assertRaisesRegex(self.state.StateError,
                                    "no longer those that were registered|came or went"):
            for _ in range(mltune_torch.WALK_EVERY):
                self.registry.activate(state)
                state = self.registry.capture(state)

    def lose_lists(self):
        """Adam steps again."""
        for p, s in list(self.opt.state.items()):
            if "exp_avg" not in s:
                del self.opt.state[p]


class Together(Case):
    def test_two_processes_are_tuned_and_resumed(self):
        """`mltune run` with DistributedDataParallel: interrupted, its snapshot
        has the parts of both, and the run goes on from it to its end."""
        shutil.copy(PROGRAMS / "ddp.py", self.folder)
        config = {"name": "two", "app": {"command": [sys.executable, "ddp.py"]},
                  "cluster": {"nodes": 2}, "seed": 3,
                  "tunables": {"learning_rate": {
                      "type": "float", "min": 1e-4, "max": 1, "scale": "log",
                      "default": 0.02}},
                  "stop": {"max_epochs": 150, "plateau_epochs": 1000}}
        self.write("config.json", config)
        runs = self.folder / ".mltune" / "runs"

        def parts(rank):
            return list(runs.glob(f"*/snapshots/*/node-{rank}/state.pt"))
        first = self.start("run", "config.json", "--quiet")
        self.wait_until(lambda: parts(0) and parts(1), "a snapshot")
        first.send_signal(signal.SIGINT)
        self.assertNotIn("was not written", self.finish(first).err)
        done = self.mltune("resume", "two", "--quiet", "--json")
        self.assert_code(done, 0)
        self.assertEqual((done.result["status"], done.result["epochs"]),
                         ("finished", 150))
        for rank in (0, 1):
            self.assertTrue((runs / done.result["run"] /
                             f"model/node-{rank}/model.pt").exists())
        self.assert_nothing_left()


class Checked(Case):
    """The rules of docs/protocol.md, as `mltune check-trainer` reads them."""

    def passes(self, program, *options, **settings):
        self.env["PYTHONPATH"] = str(PACKAGE)
        done = self.mltune("check-trainer", "--settings", json.dumps(settings),
                           *options, "--", sys.executable, PROGRAMS / program)
        self.assert_code(done, 0)
        self.assertIn("ok  ", done.out)
        self.assert_nothing_left()

    def test_a_network_keeps_the_rules(self):
        self.passes("net.py", features="adam onecycle values noise ema")

    def test_two_processes_keep_the_rules(self):
        """Those that are other than one process's: sums that are not finite,
        cuts and signals."""
        self.passes("ddp.py", "--nodes", 2, "--only",
                    "divergence,cuts,signals")

    def test_a_class_with_a_loader_keeps_the_rules(self):
        """How a program begins and ends is no matter of its class."""
        self.passes("loaded.py", "--skip",
                    "beats,memory,stop,loss,signals,unloadable", workers=0)


class Examples(Program):
    def test_mnist_cnn_runs_alone_and_tuned(self):
        """The example of README.md, on noise."""
        import gzip
        import numpy
        made = numpy.random.RandomState(1)
        (self.folder / "mnist").mkdir()
        for name, n in (("train", 300), ("t10k", 100)):
            for kind, head, size in (("images-idx3", 16, 784),
                                     ("labels-idx1", 8, 1)):
                data = made.randint(0, 10, n * size).astype("uint8")
                with gzip.open(self.folder / "mnist" /
                               f"{name}-{kind}-ubyte.gz", "wb") as file:
                    file.write(bytes(head) + data.tobytes())
        for name in ("mnist_cnn.py", "mnist_cnn.json"):
            shutil.copy(ROOT / "apps/examples" / name, self.folder)
        env = {**self.env, "PYTHONPATH": str(PACKAGE), "MLTUNE_EPOCHS": "1"}
        alone = subprocess.run([sys.executable, "mnist_cnn.py"], env=env,
                               cwd=self.folder, text=True, check=True,
                               stdout=subprocess.PIPE)
        self.assertRegex(alone.stdout, r"^epoch 1  loss .* accuracy ")
        config = json.loads((self.folder / "mnist_cnn.json").read_text())
        config["app"]["command"][0] = sys.executable
        done = self.run_config(config, "--quiet", "--json", "--set",
                               "stop.max_epochs=2")
        self.assert_code(done, 0)
        self.assertEqual(done.result["status"], "finished")
        self.assert_nothing_left()


class Models(Program):
    def test_the_model_is_a_state_dict(self):
        """A plain torch loads it, and it is what was tested."""
        import torch
        self.load()
        self.fork(1)
        self.sums(1, 30)
        self.fork(2, 1, "testing")
        accuracy = self.sums(2, 1)[0]
        self.tuner.ask("save", branch=1, path=str(self.folder / "m"))
        done = self.expect("done")
        self.assertEqual(done["data"]["files"], ["model.pt", "about.json"])
        self.end()
        state = torch.load(self.folder / "m" / "model.pt", weights_only=True)
        self.assertEqual(state["last.weight"].shape, (4, 64))
        about = json.loads((self.folder / "m" / "about.json").read_text())
        self.assertEqual(about["modules"], {"net": "Net"})
        self.assertEqual(about["tensors"]["net.last.bias"],
                         ["torch.float32", [4]])
        self.assertEqual(done["bytes"], sum(
            (self.folder / "m" / f).stat().st_size
            for f in done["data"]["files"]))
        self.assertGreater(accuracy, 30)


class Loaded(Program):
    def lines(self, workers):
        """Sums of a branch, of one forked from it that was cut off in between,
        and of a sibling that runs by turns."""
        ready = self.load(PROGRAMS / "loaded.py", workers=workers)
        self.assertEqual((ready["kind"], ready["metric"]), ("ready", "error"),
                         ready)
        self.assertFalse(ready["metric_higher_better"])
        self.assertEqual(ready["metrics"], ["steps"])
        self.fork(1, batch_size=20)
        first = self.sums(1, 4)
        self.fork(2, 1, batch_size=20)
        op = self.tuner.schedule(1, self.clock, 1000, 1)
        self.clock += 1000
        cut = self.tuner.ask("cut", target=op)
        messages = self.tuner.gather([op, cut])
        on = [x for m in messages if m["kind"] == "report" for x in m["sum"]]
        steps = [x for m in messages if m["kind"] == "report"
                 for x in m["values"]["steps"]]
        self.assertEqual(steps, list(range(5, 5 + len(on))))
        on += self.sums(1, 20 - len(on))
        forked = self.sums(2, 9) + self.sums(2, 11)
        self.assertEqual(forked, on)
        self.end()
        return first + on

    def test_workers_and_augmentation_follow_the_branch(self):
        """The same sums with worker processes and without."""
        alone = self.lines(0)
        self.tuner.close()
        self.tuner = Tuner()
        self.assertEqual(self.lines(2), alone)

    def test_streams_are_refused(self):
        bad = self.write("bad.py", """
import mltune, torch
class Stream(torch.utils.data.IterableDataset):
    pass
run = mltune.Run(samples=10, config=mltune.config())
run.loader(Stream())
""")
        self.assertIn("has no length", self.load(bad)["reason"])
        self.end(code=1)


class Latecomers(Program):
    """Libraries that a program imports in the midst of a slice."""

    LATE = """
import random
import mltune
mltune.config()
state = {"w": 0.0}
class State:
    def state_dict(self): return dict(state)
    def load_state_dict(self, found): state.update(found)
run = mltune.Run(State(), samples=32, parts=8)
for batch in run.train():
    loss = random.random()
    if batch.clock >= 2:
        import numpy
        loss += 10 * numpy.random.rand()
    if batch.clock >= 4:
        import torch
        loss += 100 * float(torch.rand(1))
    loss += random.random() / 8
    state["w"] += loss
    batch.loss(loss, 1)
"""

    def test_their_generators_are_seeded_as_if_they_had_been_there(self):
        """The first branch sees them come, the second begins with them."""
        (self.folder / "late.py").write_text(self.LATE)
        ready = self.load(self.folder / "late.py",
                          {"learning_rate": {"default": 0.1}})
        self.assertEqual(ready["kind"], "ready", ready)
        self.fork(1)
        self.fork(2)
        first, second = self.sums(1, 7), self.sums(2, 7)
        self.assertEqual(first, second)
        self.assertEqual(len(set(first)), 7)
        self.end()


class Processes(Program):
    """Two processes that train one model: every request goes to both, as a
    tuner does it."""

    def start_both(self, **settings):
        t = self.tuner
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.both = [self.start_program(
            PROGRAMS / "ddp.py", rank, MLTUNE_NODES="2", RANK=str(rank),
            WORLD_SIZE="2", LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo") for rank in (0, 1)]
        self.peers = {}
        while len(self.peers) < 2:
            hello = t.receive()
            self.peers[hello["node"]] = t.peer
        self.clock = 0
        config = {"app": {"settings": settings},
                  "tunables": {"batch_size": {"default": 10}}}
        return self.answers(self.ask("config", config=config,
                                     folder=str(self.folder), seed=7))

    def ask(self, kind, **members):
        t = self.tuner
        t.op += 1
        for peer in self.peers.values():
            t.peer = peer
            t.send_bytes(json.dumps({"kind": kind, "op": t.op,
                                     **members}).encode())
        return t.op

    def answers(self, *ops):
        """What both say until all of @ops are answered: by node."""
        ranks = {peer: rank for rank, peer in self.peers.items()}
        left = {(rank, op) for rank in (0, 1) for op in ops}
        found = {0: [], 1: []}
        while left:
            m = self.tuner.receive()
            rank = ranks[self.tuner.peer]
            found[rank].append(m)
            if m["kind"] != "report":
                self.assertNotEqual(m["kind"], "failed", m)
                left.discard((rank, m["op"]))
        return found

    def run_both(self, branch, count):
        """Sums of both nodes added up, and their samples."""
        op = self.ask("schedule", branch=branch, first=self.clock, count=count,
                      report_every=1)
        self.clock += count
        return self.added(self.answers(op))

    def added(self, found):
        sums = [[number(x) for m in found[rank] if m["kind"] == "report"
                 for x in m["sum"]] for rank in (0, 1)]
        self.assertEqual(len(sums[0]), len(sums[1]))
        return [a + b for a, b in zip(*sums)]

    def fork_both(self, branch, parent=0, kind="training", **setting):
        self.answers(self.ask("fork", branch=branch, parent=parent, type=kind,
                              setting=setting))

    def stop_both(self):
        self.ask("stop", reason="test")
        for process in self.both:
            done = self.finish(process, SECONDS)
            self.assertEqual(done.code, 0, done.err)
        self.assert_nothing_left()

    def test_both_hold_the_same_model(self):
        """Trained, cut by agreement, tested, written, restored: the parameters
        are the same in both processes and a fork equals its parent."""
        found = self.start_both()
        for rank in (0, 1):
            ready = found[rank][-1]
            self.assertEqual((ready["samples"], ready["workers"],
                              ready["cuts"]), (200, 2, "agreed"))
        self.fork_both(1, learning_rate=0.05)
        self.run_both(1, 12)  # an epoch and two clocks
        self.fork_both(2, 1, learning_rate=0.05)
        self.fork_both(5, 1, learning_rate=0.5)
        run = self.ask("schedule", branch=1, first=self.clock, count=10**6,
                       report_every=1000)
        self.clock += 10**6
        time.sleep(0.3)
        hold = self.ask("hold", target=run)
        held = self.answers(hold)
        end = max(m["clocks"] for rank in (0, 1) for m in held[rank]
                  if m["kind"] == "done")
        cut = self.ask("cut", target=run, clocks=end)
        found = self.answers(run, cut)
        done = [m["clocks"] for rank in (0, 1) for m in found[rank]
                if m["kind"] == "done" and m["op"] == run]
        self.assertEqual(done, [end, end])
        self.run_both(5, 3)
        self.fork_both(3, 2, "kept")
        forked = self.run_both(2, 8)
        path = str(self.folder / "s")
        written = self.ask("snapshot", branch=3, path=path)
        self.answers(written)
        self.assertEqual(sorted(os.listdir(path)), ["node-0", "node-1"])
        self.answers(self.ask("restore", branch=6, path=path))
        self.fork_both(7, 6, learning_rate=0.05)
        self.assertEqual(self.run_both(7, 8), forked)
        self.fork_both(8, 2, "testing")
        (hits,) = self.run_both(8, 1)
        self.assertLessEqual(hits, 201)
        model = str(self.folder / "m")
        self.answers(self.ask("save", branch=2, path=model))
        self.stop_both()
        import torch
        states = [torch.load(f"{model}/node-{r}/model.pt") for r in (0, 1)]
        for name, x in states[0].items():
            self.assertTrue(torch.equal(x, states[1][name]), name)
        self.assertIn("0.weight", states[0])

    def test_stop_in_the_midst_of_a_clock(self):
        """A process that waits for another that has stopped ends as well."""
        self.start_both()
        self.fork_both(1)
        self.ask("schedule", branch=1, first=0, count=10**6,
                 report_every=10**4)
        time.sleep(0.3)
        self.stop_both()

    def test_a_sum_that_is_not_finite_in_one_of_them_hangs_nobody(self):
        """The other process waits for its gradients: both go on to the end of
        the slice."""
        self.start_both(wrong="nan")
        self.fork_both(1)
        sums = self.run_both(1, 8)
        self.assertEqual([x != x for x in sums], [False] * 3 + [True] * 5)
        self.stop_both()


class Ends(Program):
    def failed(self):
        while True:
            m = self.tuner.receive()
            if m["kind"] == "failed" and "op" not in m:
                return m

    def test_exceptions_are_told_with_their_last_lines(self):
        self.load(wrong="raise")
        self.fork(1)
        self.tuner.schedule(1, 0, 10, 10)
        failed = self.failed()
        self.assertEqual(failed["code"], "app")
        self.assertIn("ValueError: the third clock is not liked",
                      failed["reason"])
        self.assertIn("net.py", failed["reason"])
        done = self.end(code=1)
        self.assertIn("ValueError: the third clock", done.err)

    def test_an_exception_before_the_loop_answers_the_configuration(self):
        bad = self.write("bad.py", "import mltune\nmltune.config()\n1 / 0\n")
        failed = self.load(bad)
        self.assertEqual((failed["kind"], failed["code"], failed["op"]),
                         ("failed", "app", 1))
        self.assertIn("ZeroDivisionError", failed["reason"])
        self.end(code=1)

    def test_a_reason_begins_with_the_exception(self):
        """Also of a long one, of deep code, and of text that has no UTF-8."""
        for text, begins in (("'\\u00e4' * 5000", "RuntimeError: \u00e4\u00e4"),
                             ("'\\udcff'", "RuntimeError: \\udcff\n"),
                             ("'short'", "RuntimeError: short\nat ")):
            bad = self.write("bad.py", f"""import mltune
mltune.config()
def down(n):
    if n == 0:
        raise RuntimeError({text})
    down(n - 1)
def other(n):
    down(n - 1) if n % 2 else other(n - 1)
other(20)
""")
            reason = self.load(bad)["reason"]
            self.assertTrue(reason.startswith(begins), reason)
            self.assertIn("bad.py:5\n", reason)
            self.assertLessEqual(len(reason.encode()), 480)
            self.assertIn("in down", reason.rpartition("...")[2])
            done = self.end(code=1)
            self.assertIn("RuntimeError", done.err)
            self.tuner.close()
            self.tuner = Tuner()

    def test_a_loader_worker_that_is_killed_ends_the_program_by_a_signal(self):
        """What befalls the machine is tried again, so no `failed` is sent."""
        bad = self.write("bad.py", """import os, signal, time
import torch, mltune
mltune.config()
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        os.kill(os.getpid(), signal.SIGKILL)
for _ in torch.utils.data.DataLoader(Data(), num_workers=1):
    pass
""")
        self.start_program(bad)
        self.tuner.receive()
        self.tuner.ask("config", config={"app": {"settings": {}}},
                       folder=str(self.folder), seed=1)
        done = self.end(code=-signal.SIGKILL)
        self.assertIn("killed by signal", done.err)

    def alone(self, lines):
        """Runs a loop of three clocks without a tuner."""
        bad = self.write("plain.py", "import numpy, mltune\nmltune.config()\n"
                         "run = mltune.Run(samples=30, batch_size=10)\n"
                         "for batch in run.train():\n" +
                         "".join(f"    {line}\n" for line in lines))
        return subprocess.run(
            [sys.executable, bad], cwd=self.folder, text=True, check=False,
            env={**self.env, "PYTHONPATH": str(PACKAGE), "MLTUNE_EPOCHS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_wrong_calls_in_a_loop_are_told(self):
        for line, says in (
                ("pass", r"RuntimeError: .*batch\.loss\(\.\.\.\) was not called"),
                ("batch.loss(numpy.ones(3))",
                 r"ValueError: batch\.loss\(loss\): one number .* \(3,\)"),
                ("batch.loss(1); run.log(norm=numpy.ones((2, 2)))",
                 r"ValueError: run\.log\(norm=\.\.\.\): .* \(2, 2\)")):
            done = self.alone([line])
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stderr, says)

    def test_metrics_above_the_limit_are_told_once_and_left_out(self):
        done = self.alone(["batch.loss(1)",
                           "run.log(**{f'm{i}': i for i in range(20)})"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("m15 15", done.stdout)
        self.assertNotIn("m16", done.stdout)
        self.assertEqual(done.stderr.count("left out"), 1, done.stderr)
        self.assertIn("'m16'", done.stderr)

    def test_a_loop_that_is_left_is_told(self):
        self.load(wrong="leave")
        self.fork(1)
        self.tuner.schedule(1, 0, 10, 10)
        self.assertIn("before the tuner said stop", self.failed()["reason"])
        done = self.finish(self.process, SECONDS)
        self.assertEqual(done.code, 0, done.err)

    def test_a_clock_without_a_loss_is_told(self):
        self.load(wrong="mute")
        self.fork(1)
        self.tuner.schedule(1, 0, 10, 10)
        self.assertIn("batch.loss", self.failed()["reason"])
        self.end(code=1)

    def test_data_without_a_length_are_refused(self):
        bad = self.write("bad.py", "import mltune\nmltune.config()\n"
                                   "mltune.Run(samples=iter([1]))\n")
        failed = self.load(bad)
        self.assertIn("has no length", failed["reason"])
        self.end(code=1)

    def running(self):
        self.load()
        self.fork(1)
        self.tuner.schedule(1, 0, 10**9, 10**6)
        time.sleep(0.2)

    def test_sigterm_ends_the_program(self):
        self.running()
        self.process.send_signal(signal.SIGTERM)
        self.end(code=143)

    def test_stop_ends_a_running_slice(self):
        self.running()
        self.tuner.ask("stop", reason="test")
        while self.tuner.receive()["kind"] != "done":
            pass
        self.assertEqual(self.finish(self.process, SECONDS).code, 0)

    def test_lost_tuner_ends_the_program(self):
        self.running()
        self.tuner.close()
        self.tuner = None
        begin = time.monotonic()
        self.end(code=69)
        self.assertLess(time.monotonic() - begin, 10)

    def test_alone_it_trains_plainly(self):
        """Without a tuner: its own defaults, a line each epoch."""
        env = {**self.env, "PYTHONPATH": str(PACKAGE), "MLTUNE_EPOCHS": "2"}
        out = [subprocess.run([sys.executable, PROGRAMS / "net.py"], env=env,
                              cwd=self.folder, text=True, check=True,
                              stdout=subprocess.PIPE).stdout
               for _ in range(2)]
        lines = [line.rpartition("  ")[0] for line in out[0].splitlines()]
        self.assertEqual(len(lines), 2, out)
        self.assertRegex(lines[1], r"^epoch 2  loss [\d.]+  norm [\d.]+  "
                                   r"accuracy [\d.]+  loss [\d.]+$")
        self.assertEqual(lines, [line.rpartition("  ")[0]
                                 for line in out[1].splitlines()])


SETTINGS = {
    "a": {"learning_rate": 0.02, "batch_size": 16},
    "b": {"learning_rate": 0.06, "batch_size": 32, "dropout": 0.4},
    "c": {"learning_rate": 0.02, "batch_size": 16, "weight_decay": 0.01},
}
FEATURES = ["", "adam step average", "adam onecycle values noise",
            "cosine ema weighted", "frozen split values",
            "adam amp ema cosine", "accumulate plateau"]
# What is not PyTorch, or has processes of its own: program, settings of it.
OTHERS = {
    "sklearn_linear": (PROGRAMS / "estimator.py", {"kind": "average"}),
    "sklearn_adam": (PROGRAMS / "estimator.py", {"kind": "adam"}),
    "numpy_adam": (PROGRAMS / "arrays.py", {"kind": "Adam"}),
    "boosting": (ROOT / "apps/examples/boosting.py", {}),
    "loader_workers": (PROGRAMS / "loaded.py", {"workers": 1}),
}
# 200 over all features, as long as a gate may take; `make identity-test` has
# more, by MLTUNE_SCHEDULES and SEED.
SCHEDULES = int(os.environ.get("MLTUNE_SCHEDULES", "200"))
FEW = 5  # of each of the others, beyond that
SEED = int(os.environ.get("SEED", "0"))


# A program's own defaults hold for what it does not list here.
TUNABLES = {"learning_rate": {"default": 0.02}, "batch_size": {"default": 16},
            "dropout": {"default": 0.2}}


class Identity(Program):
    """What a clock gives depends on nothing but the settings of the clocks
    before it, in the branch and in those it comes from: not on what else ran,
    was cut, tested, written or read in between.

    A branch's line is a letter for each clock: the setting's, or P for a clock
    of a probe.
    """

    def random_schedule(self, rng):
        """A dozen random operations; every sum is compared with what the same
        line gave before."""
        branches = {0: ("", "init")}
        for _ in range(rng.randint(8, 16)):
            act = rng.choice(["fork", "fork", "run", "run", "run", "run",
                              "cut", "test", "probe", "keep", "snapshot",
                              "free"])
            getattr(self, "do_" + act)(rng, branches)
        for b in branches:
            if b:
                self.free(b)

    def pick(self, rng, branches, *types):
        found = [b for b, (_, kind) in branches.items() if kind in types]
        return rng.choice(found) if found else None

    def new(self, branches, parent, kind, **setting):
        self.number += 1
        self.fork(self.number, parent, kind, **setting)
        branches[self.number] = (branches[parent][0], kind)
        return self.number

    def check(self, line, value):
        self.seen.setdefault(line, []).append(value)
        self.assertEqual(repr(self.seen[line][0]), repr(value), line)

    def ran(self, branches, b, letter, sums):
        line, kind = branches[b]
        for value in sums:
            line += letter
            self.check(line, value)
        branches[b] = (line, kind)

    def setting(self, letter):
        """What the program can act by."""
        return {name: value for name, value in SETTINGS[letter].items()
                if name in self.ready["tunables"]}

    def do_fork(self, rng, branches):
        letter = rng.choice("aaabc")
        self.letter[self.new(branches, rng.choice(list(branches)), "training",
                             **self.setting(letter))] = letter

    def do_run(self, rng, branches):
        b = self.pick(rng, branches, "training")
        if b:
            self.ran(branches, b, self.letter[b],
                     self.sums(b, rng.randint(1, 7)))

    def do_cut(self, rng, branches):
        b = self.pick(rng, branches, "training")
        if not b:
            return
        op = self.tuner.schedule(b, self.clock, 100, 1)
        self.clock += 100
        if rng.random() < 0.5:
            time.sleep(rng.random() * 0.004)
        cut = self.tuner.ask("cut", target=op)
        messages = self.tuner.gather([op, cut])
        sums = [number(s) for m in messages if m["kind"] == "report"
                for s in m["sum"]]
        done = [m for m in messages if m["kind"] == "done" and m["op"] == op]
        self.assertEqual(done[0]["clocks"], len(sums))
        self.ran(branches, b, self.letter[b], sums)

    def do_test(self, rng, branches):
        b = rng.choice(list(branches))
        test = self.new(branches, b, "testing")
        for _ in range(rng.randint(1, 2)):
            self.check(branches[b][0] + "T", self.sums(test, 1)[0])
        self.free(test)
        del branches[test]

    def do_probe(self, rng, branches):
        b = rng.choice(list(branches))
        probe = self.new(branches, b, "probe", **self.setting("a"))
        self.ran(branches, probe, "P", self.sums(probe, rng.randint(1, 3)))

    def do_keep(self, rng, branches):
        self.new(branches, rng.choice(list(branches)), "kept")

    def do_snapshot(self, rng, branches):
        b = self.pick(rng, branches, "kept", "init")
        path = str(self.folder / f"s{self.number}")
        op = self.tuner.ask("snapshot", branch=b, path=path)
        trainee = self.pick(rng, branches, "training")
        if trainee and rng.random() < 0.5:  # while it is written
            run = self.tuner.schedule(trainee, self.clock, 4, 1)
            self.clock += 4
            messages = self.tuner.gather([op, run])
            self.ran(branches, trainee, self.letter[trainee],
                     [number(s) for m in messages if m["kind"] == "report"
                      for s in m["sum"]])
        else:
            messages = [self.expect("done", op)]
        self.assertGreater(messages[-1].get("bytes", 1), 0)
        self.number += 1
        self.tuner.ask("restore", branch=self.number, path=path)
        self.expect("done")
        branches[self.number] = (branches[b][0], "kept")
        if len(branches[b][0]) > len(self.written[0]):
            self.written = (branches[b][0], path)

    def do_free(self, rng, branches):
        b = rng.choice(list(branches))
        if b:
            self.free(b)
            del branches[b]

    def run_through(self, line, parent=0, done=""):
        """The line @line, as few slices as there can be."""
        line_now, b = done, parent
        while line_now != line:
            letter = line[len(line_now)]
            count = 0
            while line[len(line_now):len(line_now) + count + 1] == \
                    letter * (count + 1):
                count += 1
            self.number += 1
            kind = "probe" if letter == "P" else "training"
            self.fork(self.number, b, kind,
                      **self.setting("a" if letter == "P" else letter))
            b = self.number
            for value in self.sums(b, count):
                line_now += letter
                self.check(line_now, value)

    def check_features(self, schedules, seed, path=PROGRAMS / "net.py",
                       **settings):
        rng = random.Random(seed)
        self.seen, self.letter, self.written = {}, {}, ("", None)
        self.number = 0
        ready = self.load(path, TUNABLES, **settings)
        self.assertEqual(ready["kind"], "ready", ready)
        for _ in range(schedules):
            self.random_schedule(rng)
        self.end()
        compared = sum(len(v) - 1 for v in self.seen.values())
        many = schedules > 20
        self.assertGreater(compared, (5 if many else 1) * schedules)
        longest = 12 if many else 5  # of an epoch of five clocks, too
        self.assertTrue(any(len(line) > longest for line in self.seen))
        self.renew()
        self.number = 0
        self.load(path, TUNABLES, **settings)
        lines = [x for x in self.seen if not x.endswith("T")]
        for line in sorted(lines, key=len)[-12:]:
            self.run_through(line)
        if self.written[1]:
            done = self.written[0]
            self.number += 1
            self.tuner.ask("restore", branch=self.number, path=self.written[1])
            self.expect("done")
            kept = self.number
            for line in [x for x in lines if x.startswith(done)][:12]:
                self.run_through(line, kept, done)
        self.end()

    def renew(self):
        self.tuner.close()
        self.tuner = Tuner()


def _identity(features, at):
    def test(self):
        """A share of the random schedules, with these features."""
        self.check_features(-(-SCHEDULES // len(FEATURES)), SEED + at,
                            features=features)
    return test


def _other(path, settings, at):
    def test(self):
        """Some of them, by another program."""
        share = -(-SCHEDULES // len(FEATURES)) if "MLTUNE_SCHEDULES" in \
            os.environ else FEW
        self.check_features(share, SEED + at, path, **settings)
    return test


for _at, _features in enumerate(FEATURES):
    setattr(Identity, f"test_{_features.replace(' ', '_') or 'plain'}",
            _identity(_features, _at))
for _at, (_name, (_path, _settings)) in enumerate(OTHERS.items()):
    setattr(Identity, f"test_{_name}", _other(_path, _settings, 100 + _at))


if __name__ == "__main__":
    unittest.main()
