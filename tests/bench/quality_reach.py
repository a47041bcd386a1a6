#!/usr/bin/env python3
"""Quality of whole runs on real data: does tuning reach what hand search would?

    quality_reach.py mnist|movielens --data DIR [--seeds 10] [--mltune PATH] [--work DIR]
                     [--initial]

mnist      mlr, learning rate 1e-5..1, momentum, batch size; best accuracy on the
           t10k files, wanted at least 0.92 for every seed
movielens  mf rank 32, adagrad, learning rate 1e-5..1, at most 30 epochs; best
           validation RMSE, wanted within 1 % of the best of 16 fixed rates on a
           log grid, for every seed

--initial  instead: the first tuning off, from random initial settings (uniform in
           each tunable's scale), one a seed; wanted: within 1 % of the tuned run of
           the same seed, by re-tuning alone

Prints one line `name key=value ... value unit` a measurement, and a Markdown
table for docs/results.md. Exit 1 when a seed misses what is wanted.
"""
import argparse
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

LEARNING_RATE = {"type": "float", "min": 1e-5, "max": 1, "scale": "log",
                 "default": 0.01}


def config_mnist(data):
    return {
        "app": {"name": "mlr", "data": str(data / "mnist-*")},
        "tunables": {
            "learning_rate": LEARNING_RATE,
            "momentum": {"type": "float", "min": 0, "max": 0.99,
                         "default": 0.9},
            "batch_size": {"type": "int", "values": [16, 64, 256],
                           "default": 64}},
    }


def config_movielens(data):
    return {
        "app": {"name": "mf", "data": str(data / "ml1m.train90.tsv.xz"),
                "rank": 32, "test_fraction": 0.1},
        "ps": {"update_rule": "adagrad"},
        "tunables": {"learning_rate": LEARNING_RATE},
        "stop": {"max_epochs": 30},
    }


