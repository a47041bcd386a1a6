"""The N-th call fails: allocations, writes, flushes, renames, folders, opens.

Over the whole program: a run, a resume, a service, each time in one of their
processes (tests/faults/shim.c). Whatever N, the job ends with the undisturbed
result; or is refused, with a word about it; or is interrupted, and a resume ends
with that result. It never hangs, crashes or loses training.

An allocation that fails within libzmq, or in C++, ends the process by abort(3):
that is a killed process, which goes on as one.

The gate takes a point of each kind and role, always the same: GATE draws it out
of CALLS. SEED=n draws others for FAULT_SECONDS a test, SEED=now by the clock.

`make fault-loop` takes every N of what is done to files. Of allocations, where
every N would be a day's work, it takes every way through the program to one: the
whole stack, as the shim tells it. Of each way the first call fails, and the last.
FAULT_STEP=n takes each n-th N of them, too; FAULT_KINDS, FAULT_PASSES and FAULT_NEWS
less, FAULT_POINT one point. FAULT_DONE=FILE keeps what was done, for the next time.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request

from harness import BUILD, Case, MLTUNE, RATE

SECONDS = float(os.environ.get("FAULT_SECONDS", 10))
LOOP = bool(os.environ.get("FAULT_LOOP"))
STEP = int(os.environ.get("FAULT_STEP") or 0)  # 0: by ways
FIRST = int(os.environ.get("FAULT_FIRST", 1))
ONLY = os.environ.get("FAULT_KINDS", "").split()
# Of all ways first one of each that are alike nearby, over all roles; then of
# each role; then the rest.
NEWS = os.environ.get("FAULT_NEWS", "").split() or ["program", "role", "all"]
POINT = os.environ.get("FAULT_POINT")  # this one alone
SEED = os.environ.get("SEED")
if SEED == "now":
    SEED = str(time.time_ns() % 1000000)
GATE = 14
# Of one job that takes 0.2 s; more where the loop gives way to others.
DEADLINE_S = int(os.environ.get("FAULT_DEADLINE", 60))
SHIM = BUILD / "tests/faults/shim.so"

FILES = ["write", "sync", "rename", "mkdir", "open", "unlink", "truncate"]
ALLOCATIONS = ["alloc", "liballoc"]
KINDS = [*ALLOCATIONS, "map", *FILES]
# Which call of each way fails, and how; what is likelier to find something first.
PASSES = os.environ.get("FAULT_PASSES", "").split() or [
    "first:once", "first:always", "last:once", "last:always"]
# Calls of each kind in an undisturbed job, about: of it the gate draws.
CALLS = {
    "RunTuner": {"alloc": 16000, "liballoc": 1600, "map": 1, "write": 160,
                 "sync": 39, "rename": 13, "mkdir": 18, "open": 40,
                 "unlink": 8, "truncate": 3},
    "RunNode": {"alloc": 5800, "liballoc": 320, "map": 6, "write": 7,
                "sync": 15, "rename": 8, "mkdir": 2, "open": 18},
    "ResumeTuner": {"alloc": 19000, "liballoc": 1900, "map": 2, "write": 160,
                    "sync": 26, "rename": 7, "mkdir": 6, "open": 35,
                    "unlink": 10, "truncate": 5},
    "ResumeNode": {"alloc": 5800, "liballoc": 320, "map": 6, "write": 7,
                   "sync": 15, "rename": 8, "mkdir": 2, "open": 18},
    "ServiceItself": {"alloc": 15000, "liballoc": 3300, "map": 2, "write": 47,
                      "sync": 27, "rename": 9, "mkdir": 12, "open": 44,
                      "unlink": 8, "truncate": 5},
    "ServiceTuner": {"alloc": 17000, "liballoc": 1900, "map": 2, "write": 129,
                     "sync": 26, "rename": 7, "mkdir": 6, "open": 35,
                     "unlink": 5, "truncate": 3},
    "Recover": {"alloc": 6000, "liballoc": 3000, "map": 3, "write": 60,
                "sync": 34, "rename": 7, "mkdir": 11, "open": 60, "unlink": 9,
                "truncate": 4},
    "Save": {"alloc": 6500, "liballoc": 710, "map": 3, "write": 14, "sync": 20,
             "rename": 7, "mkdir": 3, "open": 33, "truncate": 1},
    "Deleted": {"alloc": 2400, "liballoc": 500, "write": 65, "sync": 5,
                "open": 16, "unlink": 28, "truncate": 5},
    "OwnProgram": {"alloc": 13000, "write": 120},
    "OwnProgramItself": {"write": 20, "sync": 6, "rename": 3, "mkdir": 4,
                         "open": 6},
    "TwoNodes": {"alloc": 22000, "write": 180},
    "TwoNodesNode": {"alloc": 6300, "write": 9, "rename": 7},
    "Contest": {"alloc": 25000},
    "Pruned": {"write": 120},
    "Asha": {"alloc": 20000},
    "Tupaq": {"liballoc": 2000},
    "Crowd": {"alloc": 29000},
    "GlmNode": {"alloc": 8200},
    "SagaNode": {"alloc": 6600},
    "WordsNode": {"alloc": 6500, "write": 9},
    "RanksNode": {"alloc": 5200},
    "LdaNode": {"alloc": 6900},
    "NetNode": {"alloc": 9300},
    "SoftmaxNode": {"alloc": 8400},
    "Predict": {"alloc": 4400, "write": 3, "rename": 1},
    "PredictTopics": {"alloc": 4300},
    "PredictWords": {"alloc": 4400},
    "Eval": {"alloc": 4500},
    "Listed": {"alloc": 2100},
    "Shown": {"alloc": 4400},
    "Exported": {"alloc": 1600, "write": 3},
    "Noted": {"rename": 1},
    "Tokens": {"alloc": 97, "write": 2},
    "Generated": {"write": 1, "sync": 2},
    "Watched": {"alloc": 8400},
    "Opened": {"open": 2},
    "Compared": {"write": 10},
    "Far": {"write": 170},
    "NodeAfar": {"rename": 8},
    "Upload": {"alloc": 15000, "write": 47, "rename": 9, "sync": 27},
}
# Points that once found something, and are as quick as any.
ONCE_FOUND = {"RunNode": [("map", 3, "once")],
              "ServiceItself": [("sync", 27, "always")],
              "Eval": [("alloc", 4517, "once")],
              "Compared": [("open", 4, "once")],
              "Noted": [("write", 12, "once")]}
# What the C++ runtime and libzmq say as they give up.
ABORTS = re.compile(r"bad_alloc|terminate called recursively|OUT OF MEMORY"
                    r"|Out of memory|Cannot allocate|without an active exception|\(src/thread\.cpp:\d+\)",
                    re.I)
# OpenPGM, which libzmq starts, aborts without a word, and does not look whether
# the C library found memory to read a file.
SILENT = "libpgm"
# Assertions of libzmq's, the C library's and the sanitizer's own: they end the
# process, too.
THEIRS = re.compile(r"^Assertion failed: .* \(src/\w+\.[ch]pp:\d+\)"
                    r"|^\w+: nss_database\.c:\d+: .*Assertion .*"
                    r"|^AddressSanitizer: CHECK failed: sanitizer_\w+\.cpp.*"
                    r"|^Unexpected error\.$",  # glibc's own
                    re.M)
FAULTS = ("Sanitizer", "runtime error:", "Assertion", "broke the protocol")


def config():
    return {
        "name": "faulty",
        "app": {"name": "mf", "rank": 4, "clock": 10, "test_fraction": 0.1,
                "data": "ratings.txt"},
        "cluster": {"workers": 1},
        "tunables": {"learning_rate": RATE},
        "tuner": {"searcher": "random", "trial_clocks": 5, "max_trials": 3},
        "snapshot": {"every": 0.1},
        "stop": {"max_epochs": 3},
        "seed": 7,
    }


def ratings():
    draw = random.Random(5)
    return "".join(f"{draw.randrange(20)}\t{draw.randrange(15)}\t"
                   f"{draw.randrange(1, 6)}\n" for _ in range(300))


def outcome(result):
    """What a run comes to, but for its times and names; as it says itself, or
    as a server does."""
    last = result.get("last_epoch") or result
    return {"loss": last.get("loss"), "metric": last.get("metric"),
            **{k: result.get(k) for k in ("status", "epochs", "setting")}}


def faults_in(said):
    """Of a sanitizer's, or an assertion of our own."""
    said = THEIRS.sub("", said)
    return any(word in said for word in FAULTS)


