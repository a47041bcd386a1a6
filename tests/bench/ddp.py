#!/usr/bin/env python3
"""Programs of several processes: what agreeing on the end of a slice costs, and
whether two are tuned to what one is tuned to.

    /usr/bin/python3 tests/bench/ddp.py agree [--rounds 100]
    /usr/bin/python3 tests/bench/ddp.py quality --data DIR [--seeds 5]

One measurement a line, `name params value unit`: the median, and in brackets the
middle half.

agree     two processes of tests/process/programs/ddp.py under a tuner of this
          file, which cuts a slice at a random moment:
  ddp_clock   us a clock takes
  ddp_hold    us from `hold` to the last answer
  ddp_end     us from `cut`, which names the end, to the end of the slice
  ddp_more    clocks that the slower process runs after its answer, since another
              was further
  own_end     us from `cut` to the end of the slice, of one process alone
quality   optdigits (DIR has its two files), the same epochs and seeds, by one
          process and by two: best accuracy on the validation set. A clock of
          both trains on 16, 32 or 64 samples (--batch), so two processes take
          half of them each. With --each the sizes are those of a process: two train on
          twice as many a clock, in half the steps
"""
import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/process")]
import test_node  # noqa: E402

PROGRAM = ROOT / "tests/process/programs/ddp.py"
CLOCKS = 10**6


def say(name, params, values, unit):
    values = sorted(values)
    n = len(values)
    print(name, " ".join(f"{k}={v}" for k, v in params.items()),
          f"{statistics.median(values):.5g}", unit,
          f"[{values[n // 4]:.5g} {values[3 * n // 4]:.5g}]", flush=True)


# ---- the cost of agreeing ----------------------------------------------------