def run(args, config, seed, *options):
    """One run; its result object."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=args.work))
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    command = [args.mltune, "run", str(path), "--json", "--seed", str(seed),
               "--state", str(folder / "state"), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout.strip():
        sys.exit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stderr}")
    result = json.loads(done.stdout.strip().splitlines()[-1])
    shutil.rmtree(folder)
    return result


def line(name, keys, value, unit):
    words = " ".join([name, *(f"{k}={v}" for k, v in keys.items())])
    print(f"{words} {value:.6g} {unit}", flush=True)


def best_metric(result):
    """A run that failed or diverged has no metric: nan, which no test passes."""
    metric = (result.get("best") or {}).get("metric")
    return float(metric) if metric is not None else math.nan


def share(result):
    return result["tuning"]["seconds"] / max(result["seconds"], 1e-9)


def tuned(args, name, config, good):
    rows = []
    for seed in range(1, args.seeds + 1):
        result = run(args, config, seed)
        metric = best_metric(result)
        rows.append((seed, metric, result))
        keys = {"seed": seed, "epochs": result["epochs"],
                "trials": result["tuning"]["trials"],
                "searches": result["tuning"]["searches"],
                "reason": result["reason"],
                "setting": json.dumps(result["setting"],
                                      separators=(",", ":"))}
        line(name, keys, metric, "metric")
        line(name, {"seed": seed}, result["seconds"], "s")
        line(name, {"seed": seed}, 100 * share(result), "percent_tuning")
    hits = sum(good(m) for _, m, _ in rows)
    print()
    print("| seed | best metric | epochs | trials | searches | seconds "
          "| tuning share | setting at the end |")
    print("|---|---|---|---|---|---|---|---|")
    for seed, metric, r in rows:
        setting = ", ".join(f"{k} {v:.4g}" for k, v in r["setting"].items()
                            if isinstance(v, (int, float)))
        print(f"| {seed} | {metric:.4f} | {r['epochs']} | "
              f"{r['tuning']['trials']} | {r['tuning']['searches']} | "
              f"{r['seconds']:.1f} | {100 * share(r):.0f} % | {setting} |")
    print(f"\n{name}: {hits} of {len(rows)} as wanted; median "
          f"{statistics.median(m for _, m, _ in rows):.4f}, "
          f"{statistics.median(r['seconds'] for _, _, r in rows):.1f} s, "
          f"{100 * statistics.median(share(r) for _, _, r in rows):.0f} % "
          "of it tuning\n", flush=True)
    return hits == len(rows)


def untuned(args, name, config, settings):
    """The same job at given settings, without tuning."""
    out = []
    for setting in settings:
        options = ["--no-tune"]
        for key, value in setting.items():
            options += ["--set", f"tunables.{key}.default={value}"]
        result = run(args, config, 1, *options)
        metric = best_metric(result)
        out.append((metric, setting))
        line(name, {**setting, "status": result["status"],
                    "epochs": result["epochs"],
                    "seconds": f"{result['seconds']:.1f}"}, metric, "metric")
    return out


def draw(tunable, rng):
    """A value of a tunable, uniform in its scale."""
    if "values" in tunable:
        return rng.choice(tunable["values"])
    low, high = tunable["min"], tunable["max"]
    if tunable.get("scale") == "log":
        return math.exp(rng.uniform(math.log(low), math.log(high)))
    return rng.uniform(low, high)


def initial(args, name, config, higher):
    """Random settings to start with; re-tuning alone has to mend them. Each is
    compared with the tuned run of its own seed, which has the same split."""
    print("\n| seed | initial setting | best metric | tuned | ratio | epochs "
          "| trials | searches | seconds | tuning share |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    hits = 0
    for seed in range(1, args.seeds + 1):
        rng = random.Random(seed)
        start = {key: draw(t, rng) for key, t in config["tunables"].items()}
        tuned_metric = best_metric(run(args, config, seed))
        r = run(args, {**config, "tuner": {"initial": start}}, seed)
        metric = best_metric(r)
        ratio = metric / tuned_metric
        hits += ratio >= 0.99 if higher else ratio <= 1.01
        setting = ", ".join(f"{k} {v:.3g}" for k, v in start.items())
        print(f"| {seed} | {setting} | {metric:.4f} | {tuned_metric:.4f} | "
              f"{ratio:.4f} | {r['epochs']} | {r['tuning']['trials']} | "
              f"{r['tuning']['searches']} | {r['seconds']:.1f} | "
              f"{100 * share(r):.0f} % |", flush=True)
    print(f"\n{name}: {hits} of {args.seeds} within 1 % of the tuned run\n",
          flush=True)
    return hits == args.seeds


def mnist(args):
    config = config_mnist(args.data)
    if args.initial:
        return initial(args, "mnist_initial", config, True)
    ok = tuned(args, "mnist_tuned", config, lambda m: m >= 0.92)
    bad = [{"learning_rate": lr, "momentum": m, "batch_size": b}
           for lr, m, b in [(1e-5, 0, 256), (1e-4, 0.9, 256), (1, 0.99, 16),
                            (0.01, 0.9, 64)]]
    untuned(args, "mnist_untuned", config, bad)
    return ok


def movielens(args):
    config = config_movielens(args.data)
    if args.initial:
        return initial(args, "movielens_initial", config, False)
    grid = [10 ** (-5 + 5 * i / 15) for i in range(16)]
    fixed = untuned(args, "movielens_fixed", config,
                    [{"learning_rate": f"{lr:.4g}"} for lr in grid])
    best = min(m for m, _ in fixed if not math.isnan(m))
    line("movielens_best_of_16", {}, best, "metric")
    return tuned(args, "movielens_tuned", config, lambda m: m <= 1.01 * best)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", choices=["mnist", "movielens"])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--mltune", default="build/release/mltune")
    parser.add_argument("--initial", action="store_true",
                        help="random initial settings, the first tuning off")
    parser.add_argument("--work", default=None, help="folder for run state")
    args = parser.parse_args()
    args.data = args.data.resolve()
    args.mltune = os.path.abspath(args.mltune)
    if not args.data.is_dir():
        sys.exit(f"no folder {args.data}: see --data")
    jobs = {"mnist": mnist, "movielens": movielens}
    return 0 if jobs[args.job](args) else 1


if __name__ == "__main__":
    sys.exit(main())
