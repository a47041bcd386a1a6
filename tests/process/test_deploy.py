"""What systemd is given, and what it is told: how exposed the unit is, that the
service says when it is ready and that it lives, and how the program is built."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import harness
from fixtures import under_unit
from test_serve import Service

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy/mltune.service"
UNDER_UNIT = ROOT / "tests/process/fixtures/under_unit.py"
EXPOSURE_MAX = 1.5


class Unit(harness.Case):
    def test_the_unit_is_exposed_little(self):
        """By systemd's own measure: of 10, at most 1.5."""
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager",
             UNIT],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=60)
        level = re.search(r"exposure level for mltune.service: ([0-9.]+)",
                          done.stdout)
        self.assertIsNotNone(level, done.stdout)
        self.assertLessEqual(float(level.group(1)), EXPOSURE_MAX)

    def test_failures_end_neither_the_service_nor_its_runs(self):
        """What systemd is told to do after one: a start again, later, as often
        as it takes, and nothing to the runs."""
        unit = under_unit.settings(UNIT)
        self.assertEqual(unit["Restart"], ["on-failure"])
        self.assertGreaterEqual(int(unit["RestartSec"][0]), 1)
        self.assertEqual(unit["StartLimitIntervalSec"], ["0"])
        self.assertEqual(unit["RestartPreventExitStatus"], ["2 78"])
        self.assertEqual(unit["KillMode"], ["process"])
        self.assertEqual(unit["OOMPolicy"], ["continue"])
        self.assertRegex(unit["MemoryMax"][0], r"^[1-9][0-9]?%$")

    def test_systemd_understands_the_unit(self):
        """Every line of it, in the section where it counts."""
        text = re.sub(r"/usr/local/bin/mltune", harness.MLTUNE,
                      UNIT.read_text()).replace("man:mltune(1)",
                                                "https://example.org")
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no",
             self.write("tried.service", text)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=60)
        said = [line for line in done.stdout.splitlines()
                if "tried.service" in line]
        self.assertEqual(said, [], done.stdout)

    def test_the_program_is_built_with_guards(self):
        """The stack, returns and jumps: as far as this machine's compiler
        knows the flags."""
        flags = (pathlib.Path(harness.BUILD) / "flags").read_text().split()
        if "-O3" not in flags:
            self.assertIn("-DMLT_DEBUG", flags)  # debug and sanitizers
            return
        for flag in ("-fcf-protection", "-fstack-clash-protection"):
            known = subprocess.run(
                [flags[0], "-Werror", flag, "-x", "c", "-c", "/dev/null",
                 "-o", "/dev/null"], stderr=subprocess.DEVNULL, timeout=60)
            self.assertEqual(flag in flags, known.returncode == 0)
        for flag in ("-fstack-protector-strong", "-D_FORTIFY_SOURCE=2"):
            self.assertIn(flag, flags)


    def test_indirect_branches_are_marked(self):
        """In every object of ours; in the program where the C library's start
        files, which are linked into it, are marked as well."""
        def marked(path):
            said = subprocess.run(["readelf", "-n", path], timeout=60,
                                  stdout=subprocess.PIPE, text=True).stdout
            return "IBT" in said and "SHSTK" in said

        build = pathlib.Path(harness.BUILD)
        flags = (build / "flags").read_text().split()
        if "-fcf-protection" not in flags:
            return  # not known here: the test above says where it must be
        ours = sorted((build / "obj/base").rglob("*.o"))
        self.assertGreater(len(ours), 10)
        self.assertEqual([o for o in ours if not marked(o)], [])
        start = [subprocess.run([flags[0], f"-print-file-name={name}"],
                                stdout=subprocess.PIPE, text=True,
                                timeout=60).stdout.strip()
                 for name in ("Scrt1.o", "crti.o", "crtn.o")]
        self.assertEqual(marked(build / "mltune"), all(map(marked, start)))


