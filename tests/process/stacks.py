"""Where the processes of a test stand when it makes no progress.

A watch looks at the journals in a test's folder. While none of them has changed
for QUIET_S, it prints once what each process of the test does: how much of a core
it takes, what it waits for in the kernel, the stacks of its threads (gdb), and in
Python those of its functions. What takes processor time is slow; what takes none
hangs. It is for series in the background: nobody looks on there, and a time limit
alone tells no hang from a loaded machine.
"""
import os
import pathlib
import signal
import subprocess
import threading
import time

QUIET_S = 60
LOOK_S = 3  # for which processor time is counted
TICKS = os.sysconf("SC_CLK_TCK")

SITE = """import faulthandler, os, signal
faulthandler.register(signal.SIGUSR2, all_threads=True,
                      file=open(f"{os.path.dirname(__file__)}/{os.getpid()}", "w"))
"""


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def seconds_of(pid):
    """Of processor time; whether it is a zombie."""
    words = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not words:
        return 0, True
    return (int(words[11]) + int(words[12])) / TICKS, words[0] == "Z"


def threads_of(pid):
    """Stacks, as gdb has them; without it what the kernel says."""
    try:
        done = subprocess.run(
            ["gdb", "-p", str(pid), "-batch", "-nx", "-ex",
             "thread apply all bt 25"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False)
        return "\n".join(line for line in done.stdout.splitlines()
                         if line.startswith(("#", "Thread")))
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no gdb: {error}: {read(f'/proc/{pid}/wchan')}"


class Watch:
    """From the time it is made until close()."""

    def __init__(self, case):
        self.case = case
        self.site = case.folder / "site"
        self.site.mkdir()
        (self.site / "sitecustomize.py").write_text(SITE)
        before = case.env.get("PYTHONPATH")
        case.env["PYTHONPATH"] = (f"{self.site}:{before}" if before
                                  else str(self.site))
        self.told = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def close(self):
        self.over.set()
        self.thread.join()

    def newest(self):
        times = [0.0]
        for path in self.case.folder.glob("*/mltune.db*"):
            try:
                times.append(path.stat().st_mtime)
            except OSError:
                pass
        return max(times)

    def look(self):
        seen, since = None, time.monotonic()
        while not self.over.wait(1):
            now = self.newest()
            if now != seen:
                seen, since = now, time.monotonic()
            elif since and time.monotonic() - since > QUIET_S:
                self.tell()
                since = None  # until it goes on

    def tell(self):
        self.told += 1
        pids = self.case.marked()
        before = {pid: seconds_of(pid)[0] for pid in pids}
        load = read("/proc/loadavg").split()[0]
        print(f"QUIET for {QUIET_S} s, load {load}", flush=True)
        time.sleep(LOOK_S)
        for pid in pids:
            after, dead = seconds_of(pid)
            words = read(f"/proc/{pid}/cmdline").replace("\0", " ")
            print(f"pid {pid} {words[:120]} takes "
                  f"{(after - before[pid]) / LOOK_S:.2f} of a core"
                  f"{', dead' if dead else ''}", flush=True)
            if not dead:
                self.tell_stacks(pid)

    def tell_stacks(self, pid):
        print(threads_of(pid), flush=True)
        file = self.site / str(pid)
        if file.exists():  # a Python that has begun
            os.kill(pid, signal.SIGUSR2)
            time.sleep(0.5)
            print(file.read_text(errors="replace"), flush=True)
