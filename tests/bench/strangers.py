#!/usr/bin/env python3
"""What strangers at full speed cost a training.

    /usr/bin/python3 tests/bench/strangers.py run|nodes [ROUNDS]

run     another account at the port of a run of one node and one worker
nodes   another host, a network namespace, at the ports of two nodes over TCP

The training has the first core, all its threads on it, the stranger the second.
What is measured is the processor time of all the training's processes for a clock,
by the kernel's scheduler: with it a training on a busy core slows down, and other
load hardly changes it. Quiet and attacked rounds take turns.

    strangers at=run kind=connect quiet_us=... attacked_us=... per_s=... value percent

Medians of us a clock, and what the stranger did a second; the value is how much
slower the training is.
MLTUNE_BUILD names the build (build/release). Needs root, `ip` and two cores.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/process"))
import harness  # noqa: E402
import test_other_host  # noqa: E402
import test_socket  # noqa: E402

SECONDS = 2.0
KINDS = ("connect", "bytes", "ask", "hold")

# argv: kind, seconds, host:port...
STRANGER = """
import socket, sys, time
kind, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
to = [(a.rpartition(":")[0], int(a.rpartition(":")[2])) for a in sys.argv[3:]]
junk, n, held = b"\\xff" * 65536, 0, []
def ask(port):
    return (b"GET /api/v1/runs HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n"
            b"Connection: close\\r\\n\\r\\n" % port)
while time.monotonic() < end:
    s = socket.socket()
    s.settimeout(0 if kind in ("connect", "hold") else 0.05)
    place = to[n % len(to)]
    n += 1
    try:
        s.connect_ex(place)
        if kind == "connect":
            s.send(junk[:64])
        elif kind == "bytes":
            while time.monotonic() < end:
                s.sendall(junk)
        elif kind == "ask":
            s.sendall(ask(place[1]))
            while s.recv(65536):
                pass
        elif kind == "hold":
            held.append(s)
            if len(held) < 900:
                continue
            s = held.pop(0)
    except OSError:
        pass
    s.close()
print(n)
"""


def say(at, kind, quiet, attacked, did):
    q, a = statistics.median(quiet), statistics.median(attacked)
    print(f"strangers at={at} kind={kind} quiet_us={q:.4g} attacked_us={a:.4g} "
          f"per_s={did:.4g} {100 * (a / q - 1):.3g} percent", flush=True)


def compare(at, rate, attack, rounds):
    """@rate() is the training's us a clock, over SECONDS."""
    for kind in KINDS:
        quiet, attacked, did = [], [], 0
        for _ in range(rounds):
            quiet.append(rate())
            stranger = attack(kind)
            time.sleep(0.3)
            attacked.append(rate())
            did += int(stranger.communicate(timeout=60)[0]) / (
                SECONDS + 0.5)
        say(at, kind, quiet, attacked, did / rounds)


def cpu_us(pids):
    """Processor time of all threads so far."""
    return sum(int((task / "schedstat").read_text().split()[0]) / 1000
               for pid in pids
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def first_core():
    os.sched_setaffinity(0, {0})


def second_core():
    os.sched_setaffinity(0, {1})


class Run(harness.Case):
    def runTest(self):
        pass

    def clocks(self):
        connection = test_socket.ByPath(self.path)
        connection.request("GET", "/api/v1/runs")
        now = json.loads(connection.getresponse().read())["runs"][0]["clocks"]
        connection.close()
        return now

    def rate(self):
        before, used = self.clocks(), cpu_us(self.pids)
        time.sleep(SECONDS)
        return (cpu_us(self.pids) - used) / max(self.clocks() - before, 1)

    def attack(self, kind):
        return subprocess.Popen(
            ["/usr/bin/python3", "-c", STRANGER, kind, str(SECONDS + 0.5),
             f"127.0.0.1:{self.port}"], stdout=subprocess.PIPE, text=True,
            user=65534, group=65534, extra_groups=[], cwd="/",
            preexec_fn=second_core)

    def measure(self, rounds):
        config = harness.endless_config()
        config["tuner"] = {"strategy": "fixed"}
        config["tunables"] = {"learning_rate": {"type": "float",
                                                "fixed": 1e-4}}
        run = self.start("run", self.write("c.json", config),
                         preexec_fn=first_core)
        self.wait_for_training()
        self.pids = [run.pid, *self.nodes_of(run)]
        self.path, = self.folder.glob(".mltune/runs/*/http.sock")
        url, = self.folder.glob(".mltune/runs/*/url")
        self.port = int(url.read_text().rstrip("/").rpartition(":")[2])
        compare("run", self.rate, self.attack, rounds)
        run.terminate()
        self.finish(run)


class Pair(test_other_host.OtherHost):
    def runTest(self):
        pass

    def rate(self):
        clocks, began, used = 0, time.monotonic(), cpu_us(self.pids)
        while time.monotonic() < began + SECONDS:
            self.tuner.ask("schedule", branch=1, first=self.first, count=50,
                           report_every=50)
            self.first += 50
            clocks += 50
        return (cpu_us(self.pids) - used) / clocks

    def attack(self, kind):
        return subprocess.Popen(
            [*self.cable.enter, "/usr/bin/python3", "-c", STRANGER, kind,
             str(SECONDS + 0.5), *(a.rpartition("//")[2] for a in self.data)],
            stdout=subprocess.PIPE, text=True, preexec_fn=second_core)

    def measure(self, rounds):
        first_core()
        nodes = [self.start_node(i, "--listen", address)
                 for i, address in enumerate(self.data)]
        self.pids = [node.pid for node in nodes]
        self.configure()
        self.tuner.ask("fork", branch=1, parent=0, type="training",
                       setting={"learning_rate": 1e-4})
        self.first = 0
        compare("nodes", self.rate, self.attack, rounds)
        self.end(*nodes)


def main():
    at = sys.argv[1] if len(sys.argv) > 1 else ""
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 11
    if at not in ("run", "nodes"):
        raise SystemExit(__doc__)
    case = Run() if at == "run" else Pair()
    case.setUp()
    try:
        case.measure(rounds)
    finally:
        case.doCleanups()


if __name__ == "__main__":
    main()
