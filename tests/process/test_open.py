"""`mltune open`: the page of a state folder stays, whether a run goes on or has
ended, and nothing is left of what was started for it."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import urllib.request

import test_access
from harness import MLTUNE, ROOT, Case, endless_config, mlr_config

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+/)enter\?code=[0-9a-f]{64}"
                     r"(#/run/[a-z0-9-]+)?\n")


class Open(Case):
    def tearDown(self):
        for pid in self.services():
            os.kill(pid, signal.SIGTERM)
        self.assert_nothing_left(seconds=20)
        super().tearDown()

    def services(self):
        """Pids of services that live."""
        found = []
        for pid in self.marked():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if words.split(b"\0")[1:2] == [b"serve"]:
                found.append(pid)
        return found

    def train(self, **stop):
        return self.run_config(mlr_config(max_epochs=1, **stop), "--no-tune",
                               "--json").result["run"]

    def address(self, *words):
        """What `open` prints: the server, and what stands behind '#'."""
        done = self.mltune("open", *words)
        self.assert_code(done, 0)
        found = ADDRESS.fullmatch(done.out)
        self.assertTrue(found, done.out)
        return found.group(1), found.group(2), done

    def read(self, url):
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)


class Finds(Open):
    def test_a_run_that_ended_can_be_looked_at(self):
        """A service is started once; the second call finds it. The address
        leads to the run, and lets in whoever follows it."""
        run = self.train()
        url, place, done = self.address("small-mlr")
        self.assertEqual(place, "#/run/" + run)
        self.assertRegex(done.err, r"started \(process \d+\); it ends by "
                                   r"itself when .* for 30m \(--idle\)")
        self.assertEqual(self.read(url + f"api/v1/runs/{run}")["status"],
                         "finished")
        again, place, done = self.address()
        self.assertEqual((again, place, done.err), (url, None, ""))
        self.assertEqual(len(self.services()), 1)
        jar = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        page = jar.open(done.out.strip(), timeout=60)
        self.assertEqual((page.status, page.url), (200, url))
        self.assertNotEqual(self.address()[2].out, done.out)

    def test_in_a_browser(self):
        """Chromium keeps what stands behind '#' on its way in."""
        run = self.train()
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until((self.folder / ".mltune/serve.url").exists,
                        "the service")
        url, place, done = self.address(run)
        looked = subprocess.run(
            ["node", str(ROOT / "tests/browser/enter.js"), url,
             done.out.strip(), run], capture_output=True, text=True,
            timeout=120, env=self.env)
        self.assertEqual(looked.returncode, 0, looked.stderr)
        self.assertEqual(place, "#/run/" + run)
        service.send_signal(signal.SIGTERM)
        self.finish(service)

    def test_a_run_under_way(self):
        """`run` and `open` are one place: the page shows the run, which goes
        on as it did when the service ends."""
        self.write("endless.json", endless_config())
        tuner = self.start("run", "endless.json")
        self.wait_for_training()
        url, place, _ = self.address("endless")
        run = place.rpartition("/")[2]
        self.wait_until(lambda: self.read(url + f"api/v1/runs/{run}")["clocks"],
                        "clocks on the page")
        self.assert_code(self.mltune("stop", run), 0)
        self.assert_code(self.finish(tuner), 0)
        self.wait_until(
            lambda: self.read(url + f"api/v1/runs/{run}")["status"] == "stopped",
            "the end on the page")

    def test_the_service_that_serves_it(self):
        """Whatever its options are."""
        self.train()
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until((self.folder / ".mltune/serve.url").exists,
                        "the service")
        url, _, done = self.address()
        self.assertEqual(done.err, "")
        self.assertEqual(url, (self.folder / ".mltune/serve.url").read_text())
        service.send_signal(signal.SIGTERM)
        self.assert_code(self.finish(service), 143)

    def test_two_at_once_start_one(self):
        self.train()
        both = [self.start("open") for _ in range(4)]
        done = [self.finish(p) for p in both]
        for one in done:
            self.assert_code(one, 0)
        url, = {ADDRESS.fullmatch(one.out).group(1) for one in done}
        self.assertEqual(len(self.services()), 1)
        # What it says stays, and no other was started beside it.
        self.assertEqual(sum("was started" in one.err for one in done), 1)
        log = (self.folder / ".mltune/serve.log").read_text()
        self.assertIn(url, log)
        self.assertNotIn("error", log)


class Ends(Open):
    def test_by_itself_when_nobody_looks(self):
        """Whoever asks keeps it; then it ends, and leaves the folder as it
        was."""
        self.train()
        before = set(os.listdir(self.folder / ".mltune"))
        url, _, _ = self.address("--idle", "3s")
        pid, = self.services()
        self.wait_until(lambda: self.read(url + "api/v1/runs")["total"] == 1
                        and self.seconds_of(pid) > 5, "some seconds")
        self.assertEqual(self.services(), [pid])
        self.wait_until(lambda: not self.services(), "its end")
        left = set(os.listdir(self.folder / ".mltune")) - before
        left -= {"mltune.db-wal", "mltune.db-shm"}  # parts of mltune.db
        self.assertEqual(left, {"open.lock", "serve.lock", "serve.log"})
        self.assertIn("nobody has asked for 3 s: the service ends",
                      (self.folder / ".mltune/serve.log").read_text())

    def test_a_page_that_is_open_keeps_it(self):
        """By its event stream, in which nothing happens: the run is paused,
        and goes on without the service."""
        self.write("endless.json", endless_config())
        tuner = self.start("run", "endless.json")
        self.wait_for_training()
        url, place, _ = self.address("endless", "--idle", "3s")
        pid, = self.services()
        run = place.rpartition("/")[2]
        page = urllib.request.urlopen(url + f"api/v1/runs/{run}/events",
                                      timeout=60)
        self.assertTrue(page.readline())
        self.assert_code(self.mltune("pause", run), 0)
        since = self.seconds_of(pid)
        self.wait_until(lambda: self.seconds_of(pid) > since + 5,
                        "some seconds")
        self.assertEqual(self.services(), [pid])
        page.close()
        self.wait_until(lambda: not self.services(), "its end")
        self.assert_code(self.mltune("stop", run), 0)
        self.assert_code(self.finish(tuner), 0)

    @staticmethod
    def seconds_of(pid):
        """How long process @pid has lived."""
        words = pathlib.Path(f"/proc/{pid}/stat").read_text()
        began = int(words.rpartition(")")[2].split()[19])
        up = float(pathlib.Path("/proc/uptime").read_text().split()[0])
        return up - began / os.sysconf("SC_CLK_TCK")

    def test_serve_with_idle_is_no_signal(self):
        done = self.mltune("serve", "--listen", "127.0.0.1:0", "--idle", "1s")
        self.assert_code(done, 0)
        self.assertIn("the service ends", done.err)

    def test_one_that_serves_takes_its_place(self):
        """`open` begins no run that waits; `serve` does, without being told
        of the other."""
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until((self.folder / ".mltune/serve.url").exists,
                        "the service")
        config = self.write("config.json", mlr_config(max_epochs=1))
        run = self.mltune("submit", config, "--held").out.split(":")[0]
        service.send_signal(signal.SIGTERM)
        self.finish(service)
        job = self.folder / f".mltune/runs/{run}/job.json"
        job.write_text(json.dumps({**json.loads(job.read_text()),
                                   "held": False}))
        url, _, _ = self.address(run)
        shown = self.read(url + f"api/v1/runs/{run}")
        self.assertEqual(shown["status"], "queued")
        self.assertIn("begins only what it is asked to",
                      shown["status_reason"])
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until(
            lambda: b"finished" in self.mltune("ls").out.encode(),
            "the run")
        service.send_signal(signal.SIGTERM)
        done = self.finish(service)
        self.assertIn("the service that mltune open began", done.err)
        self.assertIn("makes room", done.err)

    def test_what_is_asked_of_it_it_does(self):
        """A run that waits begins when it is continued, and ends before the
        service does."""
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until((self.folder / ".mltune/serve.url").exists,
                        "the service")
        config = self.write("config.json", mlr_config(max_epochs=1))
        run = self.mltune("submit", config, "--held").out.split(":")[0]
        service.send_signal(signal.SIGTERM)
        self.finish(service)
        job = self.folder / f".mltune/runs/{run}/job.json"
        job.write_text(json.dumps({**json.loads(job.read_text()),
                                   "held": False}))
        self.address("--idle", "10s")
        self.assert_code(self.mltune("continue", run), 0)
        self.wait_until(lambda: not self.services(), "its end")
        self.assertIn("finished", self.mltune("ls").out)


class Mistakes(Open):
    """Each is said, has its code, and leaves no process."""

    def refused(self, code, says, *words, **options):
        done = self.mltune("open", *words, **options)
        self.assert_code(done, code)
        self.assertEqual(done.out, "")
        self.assertIn(says, done.err)
        self.assertEqual(self.services(), [])
        return done

    def test_nothing_to_show(self):
        self.refused(2, "state folder ./.mltune holds no runs: mltune run "
                        "begins the first one, --state names another folder")
        self.assertFalse((self.folder / ".mltune").exists())
        self.refused(2, "holds no runs", "--state", "nowhere")
        self.train()
        self.refused(2, 'no run "nope" in', "nope")
        self.refused(2, "did you mean small-mlr?", "small-mrl")
        self.refused(2, "--idle: expected a time of 1s to 365 days, as 30m, "
                        'found "soon"', "--idle", "soon")
        self.refused(2, "unexpected argument", "a", "b")

    def test_a_port_that_is_taken(self):
        self.train()
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            address = "127.0.0.1:%d" % other.getsockname()[1]
            self.refused(74, "in use", "--listen", address)
        self.refused(78, "8080", "--listen", "0.0.0.0:8080")

    def test_a_service_that_dies_at_once(self):
        """Here it cannot make its token: a folder is in the way."""
        self.train()
        (self.folder / ".mltune/token").unlink()
        (self.folder / ".mltune/token").mkdir()
        self.refused(78, "the service ended with exit code 78: "
                         f"{self.folder}/.mltune/token must be a file")

    def test_an_address_that_cannot_be_told(self):
        """Whoever asked began a service for nothing: it ends. One that was
        there stays, whether its code cannot be read or nothing be written."""
        self.train()
        with open("/dev/full", "w", encoding="ascii") as full:
            def to_nowhere():
                done = subprocess.run(
                    [MLTUNE, "open"], cwd=self.folder, stdout=full,
                    stderr=subprocess.PIPE, text=True, timeout=120,
                    env=self.env, check=False)
                self.assertEqual(done.returncode, 74, done.stderr)
                self.assertIn("cannot write to stdout", done.stderr)
                self.assertNotIn("was started", done.stderr)

            to_nowhere()
            self.assertEqual(self.services(), [])
            self.address()
            there = self.services()
            to_nowhere()
        code = self.folder / ".mltune/serve.page"
        for spoil in (lambda: code.write_text("x" * 128), code.mkdir):
            code.unlink()
            spoil()
            done = self.mltune("open")
            self.assert_code(done, 74)
            self.assertEqual(done.out, "")
            self.assertIn("serve.page", done.err)
        self.assertEqual((len(there), self.services()), (1, there))

    def test_a_folder_that_cannot_be_written(self):
        """By another account, who may read it."""
        test_access.need_root(self)
        self.train()
        program = self.folder / "bin"
        shutil.copy(MLTUNE, program)
        for path in [self.folder, *self.folder.rglob("*")]:
            if path.is_dir() or path == program:
                path.chmod(0o755)
            elif stat.S_ISREG(path.stat().st_mode):
                path.chmod(0o644)
        done = subprocess.run(
            [program, "open"], cwd=self.folder, capture_output=True, text=True,
            user=test_access.NOBODY, group=test_access.NOBODY,
            extra_groups=[], timeout=120, env=self.env)
        self.assertEqual(done.returncode, 74, done.stderr)
        self.assertIn("open.lock: Permission denied", done.stderr)
        self.assertEqual(self.services(), [])

    def test_a_service_that_does_not_answer(self):
        """It is named, with what to do; `open` has started nothing."""
        self.train()
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until((self.folder / ".mltune/serve.url").exists,
                        "the service")
        service.send_signal(signal.SIGSTOP)
        try:
            done = self.mltune("open")
        finally:
            service.send_signal(signal.SIGCONT)
        self.assert_code(done, 69)
        self.assertIn(f"a service (process {service.pid}) has the state folder",
                      done.err)
        service.send_signal(signal.SIGTERM)
        self.finish(service)

    def test_ctrl_c_leaves_nothing(self):
        """While it waits for a service that hangs."""
        self.train()
        service = self.start("serve", "--listen", "127.0.0.1:0")
        self.wait_until((self.folder / ".mltune/serve.url").exists,
                        "the service")
        service.send_signal(signal.SIGSTOP)
        opening = self.start("open")
        self.wait_until(lambda: self.hears(opening.pid), "open to wait")
        opening.send_signal(signal.SIGINT)
        done = self.finish(opening)
        service.send_signal(signal.SIGCONT)
        self.assert_code(done, 130)
        service.send_signal(signal.SIGTERM)
        self.finish(service)

    @staticmethod
    def hears(pid):
        """Whether process @pid waits for signals at a descriptor."""
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                if os.readlink(entry) == "anon_inode:[signalfd]":
                    return True
            except OSError:
                continue
        return False
