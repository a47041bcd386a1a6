"""Nodes that Slurm starts (`cluster.launcher` slurm) inside an allocation, by a real
slurmctld and slurmd of the test's own: the same bits as on one machine, and nothing
left behind.
"""
import os
import pathlib
import signal
import subprocess

from harness import MLTUNE, Case, endless_config
from slurm import NODES, Slurm
from test_cluster import fixed

GONE_S = 90


class Launcher(Case):
    def setUp(self):
        super().setUp()
        self.slurm = Slurm(self)
        self.addCleanup(self.slurm.stop)
        self.slurm.start()

    def in_allocation(self, *words, **options):
        return subprocess.Popen(
            ["salloc", "--quiet", f"--nodes={len(NODES)}", MLTUNE,
             *map(str, words)], stdin=subprocess.DEVNULL, text=True,
            env={**self.env, **self.slurm.env}, cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def far_config(self, config, **cluster):
        config["cluster"] = {"launcher": "slurm", "workers": 1,
                             "command": MLTUNE, "address": "127.0.0.1",
                             **cluster}
        return config

    def nodes(self):
        """Pids of the nodes themselves, not of what stands for them."""
        found = []
        for pid in self.marked():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            words = words.split(b"\0")
            if words[1:2] == [b"node"] and b"--tether" in words:
                found.append(pid)
        return found

    def assert_nodes_gone(self):
        self.wait_until(lambda: not self.nodes(), "the nodes to end", GONE_S)
        self.assert_no_fault_in_logs()

    def tables(self, result):
        return {p.name: p.read_bytes()
                for p in pathlib.Path(result["model"]).glob("*.npy")}

    def same_as_local(self, app):
        here = fixed(app)
        here["cluster"] = {"workers": 1, "nodes": 2}
        one = self.run_config(here, "--json", "--state", "here")
        self.assert_code(one, 0)
        self.write("there.json", self.far_config(fixed(app)))
        two = self.finish(self.in_allocation(
            "run", "there.json", "--json", "--state", "there"), 150)
        self.assert_code(two, 0)
        self.assertEqual(self.tables(one.result), self.tables(two.result))
        self.assertEqual(one.result["clocks"], two.result["clocks"])
        self.assert_nodes_gone()

    def test_mf_is_the_same_to_the_last_bit(self):
        """As many nodes as the allocation has hosts."""
        self.same_as_local("mf")

    def test_nn_is_the_same_to_the_last_bit(self):
        self.same_as_local("nn")

    def tuner(self):
        """Pid of `mltune run` itself, whose parent is salloc."""
        for pid in self.marked():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if words.split(b"\0")[:2] == [MLTUNE.encode(), b"run"]:
                return pid
        return None

    def begin(self):
        self.write("config.json", self.far_config(endless_config()))
        process = self.in_allocation("run", "config.json", "--json")
        self.wait_for_training(seconds=150)
        self.assertEqual(len(self.nodes()), len(NODES))
        return process

    def test_ctrl_c_leaves_nothing(self):
        process = self.begin()
        os.kill(self.tuner(), signal.SIGINT)
        done = self.finish(process, 150)
        self.assert_code(done, 128 + signal.SIGINT)
        self.assert_nodes_gone()

    def test_a_killed_tuner_leaves_nothing(self):
        process = self.begin()
        os.kill(self.tuner(), signal.SIGKILL)
        process.communicate(timeout=100)
        self.assert_nodes_gone()

    def test_no_allocation(self):
        """It says what it lacks, and starts nothing."""
        self.write("config.json", self.far_config(fixed("mlr")))
        done = self.mltune("run", "config.json")
        self.assert_code(done, 78)
        self.assertIn("works inside an allocation", done.err)
        self.assertIn("salloc", done.err)

    def test_no_such_program(self):
        self.write("config.json", self.far_config(
            fixed("mlr"), command="/nowhere/mltune"))
        done = self.finish(self.in_allocation("run", "config.json"), 150)
        self.assertNotEqual(done.code, 0)
        self.assertIn("no program `/nowhere/mltune`", done.err)
        self.assertRegex(done.err, r"node \d on n[12]: ")
        self.assert_nodes_gone()
