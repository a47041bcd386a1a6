"""Nodes that mpirun starts (`cluster.launcher` mpi), by a real Open MPI: the same bits
as on one machine, and nothing left behind, however it ends.
"""
import json
import os
import pathlib
import signal
import subprocess

from harness import MLTUNE, Case, endless_config
from test_cluster import fixed
from test_resume import Journal

GONE_S = 90
LONG_S = 150


class Mpi(Case):
    def setUp(self):
        super().setUp()
        self.env.update(
            OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        # mpirun's own files; the names of its sockets are to be short.
        tmp = self.folder / "t"
        tmp.mkdir()
        self.env["TMPDIR"] = str(tmp)
        for name in [n for n in self.env if n.startswith("SLURM_")]:
            del self.env[name]

    def ranks(self, n, *words):
        return subprocess.Popen(
            ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(n),
             MLTUNE, *map(str, words)], stdin=subprocess.DEVNULL, text=True,
            env=self.env, cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)

    def on_ranks(self, config, **cluster):
        config["cluster"] = {"launcher": "mpi", "workers": 1, **cluster}
        return config

    def tables(self, result):
        return {p.name: p.read_bytes()
                for p in pathlib.Path(result["model"]).glob("*.npy")}

    def processes(self, *verbs):
        """Pids of mltune's processes with one of @verbs, by rank."""
        found = {}
        for pid in self.marked():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                env = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            words = words.decode(errors="replace").split("\0")
            rank = [e for e in env.split(b"\0")
                    if e.startswith(b"OMPI_COMM_WORLD_RANK=")]
            if words[1:2] and words[1] in verbs and rank and \
                    "mpirun" not in words[0]:
                found[int(rank[0].partition(b"=")[2])] = pid
        return found

    def assert_all_gone(self):
        self.wait_until(lambda: not self.marked(), "all processes to end",
                        GONE_S)
        self.assert_no_fault_in_logs()

    def assert_no_place_left(self):
        mpi = self.folder / ".mltune/mpi"
        self.assertEqual(list(mpi.iterdir()), [])

    def same_as_local(self, app):
        here = fixed(app)
        here["cluster"] = {"workers": 1, "nodes": 3}
        one = self.run_config(here, "--json", "--state", "here")
        self.assert_code(one, 0)
        self.write("there.json", self.on_ranks(fixed(app)))
        two = self.finish(self.ranks(3, "run", "there.json", "--json"),
                          LONG_S)
        self.assert_code(two, 0)
        self.assertEqual(self.tables(one.result), self.tables(two.result))
        self.assertEqual(one.result["clocks"], two.result["clocks"])
        self.assert_all_gone()
        self.assert_no_place_left()

    def test_mf_is_the_same_to_the_last_bit(self):
        """As many nodes as mpirun has started."""
        self.same_as_local("mf")

    def test_nn_is_the_same_to_the_last_bit(self):
        self.same_as_local("nn")

    # ---- ends ------------------------------------------------------------

    def records(self, *kinds):
        done = self.mltune("show", "endless", "--json")
        if done.code != 0:
            return []
        return Journal(self.folder / ".mltune", done.result["run"]).of(*kinds)

    def begin(self, ranks=2, words=("run", "config.json", "--json"), **more):
        config = self.on_ranks(endless_config())
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        before = len(self.records("snapshot_written"))
        job = self.ranks(ranks, *words, **more)
        self.wait_until(
            lambda: len(self.records("snapshot_written")) > before or
            job.poll() is not None, "a snapshot", LONG_S)
        self.assertIsNone(job.poll(), "it has ended")
        self.assertEqual(sorted(self.processes("node")), list(range(ranks)))
        return job

    def test_ctrl_c_leaves_nothing(self):
        """mpirun ends all ranks, perhaps before the tuner has written why; the
        run goes on, on other ranks. The tuner's own end leaves no folder."""
        job = self.begin()
        job.send_signal(signal.SIGINT)
        done = self.finish(job, LONG_S)
        self.assertNotEqual(done.code, 0)
        self.assert_all_gone()
        shown = self.mltune("show", "endless", "--json").result
        self.assertEqual(shown["status"], "interrupted")
        job = self.begin(3, ("resume", "endless", "--set", "cluster.nodes=3"))
        self.assertEqual(len(self.records("run_resumed")), 1)
        os.kill(self.processes("resume")[0], signal.SIGINT)
        self.finish(job, LONG_S)
        self.assert_all_gone()
        shown = self.mltune("show", "endless", "--json").result
        self.assertEqual(shown["reason"], "interrupted")
        self.assert_no_place_left()

    def test_a_dead_rank_ends_all(self):
        """mpirun says which rank it was."""
        for rank in 1, 0:
            job = self.begin()
            os.kill(self.processes("run")[rank], signal.SIGKILL)
            done = self.finish(job, LONG_S)
            self.assertNotEqual(done.code, 0)
            self.assertRegex(done.err, rf"process rank {rank} .*signal 9")
            self.assert_all_gone()

    def test_a_killed_node_is_started_again(self):
        """On any rank, and the run says where it was."""
        job = self.begin()
        for times, rank in enumerate((1, 0), 1):
            os.kill(self.processes("node")[rank], signal.SIGKILL)
            self.wait_until(
                lambda n=times: len(self.records("run_resumed")) >= n and
                len(self.processes("node")) == 2,
                "the run to go on", LONG_S)
        job.send_signal(signal.SIGINT)
        done = self.finish(job, LONG_S)
        self.assertRegex(done.err, r"node \d on .*starting it again")
        self.assert_all_gone()

    # ---- what each failure says --------------------------------------------

    def test_alone(self):
        """Without mpirun it says what it lacks, and starts nothing."""
        self.write("config.json", self.on_ranks(fixed("mlr")))
        done = self.mltune("run", "config.json")
        self.assert_code(done, 78)
        self.assertIn("works under mpirun", done.err)
        self.assertIn("mpirun -np", done.err)
        self.assertEqual(json.loads(self.mltune("ls", "--json").out or "[]"),
                         [])

    def test_another_number_of_nodes(self):
        self.write("config.json", self.on_ranks(fixed("mlr"), nodes=3))
        done = self.finish(self.ranks(2, "run", "config.json"), LONG_S)
        self.assertNotEqual(done.code, 0)
        self.assertIn("cluster.nodes is 3", done.err)
        self.assert_all_gone()

    def test_ranks_of_another_state_folder(self):
        """What a file system that is not shared looks like."""
        self.write("config.json", self.on_ranks(fixed("mlr")))
        job = subprocess.Popen(
            ["mpirun", "--oversubscribe", "-np", "1", MLTUNE, "run",
             "config.json", ":", "-np", "1", MLTUNE, "run", "config.json",
             "--state", "other"], stdin=subprocess.DEVNULL, text=True,
            env=self.env, cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        done = self.finish(job, LONG_S)
        self.assertNotEqual(done.code, 0)
        self.assertRegex(done.err, "rank 1, of 2 that mpirun has started, has "
                         "not come|rank 1: rank 0, which is the tuner, is not "
                         "there")
        self.assert_all_gone()
