#!/usr/bin/env python3
"""Matrix factorization as a loop, beside a serial run and data-parallel bsp.

    loops.py [movielens] [generated] [speed] [--mltune PATH] [--data DIR]
             [--rates R,...] [--passes N] [--rounds N]

Without parts: those that BENCH_LOOPS names, else movielens and speed, a few minutes.
Settings that are left out are those of the tables in docs/results.md.

movielens, generated   MovieLens 1M; 20 million generated ratings. Validation RMSE
                       after each pass of: one worker; a loop of 8 workers on 4
                       nodes; the other form on them under bsp. For each rate: the
                       passes that it ran, fewer where it diverged, and those to
                       the target: 1.01 of the best RMSE that one worker has at any
                       rate; of each form's best rate all passes, and the bytes that
                       nodes send in one
speed                  CPU seconds and seconds a pass on MovieLens 1M: a run of 42
                       passes less one of 2, rounds that take turns

Prints one line `name key=value ... value unit` a measurement. What the nodes of one
machine need in time says little of several machines.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATED = ("gen:ratings?users=138493&items=26744&ratings=20000000"
             "&rank=16&noise=0.5&seed=1")
RATES = {"ml1m": [0.01, 0.015, 0.02, 0.025, 0.03, 0.04],
         "generated": [0.02, 0.05]}
PASSES = {"ml1m": 15, "generated": 10}
FEW, MANY = 2, 42  # of `speed`
# Form: as a loop, nodes, workers of each.
FORMS = {"serial": ("loop", 1, 1), "loop": ("loop", 4, 2),
         "data": ("data", 4, 2)}
NEAR = 1.01


def line(name, keys, value, unit):
    words = " ".join([name, *(f"{k}={v}" for k, v in keys.items())])
    print(f"{words} {value:.6g} {unit}", flush=True)


def run(args, data, form, rate, passes, held_out):
    """What `mltune show --json` has of one run; its CPU seconds."""
    parallel, nodes, workers = form
    config = {
        "name": "loops", "seed": 1,
        "app": {"name": "mf", "rank": 32, "data": data, "parallel": parallel,
                "test_fraction": held_out},
        "ps": {"update_rule": "sgd", "consistency": "bsp"},
        "cluster": {"nodes": nodes, "workers": workers},
        "tunables": {"learning_rate": {"type": "float", "fixed": rate}},
        "tuner": {"strategy": "fixed"},
        "stop": {"max_epochs": passes, "plateau_epochs": 1000},
        "memory": {"limit": args.memory}}
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        state = ["--state", str(pathlib.Path(folder) / "state")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([args.mltune, "run", str(path), "--json", *state],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 1) or not done.stdout.strip():
            sys.exit(f"mltune run: exit {done.returncode}\n{done.stderr}")
        result = json.loads(done.stdout.strip().splitlines()[-1])
        shown = subprocess.run([args.mltune, "show", result["run"], "--json",
                                *state], stdout=subprocess.PIPE, text=True,
                               check=True)
    result["epoch_list"] = json.loads(shown.stdout)["epoch_list"]
    cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime +
                                               before.ru_stime)
    return result, cpu


def rmse_by_pass(result):
    """A pass that diverged has none: nan."""
    return [e["metric"] if e["metric"] is not None else math.nan
            for e in result["epoch_list"]]


def passes_to(curve, target):
    return next((i + 1 for i, m in enumerate(curve) if m <= target), math.inf)


def progress(args, name, data):
    curves, sent = {}, {}
    rates, passes = args.rates or RATES[name], args.passes or PASSES[name]
    for form, how in FORMS.items():
        for rate in rates:
            result, cpu = run(args, data, how, rate, passes, 0.1)
            curves[form, rate] = rmse_by_pass(result)
            keys = {"data": name, "form": form, "rate": rate}
            line("loops_seconds", keys, result["seconds"], "s")
            line("loops_ran", keys, result["epochs"], "passes")
            line("loops_cpu", keys, cpu, "s")
            if "cluster" in result:
                sent[form, rate] = (result["cluster"]["bytes_sent"] /
                                    max(1, result["epochs"]))
    target = NEAR * min(m for (form, _), c in curves.items()
                        if form == "serial" for m in c if not math.isnan(m))
    for form in FORMS:
        need = {r: passes_to(curves[form, r], target) for r in rates}
        for rate, n in need.items():
            line("loops_passes", {"data": name, "form": form, "rate": rate,
                                  "target": f"{target:.5f}"},
                 n, "passes")
        best = min(rates, key=lambda r: (need[r], r))
        keys = {"data": name, "form": form, "rate": best}
        for i, metric in enumerate(curves[form, best]):
            line("loops_rmse", {**keys, "pass": i + 1}, metric, "rmse")
        if (form, best) in sent:
            line("loops_sent", keys, sent[form, best] / 1e6, "MB_a_pass")


def speed(args):
    forms = {"data_1": ("data", 1, 1), "loop_1": ("loop", 1, 1),
             "loop_2": ("loop", 1, 2), "loop_4x2": ("loop", 4, 2),
             "data_4x2": ("data", 4, 2)}
    took = {f: {"cpu": [], "elapsed": []} for f in forms}
    for _ in range(args.rounds):
        for form, how in forms.items():
            a, cpu_a = run(args, args.movielens, how, 0.02, FEW, 0.0005)
            b, cpu_b = run(args, args.movielens, how, 0.02, MANY, 0.0005)
            n = b["epochs"] - a["epochs"]
            took[form]["cpu"].append((cpu_b - cpu_a) / n)
            took[form]["elapsed"].append((b["seconds"] - a["seconds"]) / n)
    for what in ("cpu", "elapsed"):
        middle = {f: statistics.median(took[f][what]) for f in forms}
        for form in forms:
            line(f"loops_{what}_a_pass", {"form": form}, 1e3 * middle[form],
                 "ms")
        for ours, peer in (("loop_1", "data_1"), ("loop_2", "loop_1"),
                           ("loop_4x2", "data_4x2")):
            line(f"loops_{what}", {"form": ours, "vs": peer},
                 middle[peer] / middle[ours], "ratio")


PARTS = {"movielens": lambda args: progress(args, "ml1m", args.movielens),
         "generated": lambda args: progress(args, "generated", GENERATED),
         "speed": speed}


def main():
    p = argparse.ArgumentParser(
        description=__doc__.splitlines()[0])
    p.add_argument("part", nargs="*",
                   help="movielens, generated, speed; without: BENCH_LOOPS, "
                        "else movielens and speed")
    p.add_argument("--mltune", default=str(ROOT / "build/release/mltune"))
    p.add_argument("--data", default=os.environ.get(
        "MLTUNE_DATA", str(ROOT / "../shared/data")))
    p.add_argument("--rates", type=lambda t: [float(r) for r in t.split(",")],
                   help="of each data set its own without")
    p.add_argument("--passes", type=int,
                   help="of each data set its own without")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--memory", default="4GiB")
    p.add_argument("--work", help="where runs have their folders")
    args = p.parse_args()
    args.movielens = str(pathlib.Path(args.data) / "ml1m.train90.tsv.xz")
    parts = args.part or os.environ.get("BENCH_LOOPS",
                                        "movielens speed").split()
    for part in parts:
        if part not in PARTS:
            p.error(f"no part {part}")
        if part != "generated" and not os.path.exists(args.movielens):
            print(f"# loops part={part} skipped: there is no {args.movielens}",
                  flush=True)
        else:
            PARTS[part](args)


if __name__ == "__main__":
    main()
