#!/usr/bin/env python3
"""Faults between the nodes of a run: real processes, each in a network namespace.

    links.py [--n 100] [--kinds reset,loss,...] [--forms direct,tuner]
             [--lanes 8] [--seed 1] [--minutes M] [--mltune build/release/mltune]

Three nodes on a bridge meet over TCP, with a key. In the form `direct` they use the
parameter server directly and check their sums (links_adder.py). In the form `tuner`
they are those of a `mltune run` with `cluster.launcher` mpi, a rank in each
namespace; its result and model must be those of an undisturbed run, bit for bit.
Somewhere in the midst, at a moment and a place that the seed draws, comes one of:

  reset   three times a connection that carries data is destroyed (ss -K)
  loss    1 % of all packets are lost, all the while
  cut10   a node, or two of them from one another, is cut off for 10 s: a machine
          that is too busy to connect again in time may end
  cut     the same, for good
  stop    SIGSTOP to a node or the tuner, SIGCONT after 30 s
  kill    SIGKILL to a node or the tuner; a tuner's run is resumed

No round may hang: each has so many seconds. It ends well, or in words that name a
node that is really away. Prints a line a kind and form:

  links kind=cut10 form=direct n=100 recovered=.. ended=.. failed=0 longest_s=..

recovered: with the right sums or result. ended: the nodes said who is away.
longest_s: from what happened (a network that heals: from when it began; a stop that
is over: from SIGCONT) until all went on, or had said who is away: the processes end
a second or so later, a tuner's run when it has started its nodes three times. late: how many took longer than 15 s. missed: all was over before it
happened. After M minutes no round is begun any more. Exit code 1 if any failed,
with what was said in the folder that is named. It needs root.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDER = pathlib.Path(__file__).with_name("links_adder.py")
PYTHON = "/usr/bin/python3"
NODES = 3
KINDS = "reset", "loss", "cut10", "cut", "stop", "kill"
CUT_S, STOP_S = 10, 30
SLICES = 10
LATE_S = 15
END_S = 90  # a round, beside what it does: longer is a hang
CUT_END_S = 240  # three starts, each of which waits 30 s for its node
MEMBERS = "status", "reason", "best", "epochs", "loss", "metric", "setting"
CONFIG = {
    "name": "links",
    "app": {"name": "mlr", "data": "gen:digits?samples=3000&size=12"},
    "cluster": {"launcher": "mpi", "workers": 1, "address": "10.77.0.1"},
    "tunables": {"learning_rate": {"type": "float", "min": 1e-3, "max": 0.1,
                                   "scale": "log", "default": 0.01}},
    "tuner": {"searcher": "random", "max_trials": 4, "trial_clocks": 40},
    "stop": {"max_epochs": 60, "plateau_epochs": 1000},
    "snapshot": {"every": 0.3}, "seed": 3,
}


class Wrong(Exception):
    """What is promised is not kept."""


class Missed(Exception):
    """All was over before it happened."""


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True,
                          text=True, timeout=60)


class Net:
    """Three hosts, 10.77.0.1 to 3, on a bridge."""

    def __init__(self, name):
        self.name = name
        self.remove()
        ip("netns", "add", f"{name}-sw")
        ip("-n", f"{name}-sw", "link", "add", "br0", "type", "bridge")
        ip("-n", f"{name}-sw", "link", "set", "br0", "up")
        for i in range(NODES):
            place = self.place(i)
            ip("netns", "add", place)
            ip("-n", f"{name}-sw", "link", "add", f"v{i}", "type", "veth",
               "peer", "name", "eth0", "netns", place)
            ip("-n", f"{name}-sw", "link", "set", f"v{i}", "master", "br0",
               "up")
            ip("-n", place, "addr", "add", f"{self.address(i)}/24", "dev",
               "eth0")
            for link in "lo", "eth0":
                ip("-n", place, "link", "set", link, "up")

    def place(self, i):
        return f"{self.name}-{i}"

    @staticmethod
    def address(i):
        return f"10.77.0.{i + 1}"

    def remove(self):
        for what in (*range(NODES), "sw"):
            ip("netns", "del", f"{self.name}-{what}", check=False)

    def inside(self, i, *words):
        return ["ip", "netns", "exec", self.place(i), *map(str, words)]

    def do(self, i, *words):
        return subprocess.run(self.inside(i, *words), check=True, text=True,
                              capture_output=True, timeout=60).stdout

    # ---- faults ----------------------------------------------------------

    def lose(self):
        for i in range(NODES):
            self.do(i, "iptables", "-A", "INPUT", "-i", "eth0", "-m",
                    "statistic", "--mode", "random", "--probability", "0.01",
                    "-j", "DROP")

    def cut(self, i, j=None):
        """Node @i off from all, or from node @j alone."""
        if j is None:
            ip("-n", f"{self.name}-sw", "link", "set", f"v{i}", "down")
            return
        for a, b in (i, j), (j, i):
            self.do(a, "iptables", "-A", "INPUT", "-s", self.address(b), "-j",
                    "DROP")

    def heal(self):
        for i in range(NODES):
            ip("-n", f"{self.name}-sw", "link", "set", f"v{i}", "up")
            self.do(i, "iptables", "-F")

    def reset(self, i, rng):
        """A connection of node @i to another: whose, or None."""
        found = []
        for line in self.do(i, "ss", "-Htn", "state", "established") \
                .splitlines():
            _, _, mine, other = line.split()
            if other.startswith("10.77.0.") and not other.startswith(
                    self.address(i) + ":"):
                found.append((mine, other))
        if not found:
            return None
        mine, other = rng.choice(sorted(found))
        self.do(i, "ss", "-K", "-tn", "src", mine, "dst", other)
        return other


class Round:
    """One form under one kind, in a folder of its own."""

    def __init__(self, net, kind, number, options, reference):
        self.net, self.kind, self.number = net, kind, number
        self.options, self.reference = options, reference
        self.rng = random.Random(f"{options.seed} {kind} {number}")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mltune-links-"))
        self.env = {**os.environ, "MLTUNE_LIBRARY":
                    str(options.build / "libmltune.so"), "TMPDIR":
                    str(self.folder)}
        self.end = time.time() + END_S
        self.begun = []
        self.away = set()  # nodes that are really away
        self.happened = 0.0
        self.over = None  # a fault that ends
        self.what = kind

    # ---- both forms ------------------------------------------------------

    def longest_pause(self, at):
        """Between two of the times @at, since it happened: of who was stopped,
        since it may go on."""
        longest = 0.0
        for a, b in zip(at, at[1:]):
            if b > self.happened:
                begin = max(a, self.happened)
                if self.over and self.kind == "stop":
                    begin = max(begin, min(b, self.over))
                longest = max(longest, b - begin)
        return longest

    def start(self, i, name, *words, **env):
        out, err = (open(self.folder / f"{name}.{x}", "ab")
                    for x in ("out", "err"))
        with out, err:
            process = subprocess.Popen(
                self.net.inside(i, *words), stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, env={**self.env, **env},
                cwd=self.folder)
        self.begun.append(process)
        return process

    def text(self, name):
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def wait(self, condition, what, pause=0.05):
        while not condition():
            if time.time() > self.end:
                raise Wrong(f"hangs: {what}")
            time.sleep(pause)

    def nap(self, seconds):
        time.sleep(seconds)

    def strike(self):
        """What the kind does."""
        rng, net = self.rng, self.net
        if self.kind == "loss":
            self.happened = time.time()
            return
        self.nap(rng.uniform(0.1, 2))
        self.happened = time.time()
        if self.kind == "reset":
            whose = []
            for _ in range(3):
                whose.append(net.reset(rng.randrange(NODES), rng))
                self.nap(rng.uniform(0.05, 0.5))
            self.what += f" {whose}"
            if whose == [None] * 3:
                raise Missed
        elif self.kind in ("cut", "cut10"):
            i = rng.randrange(NODES)
            j = (i + rng.randrange(1, NODES)) % NODES
            whole = rng.random() < 0.5
            self.away = {i} if whole else {i, j}
            self.what += f" {i}" if whole else f" {i}-{j}"
            net.cut(i, None if whole else j)
            if self.kind == "cut10":
                self.nap(CUT_S)
                net.heal()
        else:
            self.signal(rng.choice(self.roles()))

    def signal(self, role):
        self.what += f" {role}"
        self.away = {role} if role != "tuner" else set()
        pid = self.pid_of(role)
        if self.kind == "kill":
            os.kill(pid, signal.SIGKILL)
            return
        os.kill(pid, signal.SIGSTOP)
        self.nap(STOP_S)
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
        self.over = time.time()

    def go(self):
        """(recovered, seconds). Raises Wrong."""
        self.net.heal()
        if self.kind == "loss":
            self.net.lose()
        try:
            return self.play()
        finally:
            for process in self.begun:
                if process.poll() is None:
                    process.kill()
                process.wait()
            self.kill_all()

    def kill_all(self):
        for i in range(NODES):
            for pid in self.pids_in(i):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def pids_in(self, i):
        return [int(p) for p in ip("netns", "pids", self.net.place(i),
                                   check=False).stdout.split()]

    def named(self, text):
        """Nodes that somebody says are gone."""
        return {int(n) for n in re.findall(
            r"node (\d) (?:is gone|cannot be reached|\(pid \d+\)|on \S+)",
            text)}


class Direct(Round):
    def roles(self):
        return range(NODES)

    def pid_of(self, role):
        return self.nodes[role].pid

    def play(self):
        key = f"{self.rng.getrandbits(256):064x}"
        model = self.rng.choice(("bsp", "bsp", "ssp", "async"))
        self.what += f" {model}"
        # `ip netns exec` becomes the program: its pid is the node's.
        self.nodes = [self.start(
            i, f"node-{i}", PYTHON, ADDER, i, NODES, model,
            f"tcp://{self.net.address(0)}:7000",
            f"tcp://{self.net.address(i)}:7001", SLICES, MLTUNE_KEY=key)
            for i in range(NODES)]
        self.wait(lambda: all("at " in self.text(f"node-{i}.out") or
                              self.nodes[i].poll() is not None
                              for i in range(NODES)), "no start")
        ends = [None] * NODES
        watcher = threading.Thread(target=self.watch_ends, args=(ends,))
        watcher.start()
        try:
            self.strike()
        finally:
            self.end = time.time() + END_S
            watcher.join()
        if None in ends:
            raise Wrong("hangs: " + ", ".join(
                f"node {i}" for i in range(NODES) if ends[i] is None))
        return self.judge(ends)

    def watch_ends(self, ends):
        """When they ended."""
        while None in ends and time.time() < self.end:
            for i, node in enumerate(self.nodes):
                if ends[i] is None and node.poll() is not None:
                    ends[i] = time.time()
            time.sleep(0.02)

    def judge(self, ends):
        if max(ends) < self.happened:
            raise Missed
        codes = [node.returncode for node in self.nodes]
        self.what += " ends " + " ".join(f"{e - self.happened:.1f}" for e in ends)
        right = ["right" in self.text(f"node-{i}.out") for i in range(NODES)]
        for i in range(NODES):
            if "holds" in self.text(f"node-{i}.err"):
                raise Wrong(f"lost or doubled: {self.text(f'node-{i}.err')}")
        if codes == [0] * NODES and all(right):
            return True, self.longest_stall()
        if self.kind in ("reset", "loss"):
            raise Wrong(f"ended with {codes}")
        latest = 0.0
        for i in range(NODES):
            if codes[i] == 0 and right[i]:
                continue  # it was done before
            if self.kind == "kill" and i in self.away:
                continue
            said = self.named(self.text(f"node-{i}.err"))
            others = self.away - {i}
            if codes[i] != 1 or not said:
                raise Wrong(f"node {i} ends with {codes[i]}, names {said}")
            if self.kind in ("stop", "kill") and i not in self.away and \
                    not said & others and len(self.away) == 1:
                raise Wrong(f"node {i} names {said}, not {others}")
            begin = self.over if i in self.away and self.over else \
                self.happened
            latest = max(latest, self.said_at(i, ends[i]) - begin)
        return False, latest

    def said_at(self, i, ended):
        """When its call had failed, and it had said so; its end comes after."""
        at = re.search(r"^said at (\S+)$", self.text(f"node-{i}.err"), re.M)
        return float(at.group(1)) if at else ended

    def longest_stall(self):
        """Of what all nodes said of their way, since it happened."""
        return max(self.longest_pause(
            [float(t) for t in re.findall(r"^at \d+ (\S+)$",
                                          self.text(f"node-{i}.out"), re.M)])
            for i in range(NODES))


class Tuner(Round):
    def roles(self):
        return "tuner", *range(NODES)

    def pid_of(self, role):
        found = None
        for pid in self.pids_in(0 if role == "tuner" else role):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() \
                    .split(b"\0")
            except OSError:
                continue
            wanted = ((b"run", b"resume") if role == "tuner" else (b"node",))
            if os.path.basename(words[0]) == b"mltune" and \
                    words[1] in wanted:
                found = pid
        if found is None:
            raise Wrong(f"no process of {role}")
        return found

    def ranks(self, *words):
        job = f"links{self.number}-{len(self.begun)}"
        ranks = [self.start(
            i, f"rank-{i}", self.options.mltune, *words, "--json", "--state",
            "state", OMPI_COMM_WORLD_RANK=str(i),
            OMPI_COMM_WORLD_SIZE=str(NODES), MLTUNE_JOB=job)
            for i in range(NODES)]
        return ranks

    def snapshots(self):
        return list(self.folder.glob("state/runs/*/snapshots/0*"))

    def run_id(self):
        runs = list(self.folder.glob("state/runs/*"))
        return runs[0].name if runs else None

    def records(self):
        """(wall seconds, record) of the journal."""
        path = self.folder / "state/mltune.db"
        if not path.exists():
            return []
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)
        try:
            return [(wall * 1e-9, json.loads(text)) for wall, text in
                    db.execute("SELECT wall_ns, json FROM records ORDER BY "
                               "run, seq")]
        finally:
            db.close()

    def play(self):
        (self.folder / "config.json").write_text(json.dumps(CONFIG))
        ranks = self.ranks("run", "config.json")
        self.wait(lambda: self.snapshots() or ranks[0].poll() is not None,
                  "no start")
        self.told = None
        self.strike()
        self.end = time.time() + (END_S if self.kind != "cut" else CUT_END_S)
        times = 0
        while True:
            self.wait(lambda: self.ended(ranks[0]), "rank 0")
            code = ranks[0].returncode
            self.end_ranks(ranks[1:])
            if code == 0:
                break
            times += 1
            if self.kind == "cut":
                return self.judge_end(code)
            if times > 3:
                raise Wrong(f"ends with {code} again and again")
            if code != -signal.SIGKILL and self.kind not in ("stop", "kill"):
                raise Wrong(f"ends with {code}")
            ranks = self.ranks("resume", self.run_id())
        return self.judge()

    def ended(self, rank):
        if self.told is None and self.named(self.text("rank-0.err")):
            self.told = time.time()
        return rank.poll() is not None

    def end_ranks(self, ranks):
        """As mpirun does where one is gone: each has ended soon."""
        for rank in ranks:
            if rank.poll() is None:
                rank.terminate()
        self.wait(lambda: all(r.poll() is not None for r in ranks), "a rank")
        self.wait(lambda: not any(self.pids_in(i) for i in range(NODES)),
                  "a node that is left")

    def said(self):
        return "".join(p.read_text(errors="replace") for p in [
            self.folder / "rank-0.err", self.folder / "rank-0.out",
            *self.folder.glob("state/runs/*/*.log")])

    def judge_end(self, code):
        """When the loss was told; the run ends later, since the node is started
        again three times."""
        said = self.named(self.text("rank-0.err"))
        if not said & self.away:
            raise Wrong(f"ends with {code}, names {said}, not {self.away}")
        if self.told is None:
            raise Wrong("nobody is told")
        return False, self.told - self.happened

    def result(self):
        text = self.text("rank-0.out").strip()
        result = json.loads(text.splitlines()[-1])
        tables = {p.name: p.read_bytes()
                  for p in pathlib.Path(result["model"]).glob("*.npy")}
        return {m: result[m] for m in MEMBERS}, tables

    def judge(self):
        result, tables = self.result()
        if self.reference and result != self.reference[0]:
            raise Wrong(f"result {result}, not {self.reference[0]}")
        if self.reference and tables != self.reference[1]:
            raise Wrong("another model")
        if max(at for at, _ in self.records()) < self.happened:
            raise Missed
        restarted = [at for at, r in self.records()
                     if r["kind"] == "run_resumed"]
        if restarted and self.away:
            said = self.named(self.said())
            if not said & self.away:
                raise Wrong(f"names {said}, not {self.away}")
        return True, self.longest_stall()

    def longest_stall(self):
        return self.longest_pause(
            [w for w, r in self.records()
             if r["kind"] in ("progress", "run_finished")])


FORMS = {"direct": Direct, "tuner": Tuner}


class Sums:
    def __init__(self):
        self.recovered = self.ended = self.failed = self.missed = 0
        self.seconds = []

    def line(self, kind, form):
        at = sorted(self.seconds) or [0]
        return (f"links kind={kind} form={form} "
                f"n={self.recovered + self.ended + self.failed} "
                f"recovered={self.recovered} ended={self.ended} "
                f"failed={self.failed} missed={self.missed} late={sum(s > LATE_S for s in at)} "
                f"median_s={at[len(at) // 2]:.1f} longest_s={at[-1]:.1f}")


def lane(number, work, sums, options, reference, lock):
    """Plays rounds of @work until none is left."""
    net = Net(f"lk{os.getpid() % 10000}-{number}")
    try:
        while True:
            try:
                form, kind, i = work.get_nowait()
            except queue.Empty:
                return
            if time.time() > options.until:
                continue
            one = FORMS[form](net, kind, i, options,
                              reference if form == "tuner" else None)
            try:
                recovered, seconds = one.go()
                why = ""
            except Missed:
                with lock:
                    sums[kind, form].missed += 1
                shutil.rmtree(one.folder, ignore_errors=True)
                continue
            except Exception as e:  # whatever it is, the round failed
                why = f"{type(e).__name__}: {e}"
            with lock:
                s = sums[kind, form]
                if why:
                    s.failed += 1
                    print(f"FAILED {form} {kind} {i} ({one.what}): {why}; "
                          f"{one.folder}", flush=True)
                else:
                    s.recovered += recovered
                    s.ended += not recovered
                    s.seconds.append(seconds)
                    if options.verbose:
                        print(f"{form} {i} {one.what}: "
                              f"{'recovered' if recovered else 'ended'} "
                              f"{seconds:.1f} s", flush=True)
            if not why:
                shutil.rmtree(one.folder, ignore_errors=True)
    finally:
        net.remove()


def undisturbed(options):
    """Result and model of the run that nobody disturbs."""
    net = Net(f"lk{os.getpid() % 10000}-u")
    one = Tuner(net, "loss", 0, options, None)
    one.kind = "none"
    one.strike = lambda: None
    try:
        one.go()
        result = one.result()
        shutil.rmtree(one.folder, ignore_errors=True)
        return result
    finally:
        net.remove()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--mltune", default=ROOT / "build/release/mltune",
                        type=pathlib.Path)
    options = parser.parse_args()
    options.mltune = options.mltune.resolve()
    options.build = options.mltune.parent
    options.until = time.time() + options.minutes * 60
    forms, kinds = options.forms.split(","), options.kinds.split(",")
    reference = undisturbed(options) if "tuner" in forms else None
    work, sums, lock = queue.Queue(), collections.defaultdict(Sums), \
        threading.Lock()
    for i in range(options.first, options.first + options.n):
        for form in forms:
            for kind in kinds:
                work.put((form, kind, i))
    with concurrent.futures.ThreadPoolExecutor(options.lanes) as pool:
        lanes = [pool.submit(lane, i, work, sums, options, reference, lock)
                 for i in range(options.lanes)]
    broken = [f.exception() for f in lanes if f.exception()]
    for e in broken:
        print(f"FAILED a lane ended: {type(e).__name__}: {e}", flush=True)
    for kind in kinds:
        for form in forms:
            print(sums[kind, form].line(kind, form), flush=True)
    failed = sum(s.failed for s in sums.values())
    played = failed + sum(s.recovered + s.ended for s in sums.values())
    return 1 if broken or failed or not played else 0


if __name__ == "__main__":
    sys.exit(main())
