#!/usr/bin/env python3
"""Does tuning end where a careful expert does, and at what cost? 20 jobs on real data.

    quality.py [JOB ...] [--seeds 1,2] [--what mltuner,hand,...] [--csv FILE]
               [--data DIR] [--work DIR] [--table] [--keep]

What is run, of each job and seed:

hand       schedules by hand: cosine, and a tenth after each third of the epochs.
           The rate of each is the best of a small grid (of the first seed)
fixed      a grid of fixed settings, all of it with the first seed, with others
           the best two: in quality, and in time to the hand's quality
mltuner, hyperband, asha, pbt, complete    the strategies, with their defaults
           (hyperband: the finite horizon, R = 27)
optuna     Optuna's TPE with its median pruner, which runs the program once a trial
sklearn    tables of numbers: scikit-learn's MLPRegressor with its early stopping,
           inputs and target standardised

All have the same number of epochs at most (`stop.max_epochs`). Quality is that of
the saved model on data that no run has seen (`mltune eval`). Time is CPU seconds
of the whole tree of processes.

One line a run, `quality key=value ... value unit`; each is appended to the CSV file
as it ends, and what stands there is not run again: a strategy's with the same
`--set`. Rows of another commit count, and are told. `--table` runs nothing and prints
the tables of docs/results.md, of strategies with this `--set`. Exit code 1: a job was
skipped or broke off.
"""
import argparse
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import quality_jobs
import quality_run
import quality_table
import tables

STRATEGIES = {
    "mltuner": {"strategy": "mltuner"},
    "hyperband": {"strategy": "hyperband", "strategy_settings": {
        "horizon": "finite", "max_resource": 27}},
    "asha": {"strategy": "asha"},
    "pbt": {"strategy": "pbt"},
    "complete": {"strategy": "complete"},
}
WHAT = ["hand", "fixed", *STRATEGIES, "optuna", "sklearn"]
TRIALS, TRIALS_FEW = 20, 8  # of a study; where there are four settings in all
COLUMNS = ["job", "seed", "what", "start", "metric", "held", "higher", "cpu_s",
           "validation", "epochs", "trials", "searches", "tuning", "reason",
           "setting", "course", "commit", "at"]


class Book:
    """The CSV file: what was run, and what is added."""

    def __init__(self, path):
        self.path, self.lock, self.rows = path, threading.Lock(), []
        if path.exists():
            with open(path, newline="") as f:
                self.rows = [quality_table.row(r) for r in csv.DictReader(f)]

    def find(self, job, what, seed=None, start=None):
        with self.lock:
            return [r for r in self.rows if r["job"] == job
                    and r["what"] == what and seed in (None, r["seed"])
                    and start in (None, r["start"])]

    def tables(self, names, settings):
        """What is printed: of strategies the rows with these settings."""
        rows = [r for r in self.rows if r["job"] in names and
                (r["what"] not in STRATEGIES or r["start"] == settings)]
        commits = {}
        for r in rows:
            c = r["commit"] or "an unknown one"
            commits[c] = commits.get(c, 0) + 1
        return "\n".join([
            quality_table.tables(rows, names), "", "* Rows by commit: " +
            ", ".join(f"{n} of {c}" for c, n in sorted(commits.items())) + "."])

    def add(self, row):
        with self.lock:
            fresh = not self.path.exists()
            with open(self.path, "a", newline="") as f:
                w = csv.DictWriter(f, COLUMNS)
                if fresh:
                    w.writeheader()
                w.writerow({k: json.dumps(v) if k in ("setting", "course")
                            else v for k, v in row.items()})
            self.rows.append(row)


