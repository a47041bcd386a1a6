#!/usr/bin/env python3
"""What strangers at full speed cost a training.

    /usr/bin/python3 tests/bench/strangers.py run|service|nodes [ROUNDS [KIND ...]]

run      another account at the port of a run of one node and one worker
service  another account at the port of a service that has one run
nodes    another host, a network namespace, at the ports of two nodes over TCP

The training has the first core, all its threads on it, the stranger the second. Rounds
come in threes, in turning order: a quiet one; one with the stranger at a decoy, a port
that nobody answers at; and one with it at the training. So the decoy's has what a busy
neighbour costs by itself: caches, memory, the kernel's work for packets. Of three
come ratios of what a clock of the training took:

cpu    processor time of all its processes, by the kernel's scheduler: attacked to quiet
own    the same, attacked to decoy: what the port costs
net    what the threads that strangers can wake (HTTP, ZeroMQ's, the gate's) take more
       than when quiet, of a core: so much a training with a core to itself loses to
       them, as 1 + share. Load hardly changes it
woken  times that its threads slept and were woken (voluntary switches), to quiet
wall   time that went by, to quiet
late   the same, to decoy

    strangers at=run kind=connect rounds=... per_s=... load=... quiet_us=... \\
        cpu=MEDIAN:LOW:HIGH own=... net=... woken=... wall=... late=... value percent

Beside other work begin it with `chrt -r 1`: the training then has its core to itself,
but for 5 % where all real time together rests. Strangers are begun as any other process.

LOW and HIGH hold the ratios' median with a probability of 95 % (order statistics, no
assumption on their distribution). The value is net as percent more; wall says something
on a quiet machine only. per_s: what the stranger did.
MLTUNE_BUILD names the build (build/release). Needs root, `ip` and two cores.
"""
import json
import math
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/process"))
import floods  # noqa: E402
import harness  # noqa: E402
import test_other_host  # noqa: E402
import test_serve  # noqa: E402
import test_socket  # noqa: E402

SECONDS = 1.0
# A stranger is at it so long before: what it may do at once is over then. Where other
# work keeps it from its full speed that takes longer.
BEFORE = float(os.environ.get("STRANGERS_BEFORE", 1.0))
ROUNDS = 21
KINDS = ("connect", "bytes", "ask", "hold")


def median_and_bounds(values):
    """The median, and order statistics that hold it with 95 %."""
    values, n = sorted(values), len(values)
    outside, below = 0.0, -1
    while outside + math.comb(n, below + 1) / 2 ** n <= 0.025:
        below += 1
        outside += math.comb(n, below) / 2 ** n
    below = max(below, 0)
    return statistics.median(values), values[below], values[n - 1 - below]


NET = ("http", "gate", "ZMQbg", "comm")  # threads, by how their names begin
RATIOS = {"cpu": lambda q, d, a: a["cpu"] / q["cpu"],
          "own": lambda q, d, a: a["cpu"] / d["cpu"],
          "net": lambda q, d, a: 1 + a["net"] / a["wall"] - q["net"] / q["wall"],
          "woken": lambda q, d, a: a["woken"] / max(q["woken"], 1e-9),
          "wall": lambda q, d, a: a["wall"] / q["wall"],
          "late": lambda q, d, a: a["wall"] / d["wall"]}


def say(at, kind, rounds, did):
    """@rounds of (quiet, decoy, attacked), each by name a clock."""
    words = {name: median_and_bounds([ratio(*r) for r in rounds])
             for name, ratio in RATIOS.items()}
    quiet = statistics.median(r[0]["cpu"] for r in rounds)
    said = " ".join(f"{name}=" + ":".join(f"{x:.3f}" for x in w)
                    for name, w in words.items())
    print(f"strangers at={at} kind={kind} rounds={len(rounds)} per_s={did:.4g} "
          f"load={os.getloadavg()[0]:.3g} quiet_us={quiet:.4g} {said} "
          f"{100 * (words['net'][0] - 1):.3g} percent", flush=True)


class Clocks:
    """What a training took for a clock, over some rounds."""

    def __init__(self, pids, advance):
        """@advance() lets SECONDS go by and says how many clocks were run."""
        self.pids, self.advance = pids, advance

    def used(self):
        """us of all threads so far, of those that strangers can wake, and how
        often all slept."""
        us, net, woken = 0, 0, 0
        for pid in self.pids:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                own = int((task / "schedstat").read_text().split()[0]) / 1000
                us += own
                if (task / "comm").read_text().startswith(NET):
                    net += own
                woken += int((task / "status").read_text().partition(
                    "\nvoluntary_ctxt_switches:")[2].split()[0])
        return us, net, woken

    def round(self):
        before, began = self.used(), time.monotonic()
        clocks = max(self.advance(), 1)
        seconds = time.monotonic() - began
        us, net, woken = ((now - then) / clocks
                          for now, then in zip(self.used(), before))
        return {"cpu": us, "net": net, "woken": woken,
                "wall": seconds * 1e6 / clocks}


