"""SIGTERM ends every state of a run and of a service within ten seconds.

Where something is to hang, it hangs for ever: a process is stopped, or a call of
the kernel never returns in it (tests/faults/shim.c).
"""
import contextlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import time

import test_serve
from harness import BUILD, MLTUNE, Case, endless_config, mlr_config
from test_cluster import fixed
from test_resume import Journal

END_S = 10
GRACE_S = 1.5  # of a loaded machine


class Ends(Case):
    FAULTS = ("Sanitizer", "runtime error:", "Assertion")

    def hang(self, role, fault):
        """From now on processes of @role hang in the call @fault."""
        asan = self.env.get("ASAN_OPTIONS", "")
        self.hung = self.folder / "hung"
        self.env.update(LD_PRELOAD=str(BUILD / "tests/faults/shim.so"),
                        FAULT=f"{fault}:hang", FAULT_ROLE=role,
                        FAULT_ROOT=str(self.folder), FAULT_MARK=str(self.hung),
                        ASAN_OPTIONS=f"{asan}:verify_asan_link_order=0")

    def hang_no_more(self):
        for name in ("LD_PRELOAD", "FAULT", "FAULT_ROLE"):
            self.env.pop(name, None)

    def terminate(self, process, code=143):
        """Ends @process, in time; nothing of it lives on."""
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        done = self.finish(process, 60)
        took = time.monotonic() - began
        self.assert_code(done, code)
        self.assertLess(took, END_S + GRACE_S)
        self.wait_until(lambda: not self.marked(), "all processes to end", 10)
        return done

    def stop(self, pid):
        os.kill(pid, signal.SIGSTOP)


