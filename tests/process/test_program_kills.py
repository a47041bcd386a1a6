"""Programs in Python that are killed, with their tuner or alone, and go on.

As test_resume.Killed, whose promises hold for a program of the user's, too; here
the model's file itself is compared with the undisturbed run's. KILLS and SEED as
there: `make kill-test` takes more. A program with PyTorch takes seconds to start,
so it is killed less often where KILLS does not say how often.
"""
import json
import os
import random

import numpy

import harness
import test_resume
from test_python import PROGRAMS

TORCH_KILLS = test_resume.KILLS if "KILLS" in os.environ else 3
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")


class KilledProgram(test_resume.Killed):
    for name in dir(test_resume.Killed):
        if name.startswith("test_"):
            locals()[name] = None

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

    def kill_many(self, read_model, total_kills=test_resume.KILLS):
        rng = random.Random(test_resume.SEED)
        done = self.mltune("run", "config.json", "--json", "--state", "whole")
        self.assert_code(done, 0)
        whole, model = done.result, read_model(done.result)
        total = runs = 0
        while total < total_kills:
            most = min(test_resume.KILLS_A_RUN, total_kills - total)
            state = f"state{runs}"
            result, kills = self.kill_run(state, rng, most)
            with self.subTest(seed=test_resume.SEED, run=runs, kills=kills):
                self.check_run(state, result)
                members = "setting", "best", "epochs", "loss", "metric"
                self.assertEqual([json.dumps(result[m]) for m in members],
                                 [json.dumps(whole[m]) for m in members])
                self.assertEqual(read_model(result), model)
            total += kills
            runs += 1
        print(f"killed {total} times in {runs} runs, seed {test_resume.SEED}")


if __name__ == "__main__":
    import unittest
    unittest.main()