class Bench:
    """One job."""

    def __init__(self, args, book, name, job):
        self.args, self.book, self.name, self.job = args, book, name, job
        self.folder = quality_jobs.prepare(name, job, args.data, args.work)
        self.config = job.config(self.folder)
        self.held = self.folder / job.held

    def done(self, what, seed, start, function):
        """Runs it unless the book has it; the row."""
        old = self.book.find(self.name, what, seed, start)
        if old:
            return old[0]
        folder = self.args.work / "runs" / f"{self.name}-{what}-{seed}"
        try:
            got = function(folder)
        except quality_run.Fault as e:
            print(f"quality job={self.name} what={what} seed={seed} "
                  f"start={start}: {e}", file=sys.stderr, flush=True)
            got = {"cpu_s": 0, "reason": "failed", "course": []}
        if not (self.args.keep and what in STRATEGIES):
            shutil.rmtree(folder, ignore_errors=True)
        row = {**{k: None for k in COLUMNS}, **got, "job": self.name,
               "seed": seed, "what": what, "start": start,
               "commit": self.args.commit,
               "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        self.book.add(row)
        value = "failed" if row["held"] is None else f"{row['held']:.5g} metric"
        print(f"quality job={self.name} what={what} seed={seed} start={start} "
              f"seconds={row['cpu_s']:.2f} epochs={row['epochs']} "
              f"trials={row['trials']} reason={row['reason']} {value}"
              .replace("=None", "=-"), flush=True)
        return row

    def plain(self, what, seed, setting, schedule=None):
        config = quality_run.pinned(self.config, setting, schedule)
        # To the last epoch: a schedule's end is what it is for.
        config["stop"]["plateau_epochs"] = 1000
        return self.done(
            what, seed, json.dumps(setting, sort_keys=True),
            lambda folder: quality_run.run(self.args, config, seed, self.held,
                                           folder))

    def hand(self, seed):
        third = -(-self.job.epochs // 3)
        for what, schedule in ((
                "cosine", {"schedule": "cosine"}),
                ("step", {"schedule": "step", "gamma": 0.1, "every": third})):
            if not self.job.rates:  # no rate, no schedule
                if what == "cosine":
                    self.plain(what, seed, {})
                continue
            first = [self.plain(what, 1, s, schedule) for s in self.job.hand()]
            best = quality_table.best(first)
            if best is not None:
                self.plain(what, seed, json.loads(best["start"]), schedule)

    def fixed(self, seed):
        first = [self.plain("fixed", 1, s) for s in self.job.fixed()]
        if seed == 1:
            return
        self.hand(1)
        quickest = quality_table.quickest(self.book.rows, self.name, 1)
        for row in (quality_table.best(first), quickest):
            if row is not None:
                self.plain("fixed", seed, json.loads(row["start"]))

    def strategy(self, what, seed):
        config = {**self.config, "tuner": STRATEGIES[what]}
        self.done(what, seed, " ".join(self.args.set), lambda folder:
                  quality_run.run(self.args, config, seed, self.held, folder,
                                  settings=self.args.set))

    def optuna(self, seed):
        few = not self.job.rates
        self.done("optuna", seed, "", lambda folder: quality_run.optuna(
            self.args, self.config, seed, self.held, folder,
            TRIALS_FEW if few else TRIALS))

    def sklearn(self, seed):
        if self.job.app.get("loss") != "squared":
            return

        def reference(_folder):
            held, seconds = tables.reference(
                tables.numbers(self.folder / self.job.train),
                tables.numbers(self.held), True, seed, True)
            return {"held": held, "cpu_s": seconds, "higher": False,
                    "course": [], "reason": "early stopping"}

        self.done("sklearn", seed, "", reference)

    def run(self, what, seed):
        if what in STRATEGIES:
            self.strategy(what, seed)
        else:
            getattr(self, what)(seed)


def work(args, book, todo, failed):
    """A thread: takes jobs one after another."""
    while todo:
        try:
            name, job = todo.pop(0)
        except IndexError:
            return
        failed.append(name)  # until it is whole
        try:
            bench = Bench(args, book, name, job)
            for seed in args.seeds:
                for what in args.what:
                    bench.run(what, seed)
            failed.remove(name)
        except FileNotFoundError as e:
            print(f"quality job={name} skipped: no file {e.filename}",
                  flush=True)


def words(known):
    def parse(text):
        out = text.split(",")
        for w in out:
            if w not in known:
                raise argparse.ArgumentTypeError(
                    f"{w}: not one of {', '.join(known)}")
        return out
    return parse


def main():
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    known = quality_jobs.jobs()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", help=", ".join(known))
    parser.add_argument("--seeds", default=[1], metavar="1,2",
                        type=lambda t: [int(x) for x in t.split(",")])
    parser.add_argument("--what", default=WHAT, type=words(WHAT),
                        metavar="A,B", help=", ".join(WHAT))
    here = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=pathlib.Path,
                        default=here / "../shared/data")
    parser.add_argument("--work", type=pathlib.Path,
                        default=here / "build/quality",
                        help="folder for data and runs")
    parser.add_argument("--csv", type=pathlib.Path,
                        help="where rows are kept (WORK/quality.csv)")
    parser.add_argument("--at-once", type=int, default=1,
                        help="jobs that run at the same time")
    parser.add_argument("--keep", action="store_true",
                        help="the states of strategies' runs stay in WORK/runs")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                        help="of the strategies' configurations, to try it")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--mltune", default="build/release/mltune")
    args = parser.parse_args()
    args.mltune = os.path.abspath(args.mltune)
    args.work, args.data = args.work.resolve(), args.data.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    for name in args.jobs:
        if name not in known:
            parser.error(f"no job {name}: there are {', '.join(known)}")
    book = Book(args.csv or args.work / "quality.csv")
    if args.table:
        print(book.tables(args.jobs or list(known), " ".join(args.set)))
        return 0
    args.commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=here, text=True,
        capture_output=True, check=False).stdout.strip()
    todo, failed = [(n, known[n]) for n in args.jobs or known], []
    threads = [threading.Thread(target=work, args=(args, book, todo, failed))
               for _ in range(args.at_once)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("\n" + book.tables(args.jobs or list(known), " ".join(args.set)))
    if failed:
        print(f"quality: not whole: {', '.join(sorted(failed))}",
              file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
