#!/usr/bin/env python3
"""Matrix factorization as a loop, beside a serial run and data-parallel bsp.

    loops.py [movielens] [generated] [speed] [--mltune PATH] [--data DIR]
             [--rates R,...] [--passes N] [--rounds N]

movielens, generated   MovieLens 1M; 20 million generated ratings. Validation RMSE
                       after each pass of: one worker; a loop of 8 workers on 4
                       nodes; the other form on them under bsp. For each rate: the
                       passes that it ran, fewer where it diverged, and those to
                       the target: 1.01 of the best RMSE that one worker has at any
                       rate; of each form's best rate all passes, and the bytes that
                       nodes send in one
speed                  CPU seconds and seconds a pass on MovieLens 1M: a run less
                       one of fewer passes, rounds that take turns

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
    for form, how in FORMS.items():
        for rate in args.rates:
            result, cpu = run(args, data, how, rate, args.passes, 0.1)
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
        need = {r: passes_to(curves[form, r], target) for r in args.rates}
        for rate, passes in need.items():
            line("loops_passes", {"data": name, "form": form, "rate": rate,
                                  "target": f"{target:.5f}"},
                 passes, "passes")
        best = min(args.rates, key=lambda r: (need[r], r))
        keys = {"data": name, "form": form, "rate": best}
        for i, metric in enumerate(curves[form, best]):
            line("loops_rmse", {**keys, "pass": i + 1}, metric, "rmse")
        if (form, best) in sent:
            line("loops_sent", keys, sent[form, best] / 1e6, "MB_a_pass")


def speed(args):
    forms = {"data_1": ("data", 1, 1), "loop_1": ("loop", 1, 1),
             "loop_2": ("loop", 1, 2), "loop_4x2": ("loop", 4, 2),
             "data_4x2": ("data", 4, 2)}
    few, many = 2, 2 + args.passes * 4
    took = {f: {"cpu": [], "elapsed": []} for f in forms}
    for _ in range(args.rounds):
        for form, how in forms.items():
            a, cpu_a = run(args, args.movielens, how, 0.02, few, 0.0005)
            b, cpu_b = run(args, args.movielens, how, 0.02, many, 0.0005)
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


def main():
    p = argparse.ArgumentParser(
        description=__doc__.splitlines()[0])
    p.add_argument("part", nargs="*",
                   help="movielens, generated, speed; all without")
    p.add_argument("--mltune", default=str(ROOT / "build/release/mltune"))
    p.add_argument("--data", default=os.environ.get(
        "MLTUNE_DATA", str(ROOT / "../shared/data")))
    p.add_argument("--rates", type=lambda t: [float(r) for r in t.split(",")],
                   default=[0.01, 0.02, 0.05])
    p.add_argument("--passes", type=int, default=15)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--memory", default="4GiB")
    p.add_argument("--work", help="where runs have their folders")
    args = p.parse_args()
    args.movielens = str(pathlib.Path(args.data) / "ml1m.train90.tsv.xz")
    parts = args.part or ["movielens", "generated", "speed"]
    for part in parts:
        if part == "movielens":
            progress(args, "ml1m", args.movielens)
        elif part == "generated":
            progress(args, "generated", GENERATED)
        elif part == "speed":
            speed(args)
        else:
            p.error(f"no part {part}")


if __name__ == "__main__":
    main()