class Program:
    """@nodes processes of one program, asked together."""

    def __init__(self, nodes):
        self.tuner = test_node.Tuner()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        env = {**os.environ, "PYTHONPATH": str(ROOT / "apps/python"),
               "MLTUNE_TUNER": self.tuner.endpoint, "MLTUNE_NODES": str(nodes),
               "WORLD_SIZE": str(nodes), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
        self.processes = [subprocess.Popen(
            [sys.executable, PROGRAM], env={**env, "RANK": str(i),
                                            "MLTUNE_NODE": str(i)})
            for i in range(nodes)]
        self.peers = {}
        while len(self.peers) < nodes:
            hello = self.tuner.receive()
            self.peers[self.tuner.peer] = hello["node"]
        self.clock = 0
        self.answers(self.ask("config", config={}, folder="/", seed=1))

    def ask(self, kind, **members):
        t = self.tuner
        t.op += 1
        for peer in self.peers:
            t.peer = peer
            t.send_bytes(json.dumps({"kind": kind, "op": t.op,
                                     **members}).encode())
        return t.op

    def answers(self, *ops):
        """What all say until each of @ops is answered by all."""
        left = {(peer, op) for peer in self.peers for op in ops}
        found = []
        while left:
            m = self.tuner.receive()
            found.append(m)
            assert m["kind"] != "failed", m
            if m["kind"] != "report":
                left.discard((self.tuner.peer, m["op"]))
        return found

    def begin(self):
        """A slice that will be cut; its number."""
        op = self.ask("schedule", branch=1, first=self.clock, count=CLOCKS,
                      report_every=1000)
        self.clock += CLOCKS
        return op

    def close(self):
        self.ask("stop", reason="bench")
        for process in self.processes:
            process.wait(20)
        self.tuner.close()


def clock_us(found):
    """Of a slice's reports: of a process, us a clock."""
    reports = [m for m in found if m["kind"] == "report"]
    clocks = sum(c for m in reports for c in m["clocks"])
    return 1e6 * sum(s for m in reports for s in m["seconds"]) / max(1, clocks)


def agree(rounds):
    moments = random.Random(1)
    figures = {name: [] for name in ("clock", "hold", "end", "more")}
    program = Program(2)
    program.answers(program.ask("fork", branch=1, parent=0, type="training",
                                setting={"learning_rate": 0.01}))
    for _ in range(rounds):
        run = program.begin()
        time.sleep(moments.uniform(0.05, 0.15))
        asked = time.perf_counter()
        hold = program.ask("hold", target=run)
        found = program.answers(hold)
        answered = time.perf_counter()
        begun = [m["clocks"] for m in found
                 if m["kind"] == "done" and m["op"] == hold]
        program.ask("cut", target=run, clocks=max(begun))
        found += program.answers(run)
        ended = time.perf_counter()
        figures["hold"].append(1e6 * (answered - asked))
        figures["end"].append(1e6 * (ended - answered))
        figures["more"].append(max(begun) - min(begun))
        figures["clock"].append(clock_us(found))
    program.close()
    for name, values in figures.items():
        say(f"ddp_{name}", {"processes": 2}, values,
            "clocks" if name == "more" else "us")
    program = Program(1)
    program.answers(program.ask("fork", branch=1, parent=0, type="training",
                                setting={"learning_rate": 0.01}))
    ends = []
    for _ in range(rounds):
        run = program.begin()
        time.sleep(moments.uniform(0.05, 0.15))
        asked = time.perf_counter()
        program.ask("cut", target=run)
        program.answers(run)
        ends.append(1e6 * (time.perf_counter() - asked))
    program.close()
    say("own_end", {"processes": 1}, ends, "us")


# ---- the same accuracy -------------------------------------------------------


def tuned(args, nodes, seed):
    """Best accuracy of a run."""
    sizes = [n if args.each else n // nodes for n in args.batch]
    config = {
        "name": f"digits-{nodes}-{seed}", "seed": seed,
        "app": {"command": [sys.executable,
                            str(ROOT / "tests/bench/ddp_digits.py")],
                "settings": {"data": str(args.data.resolve())}},
        "cluster": {"nodes": nodes},
        "tunables": {
            "learning_rate": {"type": "float", "min": 1e-4, "max": 1,
                              "scale": "log", "default": 0.05},
            "batch_size": {"type": "int", "values": sizes,
                           "default": sizes[len(sizes) // 2]},
            "dropout": {"type": "float", "min": 0, "max": 0.6,
                        "default": 0.1}},
        "stop": {"max_epochs": args.epochs}}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "c.json").write_text(json.dumps(config))
        done = subprocess.run([args.mltune.resolve(), "run", "c.json",
                               "--quiet", "--json"], cwd=folder, text=True,
                              stdout=subprocess.PIPE, check=True)
    result = json.loads(done.stdout)
    return result["metric"], result["setting"]["batch_size"]


def quality(args):
    found = {1: [], 2: []}
    for seed in range(args.first, args.first + args.seeds):
        for nodes, values in found.items():
            value, batch = tuned(args, nodes, seed)
            values.append(value)
            print(f"# seed {seed}, {nodes} processes: {value:.4f}, "
                  f"batches of {batch} a process at last", flush=True)
    params = {"epochs": args.epochs, "seeds": len(found[1]),
              "sizes_of": "process" if args.each else "clock"}
    for nodes, values in found.items():
        say("ddp_accuracy", {"processes": nodes, **params}, values, "of 1")
    more = [b - a for a, b in zip(found[1], found[2])]
    say("ddp_accuracy_more", {"processes": "2-1", **params}, more, "of 1")
    if len(more) > 1:
        print("# mean difference "
              f"{statistics.mean(more):+.4f}, its standard error "
              f"{statistics.stdev(more) / len(more) ** 0.5:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", choices=("agree", "quality"))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--batch", type=int, nargs="+", default=[16, 32, 64],
                        help="sizes to choose from")
    parser.add_argument("--mltune", type=pathlib.Path,
                        default=ROOT / "build/release/mltune")
    args = parser.parse_args()
    if args.job == "agree":
        agree(args.rounds)
    else:
        if not args.data:
            parser.error("quality: --data DIR is missing")
        quality(args)


if __name__ == "__main__":
    main()
