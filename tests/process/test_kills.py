"""Killed: whoever of a run is ended by SIGKILL, and wherever, it goes on to the
end that it would have had, to the bit.

A case is a job and what befalls it: an application on one to three nodes with a
strategy, begun by `mltune run` or handed to a service; and up to three kills, one
after another, of a tuner, a node, a program, a resume or a service. Each comes at
a system call (tests/faults/shim.c ends the process before its N-th) or at a
moment. Then it is resumed until it has finished.

Case I of seed SEED is always the same: FIRST=I KILLS=1 repeats it. CELLS='mf pbt'
takes cells with one of these words alone, and other cases. The gate takes
the first few; `make kill-test KILLS=n SEED=s` takes cases until n kills were made.
It says how many of which kind, and how long a resume took to its first slice: more
than is promised is a failure there.
"""
import collections
import http.client
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

from harness import BUILD, MLTUNE, Case
from test_resume import Journal

KILLS = int(os.environ.get("KILLS", 0))
SEED = int(os.environ.get("SEED", 1))
FIRST = int(os.environ.get("FIRST", 0))
CASES = 6  # of the gate, where no number of kills is asked for
GO_ON_S = 5  # what a user is promised, on a quiet machine
STRICT = "MLTUNE_STRICT" in os.environ
SHIM = BUILD / "tests/faults/shim.so"
PROGRAM = pathlib.Path(__file__).parent / "programs/softmax.py"
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")

APPS = {
    "mlr": {"name": "mlr", "data": "gen:digits?samples=600&size=8"},
    "mf": {"name": "mf", "rank": 4, "clock": 10, "test_fraction": 0.1,
           "data": "gen:ratings?users=120&items=80&ratings=3000&rank=3"},
    "nn": {"name": "nn", "preset": "mlp",
           "data": "gen:digits?samples=300&size=8"},
    "lda": {"name": "lda", "topics": 4, "clock": 5,
            "data": "gen:bow?docs=60&words=80&topics=3"},
    "glm": {"name": "glm",
            "data": "gen:libsvm?samples=600&columns=60&entries=8"},
    "saga": {"name": "glm", "solver": "saga", "clock": 10, "lambda": 1e-4,
             "data": "gen:libsvm?samples=600&columns=60&entries=8"},
    "svrg": {"name": "glm", "solver": "svrg", "clock": 10, "lambda": 1e-4,
             "data": "gen:libsvm?samples=600&columns=60&entries=8"},
    "local": {"name": "glm", "solver": "local", "clock": 10, "lambda": 1e-4,
              "data": "gen:libsvm?samples=600&columns=60&entries=8"},
    "word2vec": {"name": "word2vec", "size": 8, "window": 2, "clock": 10,
                 "data": "gen:text?tokens=6000&rows=4&columns=4"},
    "pagerank": {"name": "pagerank", "tolerance": 0,
                 "data": "gen:edges?nodes=600&edges=4000"},
    "program": {"command": [PYTHON, str(PROGRAM)]},
}
CONTESTS = "hyperband", "asha", "complete", "tupaq", "pbt"
AGAIN = "re-tuned"  # mltuner, which tunes again at a plateau
STRATEGIES = "mltuner", AGAIN, *CONTESTS
CELLS = [(app, nodes, strategy) for app in APPS for nodes in (1, 2, 3)
         # There is nothing to be tuned in ranks of a graph.
         for strategy in (STRATEGIES if app != "pagerank" else ["fixed"])]
ONLY = os.environ.get("CELLS", "").split()
CELLS = [cell for cell in CELLS
         if not ONLY or {*map(str, cell)}.intersection(ONLY)]

# Of files and folders, messages, processes; and about how many of them a short
# run makes, as a power of ten.
CALLS = {"write": 2.3, "sync": 1.7, "rename": 1.2, "mkdir": 1, "open": 2,
         "unlink": 1.4, "truncate": 0.7, "send": 2.3, "spawn": 0.5}
MEMBERS = "status", "reason", "best", "epochs", "loss", "metric", "setting"
# A node that is killed while it stops ends badly, and that is all.
FAULTS = "Sanitizer", "runtime error:", "Assertion"