def compare(at, clocks, attack, rounds, kinds):
    """@attack(kind, decoy) starts a stranger."""
    def quiet(_):
        return clocks.round(), 0

    def beside(kind, decoy):
        stranger = attack(kind, decoy)
        time.sleep(BEFORE)
        figures = clocks.round()
        did = stranger.figures()[0] / (SECONDS + BEFORE + 0.2)
        stranger.close()
        return figures, did

    ways = (quiet, lambda kind: beside(kind, True),
            lambda kind: beside(kind, False))
    for kind in kinds:
        taken, did = [], 0
        for i in range(rounds):
            got = [None] * 3
            for k in range(3):
                way = (i + k if i % 2 else i - k) % 3
                got[way] = ways[way](kind)
            taken.append([figures for figures, _ in got])
            did += got[2][1]
        say(at, kind, taken, did / rounds)


class Decoy:
    """A port that nobody answers at: its queue is full, so that the kernel drops
    whoever asks."""

    def __init__(self, host):
        self.listener = socket.socket()
        self.listener.bind((host, 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.waiting = []
        for _ in range(4):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((host, self.port))
            self.waiting.append(s)


def first_core():
    os.sched_setaffinity(0, {0})


def second_core():
    os.sched_setaffinity(0, {1})


def as_stranger():
    second_core()
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def begun(kind, addresses, **options):
    """A stranger that is at it."""
    flood = floods.Flood("plain", addresses, preexec_fn=as_stranger, **options)
    flood.begin(kind, SECONDS + BEFORE + 0.2, 0, patience=0.05)
    return flood


def by_nobody(kind, port):
    return begun(kind, [f"127.0.0.1:{port}"], **floods.nobody())


def fixed_config():
    config = harness.endless_config()
    config["tuner"] = {"strategy": "fixed"}
    config["tunables"] = {"learning_rate": {"type": "float", "fixed": 1e-4}}
    return config


def clocks_by(path):
    """Lets SECONDS go by: clocks that the one run of a server's socket ran."""
    def now():
        connection = test_socket.ByPath(path)
        connection.request("GET", "/api/v1/runs")
        clocks = json.loads(connection.getresponse().read())["runs"][0]["clocks"]
        connection.close()
        return clocks

    before = now()
    time.sleep(SECONDS)
    return now() - before


class Run(harness.Case):
    def runTest(self):
        pass

    def measure(self, rounds, kinds):
        run = self.start("run", self.write("c.json", fixed_config()))
        second_core()
        self.wait_for_training()
        path, = self.folder.glob(".mltune/runs/*/http.sock")
        url, = self.folder.glob(".mltune/runs/*/url")
        port = int(url.read_text().rstrip("/").rpartition(":")[2])
        decoy = Decoy("127.0.0.1")
        compare("run", Clocks([run.pid, *self.nodes_of(run)],
                              lambda: clocks_by(path)),
                lambda kind, quiet: by_nobody(kind, decoy.port if quiet else port),
                rounds, kinds)
        run.terminate()
        self.finish(run)


class Service(test_serve.Service):
    def runTest(self):
        pass

    def measure(self, rounds, kinds):
        run = self.submit(fixed_config())
        self.wait_for_clock(run)
        second_core()
        path, = self.folder.glob(".mltune/runs/*/http.sock")
        decoy = Decoy("127.0.0.1")
        tuners = [int(pid) for pid in subprocess.run(
            ["pgrep", "-P", str(self.service.pid)], stdout=subprocess.PIPE,
            text=True, check=True).stdout.split()]
        nodes = [int(pid) for tuner in tuners for pid in subprocess.run(
            ["pgrep", "-P", str(tuner)], stdout=subprocess.PIPE, text=True,
            check=False).stdout.split()]
        compare("service", Clocks([self.service.pid, *tuners, *nodes],
                                  lambda: clocks_by(path)),
                lambda kind, quiet: by_nobody(
                    kind, decoy.port if quiet else self.address[1]),
                rounds, kinds)


class Pair(test_other_host.OtherHost):
    def runTest(self):
        pass

    def advance(self):
        clocks, began = 0, time.monotonic()
        while time.monotonic() < began + SECONDS:
            self.tuner.ask("schedule", branch=1, first=self.first, count=50,
                           report_every=50)
            self.first += 50
            clocks += 50
        return clocks

    def attack(self, kind, decoy):
        to = [a.rpartition("//")[2] for a in self.data]
        if decoy:
            to = [f"{self.cable.here}:{self.decoy.port}"] * 2
        return begun(kind, to, enter=self.cable.enter)

    def measure(self, rounds, kinds):
        nodes = [self.start_node(i, "--listen", address)
                 for i, address in enumerate(self.data)]
        self.configure()
        self.tuner.ask("fork", branch=1, parent=0, type="training",
                       setting={"learning_rate": 1e-4})
        self.first = 0
        self.decoy = Decoy(self.cable.here)
        second_core()
        compare("nodes", Clocks([node.pid for node in nodes], self.advance),
                self.attack, rounds, kinds)
        self.end(*nodes)


def main():
    cases = {"run": Run, "service": Service, "nodes": Pair}
    at = sys.argv[1] if len(sys.argv) > 1 else ""
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    if at not in cases:
        raise SystemExit(__doc__)
    case = cases[at]()
    first_core()  # inherited by all that is started
    case.setUp()
    try:
        case.measure(rounds, sys.argv[3:] or KINDS)
    finally:
        case.doCleanups()


if __name__ == "__main__":
    main()
