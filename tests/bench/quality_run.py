"""One run of the program for quality.py: its CPU seconds, its course, its quality
on data held back; and an Optuna study that drives such runs one by one.

CPU seconds are those of the process and all that it started. A thread notes them
against the clock while it runs, so a point of the run's record (which has the
clock's time) has the CPU seconds that were used by then.
"""
import bisect
import datetime
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
EVERY = 0.02     # seconds between two looks at the CPU time
DEADLINE = 1800  # seconds of the clock: a run that takes longer is a fault
EPOCH = re.compile(r"^\s*[\d.]+ m?s\s+epoch (\d+): loss (\S+) \S+ ([^\s,]+),")


class Fault(Exception):
    """A run that did not end as it should."""


def used(pid):
    """CPU seconds of a process, of those it waited for, and of those it has."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        total = sum(int(x) for x in fields.split()[11:15]) / TICK
        for children in glob.glob(f"/proc/{pid}/task/*/children"):
            for child in pathlib.Path(children).read_text().split():
                total += used(child)
        return total
    except OSError:  # it has ended meanwhile
        return 0.0


class Meter(threading.Thread):
    """CPU seconds of a tree of processes against the clock."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.over = pid, threading.Event()
        self.at, self.cpu = [time.time()], [0.0]
        self.start()

    def run(self):
        while not self.over.wait(EVERY):
            self.note(used(self.pid))

    def note(self, seconds):
        self.at.append(time.time())
        self.cpu.append(max(seconds, self.cpu[-1]))

    def close(self):
        self.over.set()
        self.join()

    def when(self, moment):
        """CPU seconds used at a moment of the clock."""
        i = bisect.bisect_right(self.at, moment)
        if i == 0 or i == len(self.at):
            return self.cpu[min(i, len(self.at) - 1)]
        share = (moment - self.at[i - 1]) / (self.at[i] - self.at[i - 1])
        return self.cpu[i - 1] + share * (self.cpu[i] - self.cpu[i - 1])


def better(a, b, higher):
    return b is None or (a > b if higher else a < b)


def improvements(points, higher):
    """Of (seconds, metric) those that are better than all before."""
    out, best = [], None
    for seconds, metric in sorted(points):
        if better(metric, best, higher):
            best = metric
            out.append([round(seconds, 3), metric])
    return out


def wait(process, seconds):
    """Waits for it: exit status and CPU seconds of its tree."""
    end = time.monotonic() + seconds
    while True:
        pid, status, r = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, r.ru_utime + r.ru_stime
        if time.monotonic() > end:
            process.kill()
            end = time.monotonic() + 60
        time.sleep(0.005)