Kill = collections.namedtuple("Kill", "role call number moment")


def config(app, nodes, strategy):
    if app == "pagerank":
        return {"name": "killed", "app": APPS[app],
                "cluster": {"nodes": nodes, "workers": 2 if nodes == 1 else 1},
                "stop": {"max_epochs": 300}, "snapshot": {"every": 0.1},
                "seed": 3}
    tuner = {"searcher": "random", "max_trials": 6}
    if strategy in ("mltuner", AGAIN):
        tuner.update(trial_clocks=20, retune=strategy == AGAIN)
    else:
        tuner["strategy"] = strategy
    if strategy == "hyperband":
        tuner["strategy_settings"] = {"max_resource": 3}
    return {"name": "killed", "app": APPS[app],
            "cluster": {"nodes": nodes} if app == "program" else
            {"nodes": nodes, "workers": 2 if nodes == 1 else 1},
            "tunables": {"learning_rate": {
                "type": "float", "min": 1e-3, "max": 0.1, "scale": "log",
                "default": 0.01}},
            "tuner": tuner,
            "stop": {"max_epochs": 12,
                     "plateau_epochs": 3 if strategy == AGAIN else 1000},
            "snapshot": {"every": 0.1}, "seed": 3}


def draw_case(number):
    """Cell, whether a service does it, and the kills."""
    rng = random.Random(f"{SEED} {number}")
    order = random.Random(SEED).sample(range(len(CELLS)), len(CELLS))
    app, nodes, strategy = CELLS[order[number % len(CELLS)]]
    service = rng.random() < 0.25
    kills = []
    for _ in range(rng.choice((1, 2, 3))):
        roles = ["tuner", "tuner", "node", "node", "all"]
        if service:
            roles += ["serve", "serve"]
        role = rng.choice(roles)
        at_call = rng.random() < 0.75 and role != "all"
        call = rng.choice(list(CALLS))
        kills.append(Kill(role, call if at_call else None,
                          int(10 ** rng.uniform(0, CALLS[call])),
                          rng.choice((0.02, 0.2, 0.5)) * rng.uniform(0.5, 1.5)))
    return (app, nodes, strategy), service, kills


def sockets(folder, names):
    return [n for n in names if pathlib.Path(folder, n).is_socket()]


class Wrong(Exception):
    """The promise is not kept in this case."""


