#!/usr/bin/python3
"""Quality of runs on tables: what a newcomer's csv ends at, beside scikit-learn.

    tables.py [JOB ...] [--data DIR] [--seeds 3] [--mltune PATH] [--set NAME=VALUE]
              [--no-reference]

A fifth of a table's rows is held back. `mltune run` trains `nn`, preset `mlp`,
with defaults on the others (a tenth of which it takes for validation itself);
its model is tested on the rows held back with `mltune eval`. Beside it, on the
same rows: scikit-learn's MLPRegressor and MLPClassifier out of the box (256
units, as the preset has), inputs and targets standardised, without and with its
early stopping. One thread each.

One line a run, `name key=value ... value unit`, then a Markdown table of
medians. Error: root mean square in the table's units, or the share of wrong
classes.
"""
import argparse
import csv
import gzip
import json
import lzma
import math
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROWS_MAX = 20000
sklearn_data = pathlib.Path(
    "/usr/lib/python3/dist-packages/sklearn/datasets/data")


def opened(path):
    name = str(path)
    if name.endswith(".xz"):
        return lzma.open(name, "rt")
    return gzip.open(name, "rt") if name.endswith(".gz") else open(name)


def numbers(path, separator=",", skip=0, label=-1):
    """Rows of floats, the label last."""
    rows = []
    with opened(path) as f:
        for line in list(f)[skip:]:
            fields = line.split() if separator is None else \
                line.strip().split(separator)
            if fields and fields != [""]:
                row = [float(x) for x in fields]
                row.append(row.pop(label))
                rows.append(row)
    return rows


def libsvm(path, columns):
    rows = []
    with opened(path) as f:
        for line in f:
            label, *pairs = line.split()
            row = [0.0] * columns + [float(label)]
            for p in pairs:
                k, v = p.split(":")
                row[int(k) - 1] = float(v)
            rows.append(row)
    return rows


def newcomer(rng, rows=6000, columns=8):
    """A smooth function of some of the columns, noise of deviation 1."""
    out = []
    for _ in range(rows):
        x = [rng.uniform(-2, 2) for _ in range(columns)]
        y = 5 * math.sin(2 * x[0]) + 3 * x[1] * x[2] + 4 * x[3] ** 2 \
            - 6 * x[4] + 2 * math.cos(3 * x[5]) * x[6]
        out.append(x + [y + rng.gauss(0, 1)])
    return out


def moons(rng, rows=1000, noise=0.2):
    """Two half circles that reach into one another."""
    out = []
    for _ in range(rows):
        label, angle = rng.randrange(2), rng.uniform(0, math.pi)
        x, y = math.cos(angle), math.sin(angle)
        if label:
            x, y = 1 - x, 0.5 - y
        out.append([x + rng.gauss(0, noise), y + rng.gauss(0, noise), label])
    return out


def iris(path):
    """The species as numbers."""
    with opened(path) as f:
        rows = [line.strip().split(",") for line in f if line.strip()]
    names = sorted({r[-1] for r in rows})
    return [[float(x) for x in r[:-1]] + [float(names.index(r[-1]))]
            for r in rows]


def diabetes(_):
    x = numbers(sklearn_data / "diabetes_data_raw.csv.gz", None)
    y = numbers(sklearn_data / "diabetes_target.csv.gz", None)
    return [a + b for a, b in zip(x, y)]


def jobs(data):
    return {
        "newcomer": (newcomer, True),
        "diabetes": (diabetes, True),
        "boston": (lambda _: numbers(
            sklearn_data / "boston_house_prices.csv", skip=2), True),
        "abalone": (lambda _: libsvm(data / "abalone_scale.xz", 8), True),
        "cal_housing": (lambda _: numbers(
            data / "cal_housing.csv.xz", skip=1), True),
        "protein": (lambda _: numbers(
            data / "protein-casp.txt.xz", None), True),
        "iris": (lambda _: iris(data / "iris.csv"), False),
        "wine": (lambda _: numbers(data / "wine.csv", label=0), False),
        "moons": (moons, False),
        "cancer": (lambda _: numbers(
            sklearn_data / "breast_cancer.csv", skip=1), False),
        "digits": (lambda _: numbers(sklearn_data / "digits.csv.gz"), False),
        "optdigits": (lambda _: numbers(
            data / "optdigits.tra.csv.xz"), False),
        "a9a": (lambda _: libsvm(data / "a9a.xz", 123), False),
        "ijcnn1": (lambda _: libsvm(data / "ijcnn1.xz", 22), False),
        "letter": (lambda _: libsvm(data / "letter.scale.xz", 16), False),
        "covtype": (lambda _: numbers(data / "covtype.20k.csv.xz"), False),
    }