class Run(Ends):
    def begin(self, config=None, *words):
        self.write("config.json", config or endless_config())
        return self.start("run", "config.json", *words)

    def goes_on(self):
        """And it is a run like any that was interrupted."""
        self.hang_no_more()
        state = self.folder / ".mltune"
        name = next((state / "runs").iterdir()).name
        run = self.start("resume", name, "-q")
        self.wait_until(lambda: Journal(state, name).of("run_resumed"),
                        "the run to go on")
        self.terminate(run)
        self.assert_nothing_left()

    def test_node_is_stopped(self):
        """In the middle of training: no snapshot can be had of it."""
        run = self.begin()
        self.wait_for_training()
        self.stop(self.node_of(run))
        done = self.terminate(run)
        self.assertIn("no snapshot was written", done.err)
        self.goes_on()

    def test_one_of_two_nodes_is_stopped(self):
        config = endless_config()
        config["cluster"] = {"workers": 1, "nodes": 2}
        run = self.begin(config)
        self.wait_for_training()
        self.stop(self.nodes_of(run)[1])
        self.terminate(run)

    def test_nodes_that_no_kill_ends(self):
        """As where they wait for a disk that hangs: they are waited for all
        together, and the run says how it ended."""
        program = self.write("undying.py", """#!/usr/bin/python3 -ES
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setpgid(0, os.getpgid(os.getppid()))  # a kill of its group passes it by
open(f"there-{os.environ['MLTUNE_NODE']}", "w").close()
time.sleep(600)
""")
        program.chmod(0o755)
        nodes = 10  # a second each, one after another
        run = self.begin({"app": {"command": ["./undying.py"]},
                          "cluster": {"nodes": nodes},
                          "tunables": {"learning_rate": {"type": "float",
                                                         "fixed": 0.1}}})
        self.wait_until(lambda: len(list(self.folder.rglob("there-*"))) ==
                        nodes, "the nodes")
        done = self.terminate(run)
        self.assertNotIn("the process ends at once", done.err)
        listed = json.loads(self.mltune("ls", "--json").out)
        self.assertEqual([r["status"] for r in listed], ["interrupted"])

    def test_run_of_a_comparison_is_stopped(self):
        """It cannot end by itself; the comparison does, and kills it."""
        self.write("config.json", endless_config())
        compare = self.start("compare", "config.json", "--strategies",
                             "mltuner")
        lock = self.wait_until(lambda: list(self.folder.rglob("lock")),
                               "a run")[0]
        self.stop(int(self.wait_until(lock.read_text, "its process")))
        self.terminate(compare, 143)

    def test_node_is_stopped_as_it_loads(self):
        config = endless_config()
        config["app"]["data"] = "gen:digits?samples=400000&size=28"
        run = self.begin(config)
        self.stop(self.node_of(run))
        self.terminate(run)

    def test_node_loads(self):
        config = endless_config()
        config["app"]["data"] = "gen:digits?samples=400000&size=28"
        run = self.begin(config)
        self.node_of(run)
        self.terminate(run)

    def test_snapshot_hangs(self):
        """In a flush of the node's, behind those of what a model needs of the
        data."""
        config = endless_config()
        config["snapshot"] = {"every": 0.1}
        self.hang("node", "sync:40")
        run = self.begin(config)
        self.wait_until(self.hung.exists, "the snapshot to hang")
        self.terminate(run)
        self.goes_on()

    def test_tuner_itself_hangs(self):
        """In a flush of its own, once the run is registered: nobody reads the signal."""
        self.hang("run", "sync:30")
        run = self.begin()
        self.wait_until(self.hung.exists, "the tuner to hang")
        done = self.terminate(run)
        self.assertIn("the process ends at once", done.err)
        self.goes_on()

    def test_model_is_tried_again(self):
        """Its folder cannot get its name."""
        self.hang("run", "rename:2")  # after that of model.json
        self.env.update(FAULT="rename:2:always",
                        FAULT_ROOT=str(self.folder / "out"))
        run = self.begin(mlr_config(max_epochs=1), "--out", "out/model")
        self.wait_until(self.hung.exists, "the model to fail")
        began = time.monotonic()
        run.send_signal(signal.SIGTERM)
        self.finish(run, 60)
        self.assertLess(time.monotonic() - began, END_S + GRACE_S)
        self.hang_no_more()
        run = next((self.folder / ".mltune/runs").iterdir()).name
        self.assert_code(self.mltune("resume", run, "-q"), 0)
        self.assert_nothing_left()

    def test_node_is_being_started_again(self):
        run = self.begin()
        self.wait_for_training()
        for _ in range(2):  # the second wait takes a second
            node = self.node_of(run)
            os.kill(node, signal.SIGKILL)
            self.wait_until(lambda: node not in self.nodes_of(run),
                            "the node to be gone")
        self.terminate(run)

    def test_journal_is_locked(self):
        """By another program, for as long as it likes."""
        run = self.begin()
        self.wait_for_training()
        other = sqlite3.connect(self.folder / ".mltune/mltune.db",
                                isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        run.send_signal(signal.SIGTERM)
        self.finish(run, 60)
        self.assertLess(time.monotonic() - began, END_S + GRACE_S)
        # Nothing of this is in the journal, which it could not write.
        self.assert_told("ls", "--json")
        other.execute("ROLLBACK")
        other.close()
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until((self.folder / ".mltune/serve.url").exists,
                        "the service")
        self.assert_told("ls", "--json")
        self.terminate(service)
        self.goes_on()

    def assert_told(self, *words):
        """That the only run could not write to its journal any more."""
        run = json.loads(self.mltune(*words).out)[0]
        self.assertEqual((run["status"], run["status_reason"]),
                         ("interrupted", "busy"))

    def test_two_signals_end_what_hangs(self):
        """Ctrl-C twice, where the tuner itself hangs."""
        self.hang("run", "sync:24")
        run = self.begin()
        self.wait_until(self.hung.exists, "the tuner to hang")
        run.send_signal(signal.SIGINT)
        time.sleep(0.2)  # two that are pending are one
        began = time.monotonic()
        run.send_signal(signal.SIGINT)
        self.assert_code(self.finish(run, 60), 130)
        self.assertLess(time.monotonic() - began, 3 + GRACE_S)


class Unread(Ends):
    """Whoever is to read what a program says does not: a terminal that is
    held, a pipe into a program that hangs."""

    def setUp(self):
        super().setUp()
        self.ends = os.pipe()
        for end in self.ends:
            self.addCleanup(os.close, end)
        os.set_blocking(self.ends[1], False)
        for size in 4096, 1:
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(self.ends[1], b"x" * size)
        os.set_blocking(self.ends[1], True)

    def begin(self, *words):
        return self.start(*words, stdout=self.ends[1], stderr=self.ends[1])

    def ends_unread(self, process):
        wchan = pathlib.Path(f"/proc/{process.pid}/wchan")
        self.wait_until(lambda: "pipe_w" in wchan.read_text(), "it to hang")
        self.terminate(process)

    def test_run_that_is_over(self):
        """Its result is in stdout's buffer, which main flushes last of all."""
        self.write("config.json", mlr_config(max_epochs=1))
        self.ends_unread(self.begin("run", "config.json", "--json", "-q"))

    def test_run_goes_on(self):
        """What it would say is left out: it trains, and ends by itself."""
        self.write("config.json", mlr_config(max_epochs=3))
        run = self.start("run", "config.json", "-v", "--json",
                         stderr=self.ends[1])
        done = self.finish(run, 60)
        self.assert_code(done, 0)
        self.assertEqual(done.result["epochs"], 3)

    def test_service_goes_on(self):
        """As it takes a run, trains it and says so, and as it ends."""
        self.write("config.json", mlr_config(max_epochs=3))
        service = self.start("serve", "--listen", "127.0.0.1:0", "-v",
                             stderr=self.ends[1])
        self.wait_until((self.folder / ".mltune/serve.url").exists,
                        "the service")
        self.assert_code(self.mltune("submit", "config.json"), 0)
        self.wait_until(lambda: [r["status"] for r in json.loads(
            self.mltune("ls", "--json").out)] == ["finished"], "the run's end")
        began = time.monotonic()
        service.send_signal(signal.SIGTERM)
        self.assertEqual(service.wait(60), 143)
        self.assertLess(time.monotonic() - began, 5)

    def test_comparison(self):
        self.write("config.json", mlr_config(max_epochs=1))
        self.ends_unread(self.begin("compare", "config.json", "--strategies",
                                    "fixed", "--seeds", "1", "-q"))

    def test_watch(self):
        self.write("config.json", endless_config())
        run = self.start("run", "config.json")
        self.wait_for_training()
        name = next((self.folder / ".mltune/runs").iterdir()).name
        watch = self.begin("watch", name)
        self.wait_until(lambda: "pipe_w" in pathlib.Path(
            f"/proc/{watch.pid}/wchan").read_text(), "it to hang")
        began = time.monotonic()
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 143)
        self.assertLess(time.monotonic() - began, END_S + GRACE_S)
        self.terminate(run)


