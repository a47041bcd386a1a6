#!/usr/bin/env python3
"""How long it takes to list many runs: a state folder of RUNS finished ones,
copied by program from one that was run.

Usage: many_runs.py [--runs 100000] [--records 8] [--rounds 11]
                    [--mltune build/release/mltune]

Alone, and beside a service that has the folder. Prints `name params value unit`: the best and the worst of eleven calls, and the
processor time and memory of the last one.
"""
import argparse
import json
import os
import pathlib
import sqlite3
import subprocess
import tempfile
import time

CONFIG = {"name": "many", "app": {"name": "mlr",
                                  "data": "gen:digits?samples=300&size=8"},
          "cluster": {"workers": 1}, "tuner": {"strategy": "fixed"},
          "stop": {"max_epochs": 1}, "seed": 1}
ROUNDS = 11


def multiply(path, runs, records):
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    run = db.execute("SELECT * FROM runs").fetchone()
    rows = db.execute("SELECT seq, wall_ns, kind, json FROM records"
                      " ORDER BY seq LIMIT ?", (records,)).fetchall()
    for i in range(runs):
        key, name, began = 1000 + i, f"many-{i:06d}", run[4] + i * 1000000
        db.execute("INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,?,NULL)",
                   (key, name, *run[2:4], began, *run[5:9]))
        db.executemany("INSERT INTO records VALUES (?,?,?,?,?,NULL)",
                       [(key, *row) for row in rows])
    db.commit()
    db.close()


def measure(name, mltune, words, a, folder, rounds=None):
    times = []
    for _ in range(rounds or a.rounds):
        began = time.monotonic()
        with subprocess.Popen([mltune, *words], cwd=folder,
                              stdout=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        times.append(time.monotonic() - began)
    print(f"many_runs_{name} runs={a.runs} {min(times):.3f} s"
          f" worst={max(times):.3f}"
          f" cpu={usage.ru_utime + usage.ru_stime:.3f}"
          f" resident={usage.ru_maxrss / 1024:.0f}MB", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100000)
    parser.add_argument("--records", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--mltune", default="build/release/mltune")
    a = parser.parse_args()
    mltune = str(pathlib.Path(a.mltune).resolve())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "c.json").write_text(json.dumps(CONFIG))
        for words in (["run", "c.json", "-q"], ["ls"]):
            subprocess.run([mltune, *words], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
        multiply(folder / ".mltune/mltune.db", a.runs, a.records)
        # The first one after an upgrade: it makes the index.
        measure("ls_first", mltune, ["ls"], a, folder, rounds=1)
        measure("ls", mltune, ["ls"], a, folder)
        measure("ls_json", mltune, ["ls", "--json"], a, folder)
        with subprocess.Popen([mltune, "serve", "--listen", "127.0.0.1:0"],
                              cwd=folder, stderr=subprocess.DEVNULL) as service:
            begun = time.monotonic()
            while not (folder / ".mltune/serve.url").exists():
                if service.poll() is not None or time.monotonic() > begun + 600:
                    raise SystemExit("many_runs: the service does not serve")
                time.sleep(0.1)  # until it has read its runs
            measure("ls_served", mltune, ["ls"], a, folder)
            measure("ls_json_served", mltune, ["ls", "--json"], a, folder)
            service.terminate()


if __name__ == "__main__":
    main()