def write(path, rows):
    with open(path, "w", newline="") as f:
        csv.writer(f).writerows(rows)


def cpu():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def tuned(args, folder, seed, regression):
    config = {"app": {"name": "nn", "data": "train.csv", "preset": "mlp"},
              "cluster": {"workers": 1}}
    if regression:
        config["app"]["loss"] = "squared"
    (folder / "config.json").write_text(json.dumps(config))
    command = [args.mltune, "run", str(folder / "config.json"), "--json",
               "--seed", str(seed), "--state", str(folder / "state")]
    for s in args.set:
        command += ["--set", s]
    before = cpu()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = cpu() - before
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stderr}")
    result = json.loads(done.stdout.strip().splitlines()[-1])
    model = next((folder / "state").glob("runs/*/model"))
    done = subprocess.run([args.mltune, "eval", str(model),
                           str(folder / "test.csv"), "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"eval\nexit {done.returncode}\n{done.stderr}")
    value = json.loads(done.stdout)["metric"]
    if args.keep:
        shutil.copytree(folder / "state",
                        pathlib.Path(args.keep) / f"{folder.name}-{seed}")
    return (value if regression else 1 - value), seconds, result


def reference(train, test, regression, seed, early):
    import numpy
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    a, b = numpy.array(train), numpy.array(test)
    kind = MLPRegressor if regression else MLPClassifier
    net = kind(hidden_layer_sizes=(256,), random_state=seed,
               early_stopping=early)
    model = make_pipeline(StandardScaler(), net)
    if regression:
        model = TransformedTargetRegressor(model, transformer=StandardScaler())
    before = time.process_time()
    model.fit(a[:, :-1], a[:, -1])
    seconds = time.process_time() - before
    out = model.predict(b[:, :-1])
    if regression:
        return math.sqrt(((out - b[:, -1]) ** 2).mean()), seconds
    return float((out != b[:, -1]).mean()), seconds


def run_job(args, name, make, regression):
    got = {"mltune": [], "sklearn": [], "sklearn_early": []}
    for seed in range(1, args.seeds + 1):
        rng = random.Random(seed)
        rows = make(rng)
        rng.shuffle(rows)
        rows = rows[:ROWS_MAX]
        held = len(rows) // 5
        folder = pathlib.Path(tempfile.mkdtemp(prefix=name + "-"))
        write(folder / "test.csv", rows[:held])
        write(folder / "train.csv", rows[held:])
        error, seconds, r = tuned(args, folder, seed, regression)
        got["mltune"].append((error, seconds))
        print(f"tables job={name} seed={seed} what=mltune "
              f"seconds={seconds:.2f} epochs={r['epochs']} "
              f"best={(r.get('best') or {}).get('epoch')} "
              f"trials={r['tuning']['trials']} "
              f"searches={r['tuning']['searches']} "
              f"tuning={r['tuning']['seconds'] / r['seconds']:.2f} "
              f"reason={r['reason']} {error:.5g} error", flush=True)
        shutil.rmtree(folder)
        for early in [] if args.no_reference else [False, True]:
            what = "sklearn_early" if early else "sklearn"
            error, seconds = reference(rows[held:], rows[:held], regression,
                                       seed, early)
            got[what].append((error, seconds))
            print(f"tables job={name} seed={seed} what={what} "
                  f"seconds={seconds:.2f} {error:.5g} error", flush=True)
    return {k: [statistics.median(x) for x in zip(*v)]
            for k, v in got.items() if v}


def main():
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*")
    parser.add_argument("--data", type=pathlib.Path,
                        default=pathlib.Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--mltune", default="build/release/mltune")
    parser.add_argument("--set", action="append", default=[],
                        help="a member of the configuration")
    parser.add_argument("--no-reference", action="store_true")
    parser.add_argument("--keep", help="folder for the runs' states")
    args = parser.parse_args()
    args.mltune = os.path.abspath(args.mltune)
    table = jobs(args.data.resolve())
    rows = []
    for name in args.jobs or table:
        make, regression = table[name]
        rows.append((name, run_job(args, name, make, regression)))
    print("\n| job | " + " | ".join(f"{k}, error | CPU s"
                                    for k in rows[0][1]) + " |")
    print("|---|" + "---|---|" * len(rows[0][1]))
    for name, medians in rows:
        print(f"| {name} | " + " | ".join(f"{e:.4g} | {s:.1f}" for e, s in
                                         medians.values()) + " |")


if __name__ == "__main__":
    main()
