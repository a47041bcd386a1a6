#!/usr/bin/env python3
"""A run as a week of re-tunes leaves it: how long do resume, show and ls take?

Usage: week.py [--retunes 120960] [--mltune build/release/mltune]
               [--week build/release/tests/bench/week] [--state DIR]

A real run is re-tuned twice and killed, tests/bench/week.c writes the week into
its journal, then as `name params value unit`: week_journal, week_resume (to the
first slice of training), week_show, week_ls.
"""
import shutil
import subprocess
import time

import soak


def killed_run(a, folder):
    p, server = soak.start(a, folder, snapshot={"every": 1})
    for searches in (2, 3):
        server.ask("POST", ":retune")
        for _ in range(2400):
            run = server.ask("GET", "")
            if (run["tuning"]["searches"] >= searches and
                    run["status"] == "training" and run["snapshot"]):
                break
            time.sleep(0.05)
    time.sleep(3)
    soak.kill(p)
    return server.run


def main():
    parser = soak.options()
    parser.add_argument("--retunes", type=int, default=120960)
    parser.add_argument("--week", default="build/release/tests/bench/week")
    a = parser.parse_args()
    folder = soak.folder_of(a, "week")
    state = folder / ".mltune"
    run = killed_run(a, folder)
    subprocess.run([a.week, str(state), run, str(a.retunes)], check=True)
    what = f"retunes={a.retunes}"
    print(f"week_journal {what} {soak.journal_mb(state):.1f} MB")
    for verb in (["show", run], ["trials", run], ["ls"]):
        took = soak.seconds_of([a.mltune, *verb, "--state", str(state)])
        print(f"week_{verb[0]} {what} {took:.2f} s")
    print(f"week_resume {what} {soak.resume_seconds(a, state, run):.2f} s")
    took = soak.seconds_of([a.mltune, "show", run, "--state", str(state)])
    print(f"week_show_after {what} {took:.2f} s")
    if not a.state:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