class Ledger:
    """What was done, in the file FAULT_DONE, so that lanes share it and a loop
    that was ended goes on; without one in memory."""

    def __init__(self, path):
        self.path = path
        self.file = None  # of each lane its own: where it has read
        self.done = set()

    def has(self, mark):
        if self.path and not self.file:
            pathlib.Path(self.path).touch()
            self.file = open(self.path, encoding="ascii")
        if self.file:
            self.done.update(self.file.read().splitlines())
        return " ".join(mark) in self.done

    def add(self, marks):
        lines = [" ".join(mark) for mark in marks]
        self.done.update(lines)
        if self.path:
            with open(self.path, "a", encoding="ascii") as file:
                file.write("\n".join(lines) + "\n")


LEDGER = Ledger(os.environ.get("FAULT_DONE"))


class Wrong(Exception):
    """The promise is not kept at this point."""


class Faults(Case):
    ROLE = None
    KINDS = KINDS  # that are let fail

    def setUp(self):
        super().setUp()
        self.work = self.folder / "work"
        self.template = self.folder / "template"
        self.mark_file = self.folder / "mark"
        self.count_file = self.folder / "count"
        self.chains_file = self.folder / "chains"
        self.work.mkdir()
        (self.work / "config.json").write_text(json.dumps(self.config()))
        self.write_data()
        self.expected = self.undisturbed()
        self.prepare()
        # Sockets of a killed run cannot be copied.
        shutil.copytree(self.work, self.template, symlinks=True,
                        ignore=shutil.ignore_patterns("ipc.tmp", "*.sock"))

    def config(self):
        return config()

    def write_data(self):
        (self.work / "ratings.txt").write_text(ratings())

    def undisturbed(self):
        done = self.plain("run", "config.json", "--state", "../first")
        self.assertEqual(done.returncode, 0, done.stderr)
        return outcome(json.loads(done.stdout.splitlines()[-1]))

    def prepare(self):
        """Makes of self.work what each point begins with."""

    # ---- one command ---------------------------------------------------------

    def plain(self, *words, **variables):
        return self.command(*words, "--json", **variables)

    def command(self, *words, **variables):
        return subprocess.run(
            [MLTUNE, *words, "-q"], cwd=self.work, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=DEADLINE_S, env={**self.env, **variables})

    def faulty(self, fault):
        # A preloaded library comes before the sanitizer's, which takes what the
        # loader has opened for it for lost.
        asan = self.env.get("ASAN_OPTIONS", "")
        only_counts = fault.endswith(":0")
        return {**({"FAULT_CHAINS": str(self.chains_file)} if only_counts
                   else {}), "LD_PRELOAD": str(SHIM), "FAULT": fault,
                "FAULT_ROLE": self.ROLE, "FAULT_ROOT": str(self.work),
                "FAULT_MARK": str(self.mark_file),
                "FAULT_COUNT": str(self.count_file),
                "ASAN_OPTIONS": f"{asan}:verify_asan_link_order=0:"
                                "detect_leaks=0"}

    def fresh(self):
        self.end_all()
        shutil.rmtree(self.work)
        shutil.copytree(self.template, self.work, symlinks=True)
        for file in self.mark_file, self.count_file, self.chains_file:
            file.unlink(missing_ok=True)

    # ---- the job: overridden -------------------------------------------------

    def act(self, fault):
        """Does the job while @fault is on; its exit code, and what it said.
        TimeoutExpired: it hangs."""
        raise NotImplementedError

    # ---- what must hold ------------------------------------------------------

    def fail_if_aborted(self, code, said):
        if code >= 0:
            return
        name = signal.Signals(-code).name
        if self.mark_file.exists() and SILENT in self.mark_file.read_text():
            return
        if name != "SIGABRT" or not (ABORTS.search(said) or
                                     THEIRS.search(said)):
            raise Wrong(f"killed by {name}: {said[-700:]}")

    def runs(self):
        """Status and reason of each run in the journal."""
        path = self.work / ".mltune/mltune.db"
        if not path.exists():
            return []
        db = sqlite3.connect(path)
        try:
            return db.execute("SELECT id, status, reason FROM runs").fetchall()
        except sqlite3.OperationalError:  # not even made
            return []
        finally:
            db.close()

    def compare(self, text, what):
        try:
            result = outcome(json.loads(text.strip().splitlines()[-1]))
        except (ValueError, IndexError):
            raise Wrong(f"{what}: no result: {text[-300:]!r}") from None
        if result != self.expected:
            raise Wrong(f"{what}: {result}, expected {self.expected}")

    def goes_on(self, run):
        done = self.plain("resume", run)
        if done.returncode != 0:
            raise Wrong(f"resume of {run} exits {done.returncode}: "
                        f"{done.stderr[-500:]}")
        self.compare(done.stdout, "the resume")

    def begins_again(self):
        done = self.plain("run", "config.json")
        if done.returncode != 0:
            raise Wrong(f"a new run exits {done.returncode}: "
                        f"{done.stderr[-500:]}")
        self.compare(done.stdout, "a new run")

    def ends_well(self, code, out, said):
        """The job ended with @code: all is well, or becomes so."""
        if code == 0:
            self.compare(out, "the run")
            return
        self.fail_if_aborted(code, said)
        if code > 0 and not said.strip():
            raise Wrong(f"exit {code} without a word")
        self.mend(said)
        # What a run that was killed after its end leaves the next one sweeps.
        if code < 0 and "finished" in [status for _, status, _ in self.runs()]:
            self.begins_again()

    def mend(self, said):
        runs = self.runs()
        if not runs:
            self.begins_again()
        for run, status, reason in runs:
            if reason == "protocol":  # no node breaks it for want of anything
                raise Wrong(f"run {run} is {status}: protocol: {said[-500:]}")
            if status == "failed":
                self.check_failed(run, reason)
            elif status == "finished":
                done = self.plain("show", run)
                self.compare(done.stdout, "the finished run")
            else:
                self.goes_on(run)

    def check_failed(self, run, reason):
        """Only where nothing was trained, since it could not begin."""
        shown = json.loads(self.plain("show", run).stdout)
        if shown.get("clocks") or reason not in ("load_failed", "limit"):
            raise Wrong(f"failed: {reason}: {shown.get('message')}")
        self.begins_again()

    def check_folders(self):
        """No run in the journal that nothing could take up."""
        for run, status, _ in self.runs():
            if not status and not (self.work / ".mltune/runs" / run).is_dir():
                raise Wrong(f"run {run} has no folder")

    def left(self):
        end = time.monotonic() + 5
        while self.marked() and time.monotonic() < end:
            time.sleep(0.01)
        if self.marked():
            raise Wrong("processes are left")
        found = [p.name for p in self.work.rglob("*")
                 if p.name.endswith(".tmp") or p.is_socket()]
        if found:
            raise Wrong(f"files are left: {found}")
        for path in self.work.rglob("*log"):
            text = path.read_text(errors="replace") if path.is_file() else ""
            if faults_in(text):
                raise Wrong(f"{path.name}: {text[-3000:]}")

    def point(self, fault):
        """Whether @fault was reached at all."""
        self.fresh()
        try:
            code, out, said = self.act(fault)
            self.check_folders()
            if faults_in(said):
                raise Wrong(said[-3000:])
            if fault.endswith(":0"):
                return False
            self.ends_well(code, out, said)
            if not fault.startswith("unlink"):
                self.left()
        except subprocess.TimeoutExpired as late:
            raise Wrong(f"hangs: {late}") from None
        return self.mark_file.exists()

    # ---- the loop ------------------------------------------------------------

    def count(self, kind):
        """Calls of @kind in the job, undisturbed."""
        self.point(f"{kind}:0")
        if not self.count_file.exists():
            return 0
        return max(map(int, self.count_file.read_text().split()))

    def ways(self, kind):
        """Each way to a call of @kind in the job, how often it is come at the
        least, since threads differ a little from job to job; and its near part.
        Its name has the depth of its stack, where that is always the same.
        """
        least, near, deep = {}, {}, {}
        for _ in range(2):
            self.point(f"{kind}:0")
            text = (self.chains_file.read_text()
                    if self.chains_file.exists() else "")
            most = {}  # of several processes
            for line in text.splitlines():
                chain, calls, near[chain], at = line.split()
                most[chain] = max(most.get(chain, 0), int(calls))
                if deep.setdefault(chain, at) != at:
                    deep[chain] = "0"
            for chain, calls in most.items():
                least[chain] = min(least.get(chain, calls), calls)
        return [(near[chain],
                 chain if deep[chain] == "0" else f"{chain}/{deep[chain]}",
                 least[chain]) for chain in sorted(least)]

    def try_point(self, kind, nth, mode, found):
        fault = f"{kind}:{nth}:{mode}"
        try:
            return self.point(fault)
        except Wrong as wrong:
            mark = self.mark_file.read_text() if self.mark_file.exists() else ""
            found.append(f"FAULT={fault} FAULT_ROLE={self.ROLE}: {wrong}\n"
                         f"{mark[:2500]}")
            print(f"FOUND {type(self).__name__} {found[-1]}", flush=True)
            return True

    def modes(self, kind):
        """What can never be removed is left."""
        return ["once"] if kind == "unlink" else ["once", "always"]

    def gate(self, found):
        """One point of each kind, the same in each build and on each day."""
        name = type(self).__name__
        self.assertIn(name, CALLS, "how often does it call what may fail?")
        draw = random.Random(f"{GATE} {name}")
        points = ONCE_FOUND.get(name, []) + [
            (kind, draw.randint(1, calls), draw.choice(self.modes(kind)))
            for kind, calls in CALLS[name].items()]
        reached = 0
        for point in points:
            begun = time.monotonic()
            hit = (self.try_point(*point, found) or
                   self.try_again(*point, found))
            reached += hit
            print(f"{name} {point}: {time.monotonic() - begun:.1f} s"
                  f"{'' if hit else ', never called so often'}")
        # Counts vary a little from job to job: one point may lie behind the
        # last call.
        self.assertGreaterEqual(reached, len(points) - 1)
        return reached

    def try_again(self, kind, nth, mode, found):
        """A point that was not come to, as far through the job as it is in
        CALLS. These were counted on one day, on a quiet machine. A busy one
        takes more of the snapshots that are due by the clock before the run is
        killed, or fewer after it: less is left to be done, or more."""
        calls = self.count(kind)
        nth = nth * calls // CALLS[type(self).__name__].get(kind, nth)
        return calls > 0 and self.try_point(kind, max(nth, 1), mode, found)

    def sample(self, found):
        draw = random.Random(f"{SEED} {type(self).__name__}")
        counts = {}
        end = time.monotonic() + SECONDS
        points = 0
        while time.monotonic() < end:
            kind = draw.choice(ONLY or self.KINDS)
            if kind not in counts:
                counts[kind] = self.count(kind)
            if not counts[kind]:
                continue
            # As many of the few that come late as of the many that come first.
            nth = draw.randint(1, counts[kind])
            self.try_point(kind, nth, draw.choice(self.modes(kind)), found)
            points += 1
        return points

    def each_call(self, kind, mode, found):
        """Lets each STEP-th call fail; the number of points."""
        nth, misses, points = FIRST, 0, 0
        # The number of calls varies a little from run to run.
        while misses < 3 and nth < 1000000:
            reached = self.try_point(kind, nth, mode, found)
            misses = 0 if reached else misses + 1
            points += reached
            nth += STEP or 1
        self.tell(f"{kind} {mode}", points, f"up to {nth}", found)
        return points

    def each_way(self, kind, ways, which, mode, news, found):
        """Lets the first or last call of each way fail that is new to the
        program's or the role's, or not done yet; the number of points."""
        name = type(self).__name__
        points = missed = 0
        for near, chain, calls in ways:
            if which == "last" and calls == 1:
                continue
            done = (kind, which, mode)
            plain = chain.partition("/")[0]
            marks = {"program": (*done, near), "role": (*done, name, near),
                     "all": (*done, name, plain)}
            if LEDGER.has(marks[news]):
                continue
            LEDGER.add(marks.values())
            nth = 1 if which == "first" else calls
            reached = (self.try_point(kind, f"{nth}@{chain}", mode, found) or
                       self.try_point(kind, f"{nth}@{plain}", mode, found))
            points += reached
            missed += not reached
        self.tell(f"{kind} {which} {mode}, new to {news}", points,
                  f"of {len(ways)} ways, {missed} not come again", found)
        return points

    def tell(self, what, points, of, found):
        print(f"{type(self).__name__} {what}: {points} points {of}, "
              f"{len(found)} found", flush=True)

    def whole(self, found):
        kinds = [kind for kind in ONLY or self.KINDS if kind in self.KINDS]
        by_way = [] if STEP else [k for k in ALLOCATIONS if k in kinds]
        points = sum(self.each_call(kind, mode, found)
                     for kind in kinds if kind not in by_way
                     for mode in self.modes(kind))
        ways = {kind: self.ways(kind) for kind in by_way}
        for news in NEWS:
            for each in PASSES:
                points += sum(self.each_way(kind, ways[kind], *each.split(":"),
                                            news, found) for kind in by_way)
        return points

    def loop(self):
        found = []
        points = (int(self.try_point(*POINT.split(":"), found)) if POINT else
                  self.whole(found) if LOOP else
                  self.sample(found) if SEED else self.gate(found))
        print(f"{type(self).__name__}: {points} points, {len(found)} found, "
              f"SEED={SEED}")
        self.assertGreater(points, 0)
        self.assertFalse(found, f"SEED={SEED}: " + "\n".join(found))