class Service(Ends):
    find_service = test_serve.Service.find_service
    ask = test_serve.Service.ask
    tuner_of = test_serve.Service.tuner_of
    READ = test_serve.Service.READ

    def launch(self, *words):
        self.service = self.start("serve", "--listen", "127.0.0.1:0",
                                  *self.READ, *words)
        self.wait_until(self.find_service, "the service")

    def submit(self, config):
        code, _, answer = self.ask("POST", "/api/v1/runs", config)
        self.assertEqual(code, 201, answer)
        return answer["run"]

    def nodes(self):
        found = []
        for pid in self.marked():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if file.read().split(b"\0")[1:2] == [b"node"]:
                        found.append(pid)
            except OSError:
                continue
        return found

    def trains(self, run):
        def look():
            return self.ask("GET", f"/api/v1/runs/{run}")[2]["clocks"] > 0
        self.wait_until(look, "the run to train")

    def test_idle(self):
        self.launch()
        self.terminate(self.service)

    def test_run_trains(self):
        self.launch()
        self.trains(self.submit(endless_config()))
        self.terminate(self.service)

    def test_node_of_a_run_is_stopped(self):
        self.launch()
        self.trains(self.submit(endless_config()))
        self.stop(self.nodes()[0])
        self.terminate(self.service)

    def test_tuner_of_a_run_hangs(self):
        self.hang("resume", "sync:9")
        self.launch()
        self.submit(endless_config())
        self.wait_until(self.hung.exists, "the tuner to hang")
        self.terminate(self.service)

    def test_tuner_of_a_run_is_stopped(self):
        """It cannot even hear; whoever continues it has it ended."""
        self.launch()
        run = self.submit(endless_config())
        self.trains(run)
        self.stop(self.tuner_of(run))
        began = time.monotonic()
        self.service.send_signal(signal.SIGTERM)
        self.finish(self.service, 60)
        self.assertLess(time.monotonic() - began, END_S + GRACE_S)

    def test_hung_tuner_is_noticed(self):
        """Which no end of a process tells: its run is taken from it, said, and
        goes on."""
        self.hang("resume", "sync:9")
        self.launch("--silence", "3")
        run = self.submit(endless_config())
        self.wait_until(self.hung.exists, "the tuner to hang")
        first = self.tuner_of(run)
        state = self.folder / ".mltune"
        self.wait_until(lambda: Journal(state, run).of("run_resumed"),
                        "the run to go on")
        self.trains(run)
        self.assertNotEqual(self.tuner_of(run), first)
        done = self.terminate(self.service)
        self.assertRegex(done.err, f"tuner_silent .*run={run} pid={first} ")

    def test_stopped_tuner_is_noticed(self):
        """It is continued so that it can write its snapshot, and ends."""
        self.launch("--silence", "3")
        run = self.submit(endless_config())
        self.trains(run)
        self.stop(self.tuner_of(run))
        state = self.folder / ".mltune"
        self.wait_until(lambda: Journal(state, run).of("run_resumed"),
                        "the run to go on")
        done = self.terminate(self.service)
        self.assertIn("tuner_silent", done.err)

    def test_service_itself_hangs(self):
        self.hang("serve", "mkdir:6")
        self.launch()
        self.ask_in_the_background(endless_config())
        self.wait_until(self.hung.exists, "the service to hang")
        self.terminate(self.service)

    def ask_in_the_background(self, config):
        self.write("config.json", json.dumps(config))
        self.start("submit", "config.json")