class Job:
    """One run in a folder of its own, however often it is begun."""

    def __init__(self, case, name, cell):
        self.case, self.cell = case, cell
        self.folder = case.folder / name
        self.folder.mkdir()
        self.state = self.folder / "state"
        self.env = {**case.env, "XDG_RUNTIME_DIR": str(self.folder / "own")}
        (self.folder / "own").mkdir(mode=0o700)
        (self.folder / "config.json").write_text(json.dumps(config(*cell)))
        self.mark = case.folder / f"{name}.mark"
        self.killed = collections.Counter()
        self.begun = []  # wall times

    def start(self, *words, kill=None):
        env = dict(self.env)
        if kill and kill.call:
            env.update(self.at_call(kill, words[0]))
        self.begun.append(time.time())
        with open(self.folder / "said", "ab") as said:
            return subprocess.Popen(
                [MLTUNE, *map(str, words)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=said, text=True, env=env,
                cwd=self.folder)

    def at_call(self, kill, verb):
        role = {"tuner": "resume" if verb == "serve" else verb,
                "node": PROGRAM.stem if self.cell[0] == "program" else "node",
                "serve": verb}[kill.role]
        # A preloaded library comes before the sanitizer's.
        asan = self.env.get("ASAN_OPTIONS", "")
        return {"LD_PRELOAD": str(SHIM), "FAULT_ROLE": role,
                "FAULT": f"{kill.call}:{kill.number}:kill",
                "FAULT_ROOT": str(self.folder), "FAULT_MARK": str(self.mark),
                "ASAN_OPTIONS": f"{asan}:verify_asan_link_order=0"}

    def finish(self, process, seconds=90):
        out, _ = process.communicate(timeout=seconds)
        return process.returncode, out

    def ask(self, *words):
        process = self.start(*words, "--json", "--state", self.state)
        self.begun.pop()
        code, out = self.finish(process)
        if code:
            raise Wrong(f"{words} exits {code}: {self.said()}")
        return json.loads(out.strip().splitlines()[-1])

    def said(self):
        return (self.folder / "said").read_text(errors="replace")[-1500:]

    # ---- who is to be killed ----------------------------------------------

    def processes(self, role):
        """Pids by what they are; a program's process counts as a node."""
        found = []
        for pid in self.case.marked():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                here = os.readlink(f"/proc/{pid}/cwd")
            except OSError:
                continue
            words = words.split(b"\0")
            verb = words[1].decode(errors="replace") if words[1:] else ""
            is_ours = os.path.basename(words[0]) == b"mltune"
            what = {"run": "tuner", "resume": "tuner", "serve": "serve",
                    "node": "node"}.get(verb) if is_ours else "node"
            if here.startswith(str(self.folder)) and role in (what, "all"):
                found.append(pid)
        return found

    def kill_at_moment(self, process, kill):
        end = time.monotonic() + kill.moment
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.005)
        pids = self.processes(kill.role)
        if kill.role == "node":
            pids = pids[kill.number % len(pids):][:1] if pids else []
        if process.poll() is None and pids:
            self.killed[kill.role, "moment"] += 1
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def count_calls(self, kill):
        if kill and kill.call and self.mark.exists():
            self.killed[kill.role, kill.call] += 1
            self.mark.unlink()

    # ---- until it has finished --------------------------------------------

    def run_id(self):
        if not (self.state / "mltune.db").exists():
            return None
        runs = self.ask("ls")
        return runs[0]["run"] if runs else None

    def result(self):
        """Of a run that has finished; else None."""
        run = self.run_id()
        shown = run and self.ask("show", run)
        return shown if shown and shown["status"] == "finished" else None

    def begin(self, kill=None):
        """Runs, or resumes; under one kill. Its result, if it finishes."""
        run = self.run_id()
        words = ["resume", run] if run else ["run", "config.json"]
        process = self.start(*words, "--json", "-q", "--state", self.state,
                             kill=kill)
        if kill and not kill.call:
            self.kill_at_moment(process, kill)
        code, out = self.finish(process)
        self.count_calls(kill)
        if code == 0:
            return json.loads(out.strip().splitlines()[-1])
        if code not in (-signal.SIGKILL, 74, 75) or not kill:
            raise Wrong(f"{words[0]} exits {code}: {self.said()}")
        return self.result()

    def go(self, kills):
        for kill in [*kills, None]:
            result = self.begin(kill)
            if result:
                return result
        raise Wrong("not finished")  # begin() without a kill says more

    # ---- the same in a service --------------------------------------------

    def request(self, method, target, body=None):
        """Status and answer; (0, None) where nobody answers."""
        try:
            url = (self.state / "serve.url").read_text().strip()
            token = (self.state / "token").read_text().strip()
            host = url.split("//")[1].rstrip("/")
            connection = http.client.HTTPConnection(host, timeout=10)
            connection.request(method, target, body and json.dumps(body), {
                "Authorization": f"Bearer {token}", "Idempotency-Key": "one",
                "Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read()
            connection.close()
            return reply.status, json.loads(text)
        except (OSError, ValueError, http.client.HTTPException):
            return 0, None

    def is_over(self, run):
        """In the service; a run that it holds is told to go on."""
        if not run:
            code, now = self.request("POST", "/api/v1/runs",
                                     config(*self.cell))
            if code not in (0, 201, 503):
                raise Wrong(f"submitted: {code} {now}")
            return now["run"] if code == 201 else None, False
        code, now = self.request("GET", f"/api/v1/runs/{run}")
        if code == 200 and now["status"] == "held":
            self.request("POST", f"/api/v1/runs/{run}:continue", {})
        return run, code == 200 and now["status"] in ("finished", "failed")

    def serve(self, kill=None):
        """A service under one kill, until the run is over or it is dead."""
        (self.state / "serve.url").unlink(missing_ok=True)
        # What a service starts is seen by the folder that it runs in.
        allow = ["--allow-programs"] if self.cell[0] == "program" else []
        process = self.start("serve", "--listen", "127.0.0.1:0",
                             "--workers", "4", "--data",
                             self.folder, *allow, "--state", self.state,
                             kill=kill)
        if kill and not kill.call:
            self.kill_at_moment(process, kill)
        run, over, end = None, False, time.monotonic() + 90
        while process.poll() is None and not over:
            run, over = self.is_over(run)
            if time.monotonic() > end:
                raise Wrong(f"the run in the service does not end: "
                            f"{self.request('GET', f'/api/v1/runs/{run}')}")
            time.sleep(0.02)
        if process.poll() is None:
            process.terminate()
        code, _ = self.finish(process, 30)
        self.count_calls(kill)
        if code not in (128 + signal.SIGTERM, -signal.SIGKILL):
            raise Wrong(f"the service exits {code}: {self.said()}")
        end = time.monotonic() + 20  # of what a killed service has left
        while self.processes("all") and time.monotonic() < end:
            time.sleep(0.01)
        return self.result()

    def go_in_service(self, kills):
        for kill in [*kills, None]:
            result = self.serve(kill)
            if result:
                return result
        raise Wrong(f"not finished in the last service: {self.said()}")

    # ---- what is left -----------------------------------------------------

    def files_left(self):
        found = [str(p.relative_to(self.folder))
                 for p in self.folder.rglob("*")
                 if ".tmp" in p.name or p.is_socket()]
        found += [f"own/{p.name}" for p in (self.folder / "own").iterdir()]
        return found

    def model(self, result):
        """What must be the same, file by file."""
        files = {}
        for path in sorted(pathlib.Path(result["model"]).rglob("*")):
            if path.is_file():
                files[path.name] = path.read_bytes()
        said = json.loads(files.pop("model.json"))
        for name in "run", "folder", "seconds":
            said.pop(name, None)
        return {**files, "model.json": said}

    def times_to_go_on(self, journal):
        """From the start of a command to its first slice's end, seconds."""
        times, resumed = [], None
        for r in journal.records:
            if r["kind"] == "run_resumed":
                resumed = r
            elif r["kind"] == "slice_ended" and resumed:
                at = resumed["unix_s"] + r["at_s"] - resumed["at_s"]
                before = [b for b in self.begun if b <= resumed["unix_s"]]
                if before and before[-1] != self.begun[0]:
                    times.append(at - before[-1])
                resumed = None
        return times


class Killed(Case):
    def setUp(self):
        super().setUp()
        self.whole = {}  # by cell: result and model of the undisturbed run

    def undisturbed(self, cell):
        if cell not in self.whole:
            job = Job(self, "whole", cell)
            result = job.go([])
            self.whole[cell] = result, job.model(result)
            shutil.rmtree(job.folder)
        return self.whole[cell]

    # ---- what must hold ---------------------------------------------------

    def check_journal(self, journal, contest):
        if journal.seq != list(range(1, len(journal.seq) + 1)):
            raise Wrong("the journal has holes")
        free = 0
        for r in journal.of("slice_scheduled"):
            if r["first"] < free:
                raise Wrong("a clock belongs to two branches")
            free = r["first"] + r["count"]
        trials = [r["trial"] for r in journal.of("trial_started")]
        if trials != list(range(1, len(trials) + 1)):
            raise Wrong(f"a trial is lost or begun twice: {trials}")
        ended = [r["trial"] for r in journal.of("trial_ended")
                 if not r["incumbent"] and r["label"] != "interrupted"]
        if len(ended) != len(set(ended)) and not contest:
            raise Wrong(f"a finished trial is run again: {ended}")

    def check_result(self, job, result):
        whole, model = self.undisturbed(job.cell)
        for name in MEMBERS:
            if result[name] != whole[name]:
                raise Wrong(f"{name}: {result[name]}, undisturbed "
                            f"{whole[name]}")
        mine = job.model(result)
        for name in {*mine, *model}:
            if mine.get(name) != model.get(name):
                raise Wrong(f"{name} of the model is another: "
                            f"{str(mine.get(name))[:300]}; undisturbed "
                            f"{str(model.get(name))[:300]}")

    def check_left(self, job, result, service):
        end = time.monotonic() + 20
        while job.processes("all") and time.monotonic() < end:
            time.sleep(0.01)
        if job.processes("all"):
            raise Wrong("processes are left")
        if job.files_left() and service:  # killed in its very last step
            job.serve()
        elif job.files_left():
            job.finish(job.start("resume", result["run"], "--state",
                                 job.state))
        if job.files_left():
            raise Wrong(f"files are left: {job.files_left()}")
        kept = os.listdir(job.state / "runs" / result["run"] / "snapshots")
        if len([n for n in kept if n.isdigit()]) > 2:
            raise Wrong(f"snapshots are left: {kept}")
        for path in [job.folder / "said", *job.state.rglob("*log")]:
            text = path.read_text(errors="replace") if path.is_file() else ""
            for word in FAULTS:
                if word in text:
                    raise Wrong(f"{path.name}: {text[-3000:]}")

    # ---- the loop ---------------------------------------------------------

    @staticmethod
    def keep(job):
        if os.environ.get("KEEP"):
            print("kept", shutil.copytree(
                job.folder, os.path.join(os.environ["KEEP"], job.folder.name),
                ignore=sockets))

    def try_case(self, number, sums):
        cell, service, kills = draw_case(number)
        job = Job(self, f"case{number}", cell)
        try:
            result = job.go_in_service(kills) if service else job.go(kills)
            journal = Journal(job.state, result["run"])
            self.check_journal(journal, cell[2] in CONTESTS)
            self.check_result(job, result)
            self.check_left(job, result, service)
            times = job.times_to_go_on(journal)
            sums["times"] += times
            if any(t > GO_ON_S for t in times):
                print(f"SLOW FIRST={number} SEED={SEED} {cell} {kills} {times}",
                      flush=True)
                self.keep(job)
        except (Wrong, subprocess.TimeoutExpired) as wrong:
            mark = job.mark.read_text() if job.mark.exists() else ""
            sums["found"].append(
                f"FIRST={number} SEED={SEED} {cell} "
                f"{'service' if service else 'command'} {kills}: {wrong}\n"
                f"{mark[:1500]}")
            print("FOUND", sums["found"][-1], flush=True)
            self.end_all()
            self.keep(job)
        for (role, how), n in job.killed.items():
            sums["role", "service: " + role if service else role] += n
            sums["at", how] += n
            for what, value in zip(("app", "nodes", "strategy"), cell):
                sums[what, value] += n
            sums["kills"] += n
        shutil.rmtree(job.folder, ignore_errors=True)

    def test_whoever_is_killed_wherever(self):
        """The undisturbed result, no epoch too many, nothing left."""
        sums = collections.Counter()
        sums["found"], sums["times"] = [], []
        cases = 0
        end = time.monotonic() + float(os.environ.get("KILL_SECONDS", 1e9))
        for number in itertools.count(FIRST):
            if sums["kills"] >= KILLS if KILLS else cases == CASES:
                break
            if time.monotonic() > end:
                break
            self.try_case(number, sums)
            cases += 1
        self.report(sums, cases)
        self.assertEqual(sums["found"], [], "\n".join(sums["found"]))
        if STRICT:
            self.assertEqual([t for t in sums["times"] if t > GO_ON_S], [],
                             "seconds to the first slice")

    def report(self, sums, cases):
        times = sorted(sums["times"])
        print(f"kills={sums['kills']} cases={cases} SEED={SEED} FIRST={FIRST} "
              f"found={len(sums['found'])}")
        for of in "role", "at", "app", "nodes", "strategy":
            print(f"  {of}:", ", ".join(
                f"{key[1]} {n}" for key, n in sorted(sums.items(), key=str)
                if isinstance(key, tuple) and key[0] == of))
        if times:
            print(f"  a resume's first slice after {times[len(times) // 2]:.2f}"
                  f" s (median of {len(times)}), {times[-1]:.2f} s (longest); "
                  f"{sum(t > GO_ON_S for t in times)} above {GO_ON_S} s",
                  flush=True)
