"""Nodes that ssh starts (`cluster.launcher` ssh), by a real sshd of the test's own:
the same bits as on one machine, whatever goes wrong named by host and cause, and
nothing left behind, however it ends.
"""
import os
import pathlib
import signal
import sqlite3

from harness import MLTUNE, Case, endless_config
from sshd import Sshd
from test_cluster import fixed
from test_resume import Journal

HOSTS = ["127.0.0.1", "127.0.0.2"]
# Sessions of sshd end when they notice that their peer has gone: seconds, on a
# machine at work.
GONE_S = 90


class Hosts(Case):
    """Runs whose nodes are started by an sshd of their own."""

    def setUp(self):
        super().setUp()
        self.sshd = self.start_sshd()
        self.use(self.sshd)

    def start_sshd(self, *more, name="sshd"):
        sshd = Sshd(self, *more, name=name)
        self.addCleanup(sshd.stop)
        return sshd.start()

    def use(self, sshd):
        self.env["PATH"] = f"{sshd.bin}:{os.environ['PATH']}"

    def on_hosts(self, config, hosts=tuple(HOSTS), **cluster):
        """@config with its nodes on @hosts."""
        config["cluster"] = {**config.get("cluster", {}), "launcher": "ssh",
                             "hosts": list(hosts), "command": str(MLTUNE),
                             **cluster}
        return config

    def tables(self, result):
        return {p.name: p.read_bytes()
                for p in pathlib.Path(result["model"]).glob("*.npy")}

    def assert_nothing_far_left(self):
        self.wait_until(lambda: not self.marked(), "all processes to end",
                        GONE_S)
        self.assert_nothing_left()

    def far_nodes(self):
        """Pids of the nodes themselves, not of what stands for them here."""
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


class Data(Hosts):
    """Hosts with no file system in common."""

    # Node 1 sees the folder `there` in place of `data`, where there is one.
    ELSEWHERE = """#!/bin/sh
cd {folder}
case "$*" in *"--node 1"*) [ -d there ] && exec unshare --mount sh -c \\
    'mount --bind there data && exec "$@"' sh {mltune} "$@" ;; esac
exec {mltune} "$@"
"""

    def test_a_node_with_other_data(self):
        """It is found before the first clock, of a run that begins and of one that
        goes on, and named with the file. Who wants that says so."""
        def table(folder, shift):
            (self.folder / folder).mkdir(exist_ok=True)
            return self.write(f"{folder}/table.csv", "a,b,y\n" + "".join(
                f"{i % 7},{(i + shift) % 5},{i % 2}\n" for i in range(4000)))
        table("data", 0)
        away = self.write("away", self.ELSEWHERE.format(
            folder=self.folder, mltune=MLTUNE))
        away.chmod(0o755)
        config = self.on_hosts(endless_config(), workers=1, command=str(away))
        config["app"] = {"name": "mlr", "data": "data", "test_fraction": 0.1}
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        self.interrupt(self.start("run", "config.json", "--json"), 0)
        run, = os.listdir(self.folder / ".mltune/runs")
        says = r"nodes 0 and 1 have other data: \S+/data/table.csv has other " \
            "content in its"
        table("there", 1)
        refused = self.mltune("resume", run, "--json", seconds=150)
        self.assert_code(refused, 78)
        self.assertEqual(refused.result["reason"], "load_failed")
        self.assertRegex(refused.err, says)
        self.assertIn("--other-data", refused.err)
        self.interrupt(self.start("resume", run, "--other-data", "--json"), 1)
        fresh = self.mltune("run", "config.json", "--json", "--state", "new",
                            seconds=150)
        self.assert_code(fresh, 78)
        self.assertRegex(fresh.err, says)
        self.assertEqual(fresh.result["clocks"], 0)
        self.assert_nothing_far_left()

    def interrupt(self, tuner, resumes):
        """Once it trains."""
        def trains():
            try:
                run, = os.listdir(self.folder / ".mltune/runs")
                kinds = [r["kind"] for r in Journal(
                    self.folder / ".mltune", run).of("run_resumed",
                                                     "snapshot_written")]
            except (OSError, ValueError, sqlite3.Error):
                return False
            return kinds.count("run_resumed") == resumes and \
                kinds[-1:] == ["snapshot_written"]
        self.wait_until(trains, "the run to train", 120)
        tuner.send_signal(signal.SIGINT)
        self.assert_code(self.finish(tuner, 60), 128 + signal.SIGINT)