class UnderUnit(Service):
    """A service that has the system calls of the unit, and no others."""
    OPTIONS = ("-v", "--workers", "4")
    READ = ()

    def start(self, *words, **options):
        if words[0] != "serve":
            return super().start(*words, **options)
        return subprocess.Popen(
            [sys.executable, UNDER_UNIT, UNIT, harness.MLTUNE, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.folder)

    def test_runs_train(self):
        """One node and two, each as confined as it is elsewhere."""
        for nodes in 1, 2:
            config = harness.mlr_config()
            config["cluster"] = {"workers": nodes, "nodes": nodes}
            run = self.submit(config)
            ended = self.wait_for_status(run, "finished", "failed", "held")
            folder = self.folder / f".mltune/runs/{run}"
            self.assertEqual(ended["status"], "finished", ended)
            for log in folder.glob("node-*.log"):
                self.assertNotIn("not_confined", log.read_text())
        self.assert_code(self.end(), 143)
        self.assert_nothing_left()

    def test_it_is_kept_from_what_the_unit_refuses(self):
        """Or the test above shows nothing: the filter acts."""
        script = ("import os, resource, socket, mmap\n"
                  "def refused(call, *args):\n"
                  "    try:\n"
                  "        return bool(call(*args))\n"
                  "    except PermissionError:\n"
                  "        return True\n"
                  "print(refused(os.chown, '/tmp/x', 1, 1),"
                  " refused(os.sched_setaffinity, 0, {0}),"
                  " refused(socket.socket, socket.AF_NETLINK),"
                  " refused(mmap.mmap, -1, 4096, mmap.MAP_PRIVATE,"
                  " mmap.PROT_WRITE | mmap.PROT_EXEC),"
                  " refused(os.sched_setscheduler, 0, os.SCHED_FIFO,"
                  " os.sched_param(1)),"
                  " refused(os.sched_setscheduler, 0, os.SCHED_OTHER,"
                  " os.sched_param(0)))")
        done = subprocess.run(
            [sys.executable, UNDER_UNIT, UNIT, sys.executable, "-c", script],
            stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.stdout.split(), ["True"] * 5 + ["False"])


class Notifying(Service):
    """As systemd starts one, Type=notify with a watchdog of 1.5 s."""

    def launch(self, *words):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(str(self.folder / "notify"))
        self.socket.settimeout(60)
        self.env["NOTIFY_SOCKET"] = str(self.folder / "notify")
        self.env["WATCHDOG_USEC"] = "1500000"
        super().launch(*words)

    def heard_in(self, seconds):
        """What comes until then."""
        heard, end = [], time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                heard.append(self.socket.recv(256).decode())
            except TimeoutError:
                break
        return heard


class Stuck(Notifying):
    """One of the two loops turns, the other does not."""

    def hang(self, fault, root):
        asan = self.env.get("ASAN_OPTIONS", "")
        self.hung = self.folder / "hung"
        self.env.update(LD_PRELOAD=str(harness.BUILD / "tests/faults/shim.so"),
                        FAULT=f"{fault}:hang", FAULT_ROLE="serve",
                        FAULT_ROOT=str(root), FAULT_MARK=str(self.hung),
                        ASAN_OPTIONS=f"{asan}:verify_asan_link_order=0")

    def assert_no_life(self, *others):
        """The watchdog hears nothing more. Ends what hangs, and @others."""
        self.wait_until(self.hung.exists, "a thread to hang")
        self.wait_until(lambda: self.heard_in(1.6) == [], "silence", 20)
        for process in self.service, *others:
            process.kill()
            self.finish(process)


class StuckSupervisor(Stuck):
    def launch(self, *words):
        self.hang("mkdir:6", self.folder)
        super().launch(*words)

    def test_the_supervisor_alone_is_stuck(self):
        """Its thread hangs in a call for ever; the one that answers HTTP does
        not speak for it."""
        self.write("config.json", harness.endless_config())
        submits = self.start("submit", "config.json")
        self.wait_until(self.hung.exists, "the supervisor to hang")
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        self.assert_no_life(submits)


class StuckWithRun(Stuck):
    OPTIONS = ("--data", "data")

    def launch(self, *words):
        """It hangs as it lists an upload."""
        (self.folder / "data").mkdir()
        state = self.folder / ".mltune"
        self.hang("rename:1", state / "uploads")
        super().launch(*words)

    def test_its_runs_end_with_it(self):
        """The supervisor cannot ask them to; whoever ends the process does."""
        run = self.submit(harness.endless_config())
        self.wait_for_clock(run)
        self.write("x", "bytes")
        uploads = self.start("upload", "x")
        self.wait_until(self.hung.exists, "the supervisor to hang")
        self.assert_code(self.end(), 143)
        self.wait_until(
            lambda: json.loads(self.mltune("show", run, "--json").out)
            ["status"] == "interrupted", "the run to be interrupted")
        self.wait_until(lambda: not self.tuners(), "its tuner to end")
        uploads.kill()
        self.finish(uploads)
        self.wait_until(lambda: not self.marked(), "all to end")

    def tuners(self):
        """Processes that go on with a run of this test's."""
        return [pid for pid in self.marked()
                if b"\0resume\0" in self.command_line(pid)]

    @staticmethod
    def command_line(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""


class StuckHttp(Stuck):
    def launch(self, *words):
        """It hangs as it gives the page's next address to the file."""
        state = self.folder / ".mltune"
        self.hang("rename:2", state / "serve.page")
        self.env["FAULT_CLOCK"] = "10"  # it may be silent for 10 s
        super().launch("--state", str(state), *words)

    def test_the_http_thread_alone_is_stuck(self):
        """The supervisor goes round, and does not speak for it."""
        page = (self.folder / ".mltune/serve.page").read_text().strip()
        with socket.create_connection(self.address, timeout=60) as browser:
            browser.sendall(f"GET /{page} HTTP/1.1\r\nHost: 127.0.0.1:"
                            f"{self.address[1]}\r\n\r\n".encode())
            self.assert_no_life()


class Watched(Notifying):
    def test_it_says_that_it_is_ready_and_lives(self):
        """READY when it answers, signs of life while both of its loops turn;
        none while it is stuck, and none of the runs that it starts."""
        self.assertEqual(self.socket.recv(256), b"READY=1")
        self.socket.settimeout(60)
        self.assertEqual(self.socket.recv(256), b"WATCHDOG=1")
        os.kill(self.service.pid, signal.SIGSTOP)
        self.heard_in(0.3)
        self.assertEqual(self.heard_in(1.6), [])
        os.kill(self.service.pid, signal.SIGCONT)
        self.socket.settimeout(60)
        self.assertEqual(self.socket.recv(256), b"WATCHDOG=1")
        environ = pathlib.Path(f"/proc/{self.service.pid}/environ")
        self.assertIn(b"NOTIFY_SOCKET", environ.read_bytes())  # as it began
        run = self.submit(harness.mlr_config())
        self.wait_until(lambda: self.tuner_is_silent(run),
                        "a tuner that knows no manager")
        self.wait_for_status(run, "finished")
        self.assert_code(self.end(), 143)
        self.assertEqual(self.heard_in(1)[-1], "STOPPING=1")

    def tuner_is_silent(self, run):
        """Once it is the run's: at first the service holds its place."""
        try:
            tuner = self.tuner_of(run)
            environ = pathlib.Path(f"/proc/{tuner}/environ").read_bytes()
        except (OSError, ValueError):
            return False
        return environ and not re.search(rb"NOTIFY_SOCKET|WATCHDOG", environ)
