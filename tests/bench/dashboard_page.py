#!/usr/bin/env python3
"""The dashboard with 100,000 trials and 10^7 points, as Chromium shows it: each
view's first paint with data, and how long a redraw takes.

Usage: dashboard_page.py [--rounds 5] [--bench build/release/tests/bench/dashboard]

Prints `name params value unit` and, first, the load of the machine. Wants
`make bench B=dashboard` and `npm ci --prefix tests/browser` before.
"""
import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bench",
                        default=str(ROOT / "build/release/tests/bench/dashboard"))
    a = parser.parse_args()
    with subprocess.Popen([a.bench, "--serve"], stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            url = server.stdout.readline().removeprefix("# ").strip()
            if not url:
                sys.exit("the server did not begin")
            print("page what=load of=begin %.1f 1" % os.getloadavg()[0],
                  flush=True)
            done = subprocess.run(
                ["node", str(ROOT / "tests/browser/paint.js"),
                 url.rstrip("/") + "/", "large", "small-1", str(a.rounds)],
                check=False)
            print("page what=load of=end %.1f 1" % os.getloadavg()[0])
        finally:
            server.terminate()
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
