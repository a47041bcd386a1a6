#!/usr/bin/env python3
"""A soak: a run of very short epochs that is re-tuned every few seconds.

Usage: soak.py [--minutes 10] [--retune 5] [--mltune build/release/mltune]
               [--limit 64MiB] [--state DIR]

Prints a line every minute, and at the end, as `name params value unit`:
  soak_journal    bytes of the journal, its log and the checkpoints
  soak_rss        resident memory of the tuner, and its slope after a half
  soak_resume     seconds from `mltune resume` to the first slice of training
  soak_show, soak_ls
"""
import argparse
import json
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import urllib.request

CONFIG = {
    "name": "soak",
    "app": {"name": "nn", "data": "gen:digits?samples=5000&size=8",
            "layers": [{"type": "dense", "units": 64}, {"type": "relu"},
                       {"type": "dense", "units": "outputs"}]},
    "cluster": {"workers": 1},
    "stop": {"max_epochs": 1000000000, "plateau_epochs": 1000000},
    "seed": 1,
}


def resident_mb(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0


def processor_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def journal_mb(state):
    files = [*state.glob("mltune.db*"), *state.glob("runs/*/checkpoint*")]
    total = 0
    for path in files:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            pass
    return total / 2**20


def slope_mb_an_hour(samples):
    n = len(samples)
    t = sum(s[0] for s in samples) / n
    y = sum(s[1] for s in samples) / n
    var = sum((s[0] - t) ** 2 for s in samples)
    cov = sum((s[0] - t) * (s[1] - y) for s in samples)
    return cov / var * 3600 if var else 0.0


class Server:
    def __init__(self, state):
        for _ in range(400):
            urls = list(state.glob("runs/*/url"))
            if urls:
                break
            time.sleep(0.05)
        self.run = urls[0].parent.name
        self.url = urls[0].read_text().strip().rstrip("/")
        self.token = (state / "token").read_text().strip()

    def ask(self, method, path):
        request = urllib.request.Request(
            f"{self.url}/api/v1/runs/{self.run}{path}", method=method,
            headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


def seconds_of(words):
    began = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout[-500:]
    return time.monotonic() - began


def clocks_of(state, run):
    """Number of the last slice that the journal knows to have ended."""
    db = sqlite3.connect(f"file:{state / 'mltune.db'}?mode=ro", uri=True)
    row = db.execute("SELECT max(seq) FROM records WHERE kind = 'slice_ended'"
                     " AND run = (SELECT key FROM runs WHERE id = ?)",
                     (run,)).fetchone()
    db.close()
    return row[0] or 0


def resume_seconds(a, state, run):
    before = clocks_of(state, run)
    began = time.monotonic()
    p = subprocess.Popen([a.mltune, "resume", run, "--state", str(state), "-q"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while clocks_of(state, run) <= before and p.poll() is None:
        time.sleep(0.02)
    took = time.monotonic() - began
    assert p.poll() is None, "the resumed run has ended"
    p.kill()
    p.wait()
    return took


def options():
    """Those that tests/bench/week.py has, too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mltune", default="build/release/mltune")
    parser.add_argument("--state")
    return parser


def folder_of(a, prefix):
    folder = pathlib.Path(a.state or tempfile.mkdtemp(prefix=prefix))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def start(a, folder, **settings):
    """A run of CONFIG with @settings: its process, and who asks it."""
    state = folder / ".mltune"
    (folder / "c.json").write_text(json.dumps({**CONFIG, **settings}))
    p = subprocess.Popen([a.mltune, "run", str(folder / "c.json"), "--state",
                          str(state), "-q"], stdout=subprocess.DEVNULL)
    return p, Server(state)


def kill(p):
    """As a machine that stops; its node ends by itself."""
    p.send_signal(signal.SIGKILL)
    p.wait()
    time.sleep(2)


def main():
    parser = options()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--retune", type=float, default=5)
    parser.add_argument("--limit", default="64MiB")
    a = parser.parse_args()
    folder = folder_of(a, "soak")
    state = folder / ".mltune"
    p, server = start(a, folder, journal={"limit": a.limit})
    began, samples, peak, said = time.monotonic(), [], 0.0, 0
    while time.monotonic() - began < a.minutes * 60 and p.poll() is None:
        time.sleep(a.retune)
        at = time.monotonic() - began
        try:
            server.ask("POST", ":retune")
        except OSError:
            pass
        samples.append((at, resident_mb(p.pid), journal_mb(state)))
        peak = max(peak, samples[-1][2])
        if at >= said:
            said += 60
            run = server.ask("GET", "")
            print(f"# {at:6.0f} s  rss {samples[-1][1]:7.1f} MB  journal "
                  f"{samples[-1][2]:7.1f} MB  epochs {run['epochs']}  searches "
                  f"{run['tuning']['searches']}  trials "
                  f"{run['tuning']['trials']}  cpu {processor_s(p.pid):.1f} s",
                  flush=True)
    assert p.poll() is None, "the run has ended"
    run = server.ask("GET", "")
    kill(p)
    half = [s for s in samples if s[0] >= min(600, a.minutes * 30)]
    what = (f"minutes={a.minutes:g} epochs={run['epochs']} "
            f"searches={run['tuning']['searches']} "
            f"trials={run['tuning']['trials']}")
    print(f"soak_journal {what} peak_mb={peak:.1f} {samples[-1][2]:.1f} MB")
    print(f"soak_rss {what} slope_mb_h={slope_mb_an_hour(half):.2f} "
          f"{samples[-1][1]:.1f} MB")
    print(f"soak_resume {what} {resume_seconds(a, state, server.run):.2f} s")
    base = [a.mltune]
    print(f"soak_show {what} "
          f"{seconds_of(base + ['show', server.run, '--state', str(state)]):.2f} s")
    print(f"soak_ls {what} "
          f"{seconds_of(base + ['ls', '--state', str(state)]):.2f} s")
    if not a.state:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
