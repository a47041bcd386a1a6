"""What the process tests share: start mltune, look for what it left behind.

Every process that a test starts, and those that these start, carry the test's
mark in their environment; a test that ends while one of them lives fails, and so
does one that leaves a `*.tmp` in its folder.
"""
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MLTUNE_BUILD", ROOT / "build/release"))
MLTUNE = str((BUILD / "mltune").resolve())
MARK = "MLTUNE_TEST_MARK"

RATE = {"type": "float", "min": 1e-5, "max": 1, "scale": "log",
        "default": 0.01}

RESULT_MEMBERS = ["run", "status", "reason", "loss", "metric", "best", "model",
                  "epochs", "clocks", "seconds", "tuning", "setting",
                  "schedule", "strategy", "searcher", "seed", "state", "url"]


def mf_config(**stop):
    return {
        "name": "small-mf",
        "app": {"name": "mf", "rank": 8, "clock": 10, "test_fraction": 0.1,
                "data": "gen:ratings?users=300&items=200&ratings=10000&rank=4"
                        "&noise=0.1"},
        "cluster": {"workers": 1},
        "ps": {"update_rule": "adagrad"},
        "tunables": {"learning_rate": RATE},
        "tuner": {"searcher": "random", "trial_clocks": 10},
        "stop": {"max_epochs": 6, **stop},
        "seed": 7,
    }


def mlr_config(**stop):
    return {
        "name": "small-mlr",
        "app": {"name": "mlr", "data": "gen:digits?samples=2000&size=12"},
        "cluster": {"workers": 1},
        "tunables": {
            "learning_rate": RATE,
            "momentum": {"type": "float", "min": 0, "max": 0.99,
                         "default": 0.9},
            "batch_size": {"type": "int", "values": [16, 64], "default": 64}},
        "tuner": {"searcher": "random", "trial_clocks": 20},
        "stop": {"max_epochs": 4, **stop},
        "seed": 7,
    }


def endless_config():
    """A job that goes on until somebody ends it."""
    config = mlr_config()
    config["name"] = "endless"
    config["app"]["data"] = "gen:digits?samples=20000&size=28"
    config["stop"] = {"max_epochs": 1000000, "plateau_epochs": 1000000}
    config["tuner"] = {"searcher": "random"}
    return config


class Done:
    """A process that has ended."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def result(self):
        return json.loads(self.out.strip().splitlines()[-1])


def make_certificate(folder):
    """cert.pem and key.pem in @folder, for servers on loopback."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-subj",
         "/CN=loopback", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True)


def without_copies(state, db):
    """Of the journal @db nothing is left but its records, which may be changed:
    no checkpoints, no checksums."""
    for path in pathlib.Path(state).glob("runs/*/checkpoint*"):
        path.unlink()
    db.execute("UPDATE records SET sum = NULL")
    db.execute("UPDATE runs SET sum = NULL")
    db.commit()


def lengthen(state):
    """The only run of @state has more records than all buffers on the way of an
    export hold."""
    db = sqlite3.connect(pathlib.Path(state) / "mltune.db", timeout=60)
    without_copies(state, db)
    with db:
        key, at, wall, text = db.execute(
            "SELECT run, seq, wall_ns, json FROM records "
            "WHERE kind = 'decision' ORDER BY seq DESC").fetchone()
        db.execute("UPDATE records SET seq = seq + 12000 WHERE seq > ?", (at,))
        record = {**json.loads(text), "text": "x" * 450}
        db.executemany(
            "INSERT INTO records VALUES (?, ?, ?, 'decision', ?, NULL)",
            [(key, at + i, wall, json.dumps(record))
             for i in range(1, 12001)])
    db.close()


def journal_as_failed(state, run):
    """Rewrites the end of @run as an older version had it: lost for ever."""
    db = sqlite3.connect(pathlib.Path(state) / "mltune.db")
    without_copies(state, db)
    key, = db.execute("SELECT key FROM runs WHERE id = ?", (run,)).fetchone()
    seq, text = db.execute(
        "SELECT seq, json FROM records WHERE run = ? ORDER BY seq DESC"
        " LIMIT 1", (key,)).fetchone()
    end = json.loads(text)
    if end["kind"] != "run_finished":
        raise AssertionError(text)
    end.update(status="failed", reason="node_lost")
    db.execute("UPDATE records SET json = ? WHERE run = ? AND seq = ?",
               (json.dumps(end), key, seq))
    db.execute("UPDATE runs SET status = 'failed', reason = 'node_lost'"
               " WHERE key = ?", (key,))
    db.commit()
    db.close()