class RunTuner(Faults):
    """A run from its beginning."""
    ROLE = "run"

    def act(self, fault):
        done = self.plain("run", "config.json", **self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def test_calls_that_fail(self):
        self.loop()


class RunNode(RunTuner):
    ROLE = "node"


class ResumeTuner(Faults):
    """A run that was killed in its middle goes on."""
    ROLE = "resume"

    def prepare(self):
        """Kills a run in its middle, in a write."""
        writes = self.writes_of_a_run()
        process = subprocess.Popen(
            [MLTUNE, "run", "config.json", "-q"], cwd=self.work,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**self.env, **self.faulty(f"write:{writes * 2 // 3}:hang"),
                 "FAULT_ROLE": "run"})
        self.wait_until(self.mark_file.exists, "half of the run")
        process.kill()
        process.wait()
        self.mark_file.unlink()
        self.wait_until(lambda: not self.marked(), "the node to end")
        (self.run_id, _, _), = self.runs()

    def writes_of_a_run(self):
        self.plain("run", "config.json", "--state", "../counted",
                   **{**self.faulty("write:0"), "FAULT_ROLE": "run",
                      "FAULT_ROOT": str(self.folder)})
        text = self.count_file.read_text()
        self.count_file.unlink()
        return int(text.split()[0])

    def act(self, fault):
        done = self.plain("resume", self.run_id, **self.faulty(fault))
        return done.returncode, done.stdout, done.stderr

    def test_calls_that_fail(self):
        self.loop()