class Resolver(Case):
    """It takes every question and answers none (in namespaces of its own: root)."""
    WAIT_S = 15  # DEADLINE_LOOKUP_MS
    SILENT = """
import os, socket, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
os.set_inheritable(s.fileno(), True)
sys.exit(subprocess.run(sys.argv[1:], close_fds=False).returncode)
"""

    def alone(self, *words):
        """@words where nobody else's resolver is."""
        conf = self.write("resolv.conf", "nameserver 127.0.0.1\n"
                          "options timeout:30 attempts:5\n")
        hosts = self.write("nsswitch.conf", "hosts: files dns\n")
        silent = self.write("silent.py", self.SILENT)
        script = ("ip link set lo up && mount --bind \"$1\" /etc/resolv.conf && "
                  "mount --bind \"$2\" /etc/nsswitch.conf && shift 2 && "
                  "exec /usr/bin/python3 \"$@\"")
        began = time.monotonic()
        done = subprocess.run(
            ["unshare", "-m", "-n", "sh", "-c", script, "sh", conf, hosts,
             silent, *words], cwd=self.folder, env=self.env,
            capture_output=True, text=True, timeout=120, check=False)
        return done, time.monotonic() - began

    def test_a_client_waits_no_longer_than_it_says(self):
        done, took = self.alone(MLTUNE, "ls", "--server", "https://far.example/")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("resolver (/etc/resolv.conf) has not answered in 15 s",
                      done.stderr)
        self.assertGreater(took, self.WAIT_S - 1)
        self.assertLess(took, self.WAIT_S + 10)

    def test_a_node_that_meets_by_a_name_ends(self):
        done, took = self.alone(str((BUILD / "direct").resolve()), "-n", "2",
                                "-i", "0", "-m", "tcp://far.example:7")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has not answered in 15 s", done.stderr)
        self.assertLess(took, self.WAIT_S + 10)

    def test_hosts_behind_those_that_nobody_knows_are_asked(self):
        """A run whose hosts are names that the resolver keeps silent about, but
        for the last, which /etc/hosts has: our address is known by that one."""
        (self.folder / "bin").mkdir()
        ssh = self.write("bin/ssh", "#!/bin/sh\necho 'no such host' >&2\n"
                         "exit 255\n")
        ssh.chmod(0o755)
        self.env["PATH"] = f"{ssh.parent}:{os.environ['PATH']}"
        config = fixed("mlr")
        config["cluster"] = {"launcher": "ssh", "nodes": 1, "workers": 1,
                             "hosts": [*(f"far{i}.example" for i in range(4)),
                                       "localhost"]}
        self.write("config.json", config)
        done, took = self.alone(MLTUNE, "run", "config.json")
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("which address of this machine", done.stderr)
        self.assertIn("node 0 on far0.example: ", done.stderr)