def tool(args, *words):
    done = subprocess.run([args.mltune, *words], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Fault(f"mltune {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1]
                      if words[0] == "run" else done.stdout)


def seconds_of(text):
    return datetime.datetime.fromisoformat(
        text.replace("Z", "+00:00")).timestamp()


def run(args, config, seed, held, folder, watch=None, settings=()):
    """One run in `folder`, which it leaves: a row of figures.

    `watch(epoch, metric)` is called at each epoch; where it says so, the run is
    given up, and the row has no quality."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path, state = folder / "config.json", folder / "state"
    path.write_text(json.dumps(config))
    with open(folder / "out", "w") as out, open(folder / "err", "w+") as err:
        process = subprocess.Popen(
            [args.mltune, "run", str(path), "--json", "--seed", str(seed),
             "--state", str(state), *(["-v"] if watch else []),
             *(w for s in settings for w in ("--set", s))],
            stdout=out, stderr=subprocess.PIPE if watch else err, text=True)
        meter, given_up = Meter(process.pid), False
        for line in process.stderr if watch else []:
            m = EPOCH.match(line)
            if m and watch(int(m.group(1)), float(m.group(3))):
                given_up = True
                meter.note(used(process.pid))
                process.send_signal(signal.SIGKILL)
                break
        code, cpu = wait(process, DEADLINE)
        meter.close()
        if given_up:
            # What a killed process has not waited for is in no rusage.
            process.stderr.close()
            return {"cpu_s": max(cpu, meter.cpu[-1]), "given_up": True}
        if code != 0:
            err.seek(0)
            raise Fault(f"run in {folder}: exit {code}: {err.read()[-500:]}")
    meter.note(cpu)
    result = json.loads((folder / "out").read_text().strip().splitlines()[-1])
    shown = tool(args, "show", result["run"], "--state", str(state), "--json")
    higher = shown["job"]["metric"]["higher_is_better"]
    points = [(meter.when(seconds_of(e["ended_at"])), e["metric"])
              for e in shown["epoch_list"] if e["metric"] is not None]
    model = next((state / "runs").glob("*/model"))
    return {
        "cpu_s": cpu, "higher": higher, "metric": result["best"]["metric"],
        "held": tool(args, "eval", str(model), str(held), "--json")["metric"],
        "validation": shown["job"]["validation_samples"],
        "course": improvements(points, higher), "epochs": result["epochs"],
        "trials": result["tuning"]["trials"],
        "searches": result["tuning"]["searches"],
        "tuning": round(result["tuning"]["seconds"]
                        / max(result["seconds"], 1e-9), 3),
        "reason": result["reason"], "setting": result["best"]["setting"]}


def suggest(trial, tunables):
    """A setting of the configuration's own space."""
    out = {}
    for name, t in tunables.items():
        if "values" in t:
            out[name] = trial.suggest_categorical(name, t["values"])
        else:
            out[name] = trial.suggest_float(name, t["min"], t["max"],
                                            log=t.get("scale") == "log")
    return out


def pinned(config, setting, schedule=None):
    """The configuration, trained plainly at a setting."""
    c = json.loads(json.dumps(config))
    c["tuner"] = {"strategy": "fixed", "initial": setting} if setting else \
        {"strategy": "fixed"}
    if schedule:
        c["tuner"]["strategy_settings"] = schedule
    return c


def optuna(args, config, seed, held, folder, trials):
    """A study of `trials` runs: TPE with the median pruner, each run a process."""
    import optuna as library
    library.logging.set_verbosity(library.logging.CRITICAL)
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "config.json"
    whole.write_text(json.dumps(config))
    space = tool(args, "run", str(whole), "--dry-run", "--json")["tunables"]
    higher = tool_higher(config)
    study = library.create_study(
        direction="maximize" if higher else "minimize",
        sampler=library.samplers.TPESampler(seed=seed),
        pruner=library.pruners.MedianPruner())
    best, points, spent, given_up = None, [], 0.0, 0
    for _ in range(trials):
        trial = study.ask()
        setting = suggest(trial, space)

        def watch(epoch, metric, trial=trial):
            trial.report(metric, epoch)
            return trial.should_prune()

        try:
            row = run(args, pinned(config, setting), seed, held, folder / "run",
                      watch)
        except Fault:  # a setting that diverges fails the run
            study.tell(trial, state=library.trial.TrialState.FAIL)
            continue
        finally:
            shutil.rmtree(folder / "run", ignore_errors=True)
        if row.get("given_up"):
            given_up += 1
            study.tell(trial, state=library.trial.TrialState.PRUNED)
        else:
            study.tell(trial, row["metric"])
            points += [(spent + s, m) for s, m in row["course"]]
            if better(row["metric"], best and best["metric"], higher):
                best = {**row, "setting": setting}
        spent += row["cpu_s"]
    if best is None:
        raise Fault("no trial of the study ended")
    return {**best, "cpu_s": spent, "course": improvements(points, higher),
            "trials": trials, "searches": 1, "tuning": 1.0,
            "reason": f"{given_up} pruned"}


def tool_higher(config):
    """Whether the application's metric is better where it is larger."""
    app = config["app"]
    return app["name"] in ("mlr", "nn") and app.get("loss") != "squared"