def crc32c_table():
    """What a byte does to Castagnoli's sum."""
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
        table.append(crc)
    return table


def crc32c(data, table=tuple(crc32c_table())):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


class Case(unittest.TestCase):
    maxDiff = None
    # Texts that no log may have.
    FAULTS = ("Sanitizer", "runtime error:", "Assertion", "node_ended_badly")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mltune-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.mark = uuid.uuid4().hex
        self.env = {**os.environ, MARK: self.mark}
        self.env["TSAN_OPTIONS"] = (
            f"{self.env.get('TSAN_OPTIONS', '')} "
            f"suppressions={ROOT / 'tests/process/tsan.supp'}")
        self.env.pop("MLTUNE_SERVER", None)
        self.env.pop("MLTUNE_TOKEN", None)
        self.addCleanup(self.end_all)

    def bound_quarantine(self):
        """For tests that bound memory: what was freed is not kept for long where
        the address sanitizer looks for uses of it."""
        self.env["ASAN_OPTIONS"] = (
            f"{self.env.get('ASAN_OPTIONS', '')}:quarantine_size_mb=16")

    # ---- processes -------------------------------------------------------

    def marked(self):
        """Processes of this test that live, by pid; zombies count."""
        found = []
        needle = f"{MARK}={self.mark}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if needle in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def end_all(self):
        for pid in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def start(self, *words, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(
            [MLTUNE, *map(str, words)], stdin=subprocess.DEVNULL, text=True,
            env=self.env, cwd=self.folder, **options)

    def finish(self, process, seconds=120):
        out, err = process.communicate(timeout=seconds)
        return Done(process.returncode, out, err)

    def mltune(self, *words, seconds=120, **options):
        return self.finish(self.start(*words, **options), seconds)

    def wait_until(self, condition, what, seconds=60):
        """Waits for something that the program does in its own time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.02)
        self.fail(f"waited {seconds} s for {what}")
        return None

    # ---- runs ------------------------------------------------------------

    def write(self, name, content):
        path = self.folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
            return path
        path.write_text(content if isinstance(content, str)
                        else json.dumps(content))
        return path

    def run_config(self, config, *words, name="config.json", **options):
        self.write(name, config)
        return self.mltune("run", name, *words, **options)

    def nodes_of(self, tuner):
        """Pids of the nodes of a running `mltune run`."""
        found = []
        for pid in self.marked():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                status = pathlib.Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            parent = int(status.rpartition(")")[2].split()[1])
            if words.split(b"\0")[1:2] == [b"node"] and parent == tuner.pid:
                found.append(pid)
        return found

    def node_of(self, tuner):
        """Pid of the node of a running `mltune run`, once it is there."""
        return self.wait_until(lambda: self.nodes_of(tuner),
                               "the node process")[0]

    def wait_for_training(self, state=".mltune", seconds=60):
        """Until the run in @state has journaled that a slice ended."""
        def look():
            done = self.mltune("show", "endless", "--json", "--state", state)
            return done.code == 0 and done.result.get("clocks", 0) > 0
        self.wait_until(look, "training to begin", seconds)

    # ---- what is left ----------------------------------------------------

    def assert_nothing_left(self, seconds=5):
        """No process, zombie or orphan, and no temporary file."""
        end = time.monotonic() + seconds
        while self.marked() and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(self.marked(), [], "processes are left")
        left = [str(p) for p in self.folder.rglob("*.tmp")]
        left += [str(p) for p in self.folder.rglob("*") if p.is_socket()]
        self.assertEqual(left, [], "temporary files are left")
        self.assert_no_fault_in_logs()

    def assert_no_fault_in_logs(self):
        """No sanitizer has found anything, no node ended badly."""
        for path in self.folder.rglob("*log"):
            if not path.is_file():
                continue
            text = path.read_text(errors="replace")
            for word in self.FAULTS:
                self.assertNotIn(word, text, f"{path}:\n{text[-4000:]}")

    def assert_code(self, done, code):
        self.assertEqual(
            done.code, code,
            f"exit code {done.code}, expected {code}\n--- stdout\n{done.out}"
            f"\n--- stderr\n{done.err}")