class Launcher(Hosts):
    def same_as_local(self, app):
        here = fixed(app)
        here["cluster"] = {"workers": 2, "nodes": 2}
        one = self.run_config(here, "--json", "--state", "here")
        self.assert_code(one, 0)
        there = self.on_hosts(fixed(app), workers=2)
        two = self.run_config(there, "--json", "--state", "there",
                              seconds=150)
        self.assert_code(two, 0)
        self.assertEqual(self.tables(one.result), self.tables(two.result))
        self.assertEqual(one.result["clocks"], two.result["clocks"])
        self.assert_nothing_far_left()

    def test_mf_is_the_same_to_the_last_bit(self):
        """Two nodes by ssh, as two of this machine; as many as hosts."""
        self.same_as_local("mf")

    def test_nn_is_the_same_to_the_last_bit(self):
        self.same_as_local("nn")

    def test_a_single_node_elsewhere(self):
        """One host, one node: no other to meet."""
        config = self.on_hosts(fixed("mlr"), hosts=HOSTS[:1], workers=1)
        done = self.run_config(config, "--json", seconds=150)
        self.assert_code(done, 0)
        self.assert_nothing_far_left()

    # ---- ends ------------------------------------------------------------

    def begin(self):
        config = self.on_hosts(endless_config(), workers=1)
        config["snapshot"] = {"every": 0.2}
        self.write("config.json", config)
        tuner = self.start("run", "config.json", "--json")
        self.wait_for_training(seconds=150)
        self.assertEqual(len(self.far_nodes()), 2)
        return tuner

    def test_ctrl_c_leaves_nothing(self):
        tuner = self.begin()
        tuner.send_signal(signal.SIGINT)
        done = self.finish(tuner, 150)
        self.assert_code(done, 128 + signal.SIGINT)
        self.assert_nothing_far_left()

    def test_a_killed_tuner_leaves_nothing(self):
        """Nobody is there to say anything: the nodes find out by themselves."""
        tuner = self.begin()
        tuner.kill()
        tuner.communicate(timeout=60)
        self.wait_until(lambda: not self.marked(), "all processes to end",
                        GONE_S)

    def test_a_killed_node_is_started_again(self):
        """The run goes on from its snapshot, and says which host it was."""
        tuner = self.begin()
        os.kill(self.far_nodes()[1], signal.SIGKILL)
        run = self.mltune("show", "endless", "--json").result["run"]

        def resumed():
            journal = Journal(self.folder / ".mltune", run)
            return journal.of("run_resumed") and \
                journal.records[-1]["kind"] != "run_resumed"
        self.wait_until(resumed, "the run to go on", 120)
        tuner.send_signal(signal.SIGINT)
        done = self.finish(tuner, 150)
        self.assertRegex(done.err, r"node \d on 127\.0\.0\..*starting it again")
        self.assert_nothing_far_left()

    # ---- what each failure says ------------------------------------------

    def fails(self, config, *says):
        """The run ends, though it may be resumed, and says why and where."""
        done = self.run_config(config, seconds=150)
        self.assertNotEqual(done.code, 0)
        for text in says:
            self.assertIn(text, done.err)
        self.wait_until(lambda: not self.marked(), "all processes to end",
                        GONE_S)
        return done

    def test_an_unknown_host(self):
        self.env["RES_OPTIONS"] = "timeout:1 attempts:1"  # where no DNS answers
        self.fails(self.on_hosts(fixed("mlr"), ["127.0.0.1", "none.invalid"],
                                 workers=1),
                   "node 1 on none.invalid: ssh: ", "none.invalid")

    def test_hosts_that_are_unknown(self):
        """Each is asked for the way to it: the fifth tells which address of
        ours is meant, or it is said that none did. How long a name server that
        is dead is waited for is test_deadlines.py's, and ssh's own."""
        self.env["RES_OPTIONS"] = "timeout:1 attempts:1"
        self.env["LOCALDOMAIN"] = "invalid"  # one domain to search
        none = [f"none{i}.invalid" for i in range(4)]
        self.fails(self.on_hosts(fixed("mlr"), [*none, "127.0.0.1"],
                                 nodes=1, workers=1),
                   "node 0 on none0.invalid: ssh: ")
        done = self.fails(self.on_hosts(fixed("mlr"), none, workers=1),
                          "which address of this machine the hosts reach",
                          "4 of 4 were asked", "cluster.address")
        self.assertNotIn("node 0", done.err)

    def test_a_host_that_refuses(self):
        self.sshd.stop()
        self.fails(self.on_hosts(fixed("mlr"), workers=1),
                   "on 127.0.0.", "ssh: connect to host 127.0.0.",
                   "Connection refused")

    def test_a_key_that_is_refused(self):
        (self.sshd.folder / "allowed").write_text("")
        self.fails(self.on_hosts(fixed("mlr"), workers=1),
                   "on 127.0.0.", "Permission denied")

    def test_a_host_that_nobody_knows(self):
        """Its key is not among the known ones."""
        (self.sshd.folder / "known").write_text("")
        self.fails(self.on_hosts(fixed("mlr"), workers=1),
                   "on 127.0.0.", "Host key verification failed")

    def test_no_such_program(self):
        self.fails(self.on_hosts(fixed("mlr"), workers=1,
                                 command="/nowhere/mltune"),
                   "on 127.0.0.", "no program `/nowhere/mltune`",
                   "cluster.command")

    def test_another_version(self):
        """A program that says what another mltune's node does."""
        other = self.write("other", f"#!/bin/sh\nexec {MLTUNE} node --tuner "
                           "tcp://127.0.0.1:1 --expect 0.0.9 --tether\n")
        other.chmod(0o755)
        self.fails(self.on_hosts(fixed("mlr"), workers=1, command=str(other)),
                   "on 127.0.0.", "the tuner's is 0.0.9",
                   "one version on all hosts")

    def test_a_folder_that_is_not_shared(self):
        other = self.write(
            "other", f"#!/bin/sh\nexec {MLTUNE} node --tuner tcp://127.0.0.1:1 "
            "--tether --shared /nowhere/run\n")
        other.chmod(0o755)
        self.fails(self.on_hosts(fixed("mlr"), workers=1, command=str(other)),
                   "on 127.0.0.", "/nowhere/run is not there",
                   "a file system that they share")

    def test_an_address_that_is_not_ours(self):
        done = self.fails(self.on_hosts(fixed("mlr"), workers=1,
                                        address="192.0.2.1"),
                          "cluster.address must be an address of this machine")
        self.assertNotIn("node 0", done.err)

    def test_a_crowded_sshd_is_asked_again(self):
        """It drops most of those who ask at once (MaxStartups), and all nodes
        start all the same."""
        crowded = self.start_sshd("MaxStartups 1:60:3", name="crowded")
        self.use(crowded)
        config = self.on_hosts(fixed("mlr"), HOSTS[:1], nodes=6, workers=1)
        done = self.run_config(config, "--json", seconds=150)
        self.assert_code(done, 0)
        self.assert_nothing_far_left()

    # ---- who may ---------------------------------------------------------

    def test_configurations_that_do_not_fit(self):
        """All at once, and each where it stands."""
        config = fixed("mlr")
        config["cluster"] = {"launcher": "ssh"}
        self.write("a.json", config)
        done = self.mltune("validate", "a.json")
        self.assert_code(done, 78)
        self.assertIn("/cluster/hosts", done.out + done.err)
        config["cluster"] = {"launcher": "ssh", "hosts": ["-oProxyCommand=x"]}
        self.write("b.json", config)
        done = self.mltune("validate", "b.json")
        self.assert_code(done, 78)
        config = {"app": {"command": ["true"]},
                  "tunables": {}, "cluster": {"launcher": "ssh",
                                              "hosts": ["a"]}}
        self.write("c.json", config)
        done = self.mltune("validate", "c.json")
        self.assert_code(done, 78)
        self.assertIn("/cluster/launcher", done.out + done.err)

    def test_there_are_as_many_nodes_as_hosts(self):
        self.write("a.json", self.on_hosts(fixed("mlr"), workers=1))
        done = self.mltune("run", "a.json", "--dry-run")
        self.assert_code(done, 0)
        self.assertIn("2 nodes, 1 worker each, on hosts by ssh", done.out)
