"""Programs in Python that are killed, with their tuner or alone, and go on.

As in test_kills, at moments alone, and with PyTorch, whose programs take seconds
to start: they are killed less often where KILLS does not say how often.
"""
import collections
import json
import os
import random
import signal
import time

import numpy

import harness
from harness import Case
from stacks import Watch
from test_python import PROGRAMS
from test_resume import Journal

KILLS = int(os.environ.get("KILLS", 6))
SEED = int(os.environ.get("SEED", 1))
KILLS_A_RUN = 6
TORCH_KILLS = KILLS if "KILLS" in os.environ else 3
# Where many are wanted, in the background, a run may take long.
END_S = 900 if "KILLS" in os.environ else 120
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")


class Killed(Case):
    # A node that is killed while it stops ends badly, and that is all.
    FAULTS = ("Sanitizer", "runtime error:", "Assertion")
    MOMENTS = 0.02, 0.2, 0.6, 1.2  # seconds, of which one is drawn, +- half

    def pids(self, process):
        """Tuner and node of a running command; None where it has none."""
        for pid in self.marked():
            try:
                with open(f"/proc/{pid}/stat") as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == process.pid:
                return process.pid, pid
        return process.pid, None

    def kill(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def wait_or_end(self, process, seconds):
        """True if @process has ended within @seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if process.poll() is not None:
                return True
            time.sleep(0.005)
        return process.poll() is not None

    def run_id(self, state):
        done = self.mltune("ls", "--json", "--state", state)
        self.assert_code(done, 0)
        runs = json.loads(done.out)
        return runs[0]["run"] if runs else None

    # ---- what must hold --------------------------------------------------

    def check_trials(self, journal):
        started = [r["trial"] for r in journal.of("trial_started")]
        self.assertEqual(started, list(range(1, len(started) + 1)),
                         "a trial is lost or begun twice")
        ended = set()
        for r in journal.of("trial_updated", "trial_ended"):
            if r["incumbent"]:
                continue
            self.assertNotIn(r["trial"], ended,
                             "a finished trial is run again")
            if r["kind"] == "trial_ended" and r["label"] != "interrupted":
                ended.add(r["trial"])

    def check_clocks(self, journal):
        free = 0
        for r in journal.of("slice_scheduled"):
            self.assertGreaterEqual(r["first"], free,
                                    "a clock belongs to two branches")
            free = r["first"] + r["count"]

    def check_epochs(self, state, result):
        done = self.mltune("show", result["run"], "--json", "--state", state)
        self.assert_code(done, 0)
        epochs = [e["epoch"] for e in done.result["epoch_list"]
                  if e["surviving"]]
        self.assertEqual(len(epochs), len(set(epochs)), "an epoch twice")
        self.assertEqual(max(epochs), result["epochs"])

    def check_run(self, state, result):
        """All that a run promises, though it was killed."""
        self.assertEqual(result["status"], "finished")
        journal = Journal(self.folder / state, result["run"])
        self.assertEqual(journal.seq, list(range(1, len(journal.seq) + 1)))
        self.check_trials(journal)
        self.check_clocks(journal)
        self.check_epochs(state, result)
        self.assertEqual(result["tuning"]["trials"],
                         len(journal.of("trial_started")))
        with open(os.path.join(result["model"], "model.json")) as f:
            self.assertEqual(json.load(f)["epoch"], result["best"]["epoch"])
        folder = self.folder / state / "runs" / result["run"] / "snapshots"
        kept = [p.name for p in folder.iterdir()]
        self.assertLessEqual(len([n for n in kept if "-best" not in n]), 2,
                             kept)
        self.assert_nothing_left(seconds=20)
        return journal

    # ---- random moments --------------------------------------------------

    def start_again(self, state):
        """Resumes; a run that no journal knows is started."""
        run = self.run_id(state) if (self.folder / state).exists() else None
        if run is None:
            return self.start("run", "config.json", "--json", "--state", state)
        return self.start("resume", run, "--json", "--state", state)

    def kill_once(self, process, rng, nodes):
        """Kills tuner, node or both. Returns what, or None: it has ended."""
        if self.wait_or_end(process, rng.choice(self.MOMENTS) *
                            rng.uniform(0.5, 1.5)):
            return None
        tuner, node = self.pids(process)
        kinds = ["tuner", "both"] + (["node"] if nodes < 2 else [])
        kind = rng.choice(kinds) if node else "tuner"
        if kind in ("node", "both"):
            self.kill(node)
        if kind in ("tuner", "both"):
            self.kill(tuner)
            self.finish(process)
        return kind

    def kill_run(self, state, rng, most):
        """One run, killed at most @most times and resumed until it has
        finished. Returns its end, and how many kills were of what."""
        kills, nodes = collections.Counter(), 0
        process = self.start("run", "config.json", "--json", "--state", state)
        while sum(kills.values()) < most:
            kind = self.kill_once(process, rng, nodes)
            if kind is None:
                break
            kills[kind] += 1
            nodes = nodes + 1 if kind == "node" else 0
            if kind == "node":
                continue
            result = self.ended(state)
            if result:  # killed when it had done everything
                return result, kills
            process = self.start_again(state)
        done = self.finish(process, END_S)
        self.assert_code(done, 0)
        return done.result, kills

    def ended(self, state):
        run = self.run_id(state) if (self.folder / state).exists() else None
        if run is None:
            return None
        shown = self.mltune("show", run, "--json", "--state", state)
        self.assert_code(shown, 0)
        over = shown.result["status"] == "finished"
        return shown.result if over else None


class KilledProgram(Killed):
    def job(self, program):
        return {"name": "killed",
                "app": {"command": [PYTHON, str(PROGRAMS / program)]},
                "tunables": {"learning_rate": harness.RATE,
                             "batch_size": {"values": [10, 30]}},
                "tuner": {"searcher": "random", "trial_clocks": 20,
                          "max_trials": 8, "retune": False},
                "stop": {"max_epochs": 200, "plateau_epochs": 1000},
                "snapshot": {"every": 0.2}, "seed": 3}

    def model(self, result, part=""):
        folder = os.path.join(self.folder, result["model"], part)
        files = sorted(os.listdir(folder))
        self.assertIn("state.npz", files)
        with numpy.load(os.path.join(folder, "state.npz")) as arrays:
            return {name: arrays[name].tolist() for name in arrays.files}

    def models(self, result):
        return [self.model(result, f"node-{i}") for i in range(2)]

    def test_program_is_killed_at_random_moments(self):
        """Tuner, program or both: the run ends with the undisturbed run's
        model, bit for bit."""
        self.write("config.json", self.job("softmax.py"))
        self.kill_many(self.model)

    def test_two_processes_are_killed_at_random_moments(self):
        """As one: what any of them had written without the others counts
        for nothing."""
        self.write("config.json", {**self.job("softmax.py"),
                                   "cluster": {"nodes": 2}})
        self.kill_many(self.models)

    def bits(self, x):
        """What of a tree with tensors must be the same."""
        if isinstance(x, dict):
            return {k: self.bits(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [self.bits(v) for v in x]
        if hasattr(x, "numpy"):
            return str(x.dtype), list(x.shape), x.numpy().tobytes().hex()
        return repr(x)

    def torch_state(self, result, part=""):
        import torch
        folder = os.path.join(self.folder, result["model"], part)
        return {name: self.bits(torch.load(os.path.join(folder, name)))
                for name in ("model.pt", "rest.pt")}

    def torch_states(self, result):
        return [self.torch_state(result, f"node-{i}") for i in range(2)]

    def torch_job(self, **members):
        self.MOMENTS = 1, 2, 3, 5
        job = self.job("trained.py")
        job["tuner"]["max_trials"] = 5
        job["stop"]["max_epochs"] = 40
        job["app"]["hello_timeout"] = f"{END_S // 2}s"
        self.write("config.json", {**job, **members})

    def test_torch_program_is_killed_at_random_moments(self):
        """Network, optimizer, schedule and a loader with a process of its own:
        all of it is the undisturbed run's, bit for bit."""
        self.torch_job()
        self.kill_many(self.torch_state, TORCH_KILLS)

    def test_distributed_torch_program_is_killed_at_random_moments(self):
        """Two processes that wait for each other in every clock."""
        self.torch_job(cluster={"nodes": 2})
        self.kill_many(self.torch_states, TORCH_KILLS)

    def kill_many(self, read_model, total_kills=KILLS):
        if "KILLS" in os.environ:  # in the background: nobody looks on
            watch = Watch(self)
            self.addCleanup(watch.close)
        rng = random.Random(SEED)
        done = self.mltune("run", "config.json", "--json", "--state", "whole",
                           seconds=END_S)
        self.assert_code(done, 0)
        whole, model = done.result, read_model(done.result)
        total, runs = collections.Counter(), 0
        while sum(total.values()) < total_kills:
            most = min(KILLS_A_RUN, total_kills - sum(total.values()))
            state = f"state{runs}"
            result, kills = self.kill_run(state, rng, most)
            with self.subTest(seed=SEED, run=runs, kills=dict(kills)):
                self.check_run(state, result)
                members = "setting", "best", "epochs", "loss", "metric"
                self.assertEqual([json.dumps(result[m]) for m in members],
                                 [json.dumps(whole[m]) for m in members])
                self.assertEqual(read_model(result), model)
            total += kills
            runs += 1
        of = ", ".join(f"{kind} {n}" for kind, n in sorted(total.items()))
        print(f"killed {sum(total.values())} times in {runs} runs, seed {SEED}:"
              f" {of}", flush=True)


if __name__ == "__main__":
    import unittest
    unittest.main()