class ResumeNode(ResumeTuner):
    ROLE = "node"


class ServiceItself(Faults):
    """A service is given a run, trains it, and is asked to end."""
    ROLE = "serve"
    lasting = False  # the fault is there for ever
    listener = None  # to what the service says

    def act(self, fault):
        """What holds is asked here: an end of the service, whatever it is,
        leaves a state folder that the next one goes on from."""
        self.lasting = fault.endswith(":always")
        service, said = self.serve(self.faulty(fault))
        try:
            run = self.submit(service)
            if run:
                self.wait_for_end(service, run)
        finally:
            code = self.end_service(service)
        self.check_folders()
        said = said.read_text(errors="replace")
        if code != 128 + signal.SIGTERM:
            self.fail_if_aborted(code, said)
            if code >= 0 and not said.strip():
                raise Wrong(f"the service exits {code} without a word")
        self.goes_on_in_another(said)
        return 0, "", said

    def serve(self, variables):
        # By a pipe, since writes to files fail: its words are to be heard.
        said = self.folder / "service.said"
        with open(said, "wb") as file:
            self.listener = subprocess.Popen(
                ["cat"], stdin=subprocess.PIPE, stdout=file)
        service = subprocess.Popen(
            [MLTUNE, "serve", "--listen", "127.0.0.1:0"], cwd=self.work,
            stdin=subprocess.DEVNULL, stdout=self.listener.stdin,
            stderr=self.listener.stdin, env={**self.env, **variables})
        self.listener.stdin.close()
        return service, said

    def ask(self, method, target, body=None):
        """Status and JSON; (0, None) where nobody answers. @body is JSON, or
        bytes as they are."""
        try:
            url = (self.work / ".mltune/serve.url").read_text().strip()
            token = (self.work / ".mltune/token").read_text().strip()
            request = urllib.request.Request(
                url.rstrip("/") + target, method=method,
                data=body if body is None or isinstance(body, bytes) else
                json.dumps(body).encode(),
                headers={"Authorization": f"Bearer {token}",
                         "Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, None
        except (OSError, ValueError):
            return 0, None

    def submit(self, service, seconds=20):
        """The run's name; None where the service has ended, or says that its
        disk is full or its memory out."""
        begun = time.monotonic()
        end = begun + seconds
        while service.poll() is None:
            code, answer = self.ask("POST", "/api/v1/runs",
                                    self.config())
            if code == 201:
                return answer["run"]
            # Where its libraries get no memory any more, it cannot even say so.
            if code == 507 or (self.lasting and time.monotonic() > begun + 3):
                return None
            if time.monotonic() > end:
                raise Wrong(f"no run can be submitted: {code}")
            time.sleep(0.02)
        return None

    def wait_for_end(self, service, run, seconds=DEADLINE_S):
        """Until the run is over, or the service, or it cannot answer."""
        begun = time.monotonic()
        end = begun + seconds
        while service.poll() is None:
            code, now = self.ask("GET", f"/api/v1/runs/{run}")
            if code == 200 and (now["status"] in
                                ("finished", "failed", "held")):
                return
            if code == 0 and self.lasting and time.monotonic() > begun + 3:
                return
            if (self.lasting and time.monotonic() > begun + 10 and
                    self.cannot_begin(run, code, now)):
                return
            if time.monotonic() > end:
                raise Wrong(f"the run does not end: {code} {now}")
            time.sleep(0.02)

    def cannot_begin(self, run, code, now):
        """Whether the run waits for what may never come, and it is said why. Of
        one that cannot even be read the list says it."""
        if code == 503:
            code, listed = self.ask("GET", "/api/v1/runs")
            now = next((r for r in (listed or {}).get("runs", [])
                        if r["run"] == run), None)
        return (code == 200 and now and now["status"] == "queued" and
                now["status_reason"])

    def end_service(self, service):
        if service.poll() is None:
            service.terminate()
        try:
            return service.wait(timeout=15)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()
            raise Wrong("the service does not end") from None
        finally:
            self.listener.wait(timeout=15)

    def goes_on_in_another(self, said):
        """The run, or where there is none a new one, ends as it should in a
        service without faults."""
        self.lasting = False
        service, _ = self.serve({})
        try:
            runs = self.runs()
            names = [run for run, _, _ in runs] or [self.submit(service)]
            for run in names:
                self.end_in(service, run, said)
        finally:
            self.end_service(service)

    def continue_held(self, service, run):
        """A service that has tried three times in vain, as where its tuner never
        had memory, holds the run until somebody says that it may go on."""
        self.ask("POST", f"/api/v1/runs/{run}:continue", {})
        end = time.monotonic() + 20
        while (self.ask("GET", f"/api/v1/runs/{run}")[1] or
               {}).get("status") == "held":
            if service.poll() is not None or time.monotonic() > end:
                raise Wrong("a run that was held does not go on")
            time.sleep(0.02)
        self.wait_for_end(service, run)

    def end_in(self, service, run, said):
        code, now = 0, None
        end = time.monotonic() + 20
        while code != 200 and time.monotonic() < end:
            code, now = self.ask("GET", f"/api/v1/runs/{run}")
        self.wait_for_end(service, run)
        code, now = self.ask("GET", f"/api/v1/runs/{run}")
        if code == 200 and now["status"] == "held":
            self.continue_held(service, run)
            code, now = self.ask("GET", f"/api/v1/runs/{run}")
        if code != 200 or outcome(now) != self.expected:
            raise Wrong(f"in the next service: {code} {now}, expected "
                        f"{self.expected}; before: {said[-500:]}")

    def ends_well(self, code, out, said):
        """Asked in act."""

    def test_calls_that_fail(self):
        self.loop()


class ServiceTuner(ServiceItself):
    ROLE = "resume"
