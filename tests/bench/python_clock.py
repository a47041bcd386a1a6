#!/usr/bin/env python3
"""What mltune costs a program in Python, in CPU time of its process.

    /usr/bin/python3 tests/bench/python_clock.py [MODEL [ROUNDS]]

One measurement a line, `name params value unit`: the median over interleaved
rounds, and in brackets the middle half.

clock_plain   us a clock of a loop without mltune; of model=none: an empty one
clock_run     of the same one under a tuner
clock_more    of the same rounds: a block of clocks under the tuner, less the
              mean of the plain blocks just before and just after it
clock_between us of wall time from the end of a loop's body to its next begin, and
              in `batch.loss`: what mltune's own code takes, as cold as the
              body leaves it; it cannot be more than clock_more by much
switch        us from a slice's turn to its first clock, and from its last one to
              its end, after clocks of another branch: memory of its own
              (own), the same while the next slice waits already (ahead), and
              shared (first write: copied)
"""
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "apps/python"), str(ROOT / "tests/process")]
import test_node  # noqa: E402

BLOCK = 20      # clocks; the loads of a shared machine change more slowly
BLOCKS = 10     # a slice, whose first clock is not measured
ROUNDS = {"none": 400, "mlp": 400, "lenet": 150, "adam11m": 0}
SLICES = 30     # beyond those that rounds need
SHORT = 3       # clocks of a slice where clocks are not measured


def say(name, params, values, unit):
    values = sorted(values)
    n = len(values)
    print(name, " ".join(f"{k}={v}" for k, v in params.items()), f"of={n}",
          f"{statistics.median(values):.4g}", unit,
          f"[{values[n // 4]:.4g} {values[3 * n // 4]:.4g}]", flush=True)


class Driver(multiprocessing.Process):
    """A tuner, in a process of its own: slices of branches by turns."""

    def __init__(self, rounds):
        super().__init__(daemon=True)
        self.clocks = BLOCK * BLOCKS + 1 if rounds else SHORT
        self.slices = -(-rounds // BLOCKS) if rounds else SLICES
        self.own, self.ahead, self.shared = [], [], []
        self.next = 0
        self.here, self.there = multiprocessing.Pipe()

    def begin(self):
        """Starts it. Where it listens."""
        self.start()
        self.there.close()
        return self.here.recv()

    def end(self):
        """Waits for its end. What it was told, by kind of switch."""
        found = self.here.recv()
        self.here.send("end")
        self.join()
        return found

    def schedule(self, branch, clocks):
        op = self.t.schedule(branch, self.next, clocks, clocks)
        self.next += clocks
        return op

    def ended(self, op):
        """Microseconds of switching that the program tells of a slice."""
        return self.t.until_done(op)[1]["switch_s"] * 1e6

    def slice(self, branch, clocks):
        return self.ended(self.schedule(branch, clocks))

    def slices_ahead(self, n):
        """The next one waits already as one ends."""
        out = [self.schedule(1, SHORT)]
        for i in range(n):
            out.append(self.schedule(1 + (i + 1) % 2, SHORT))
            self.ahead.append(self.ended(out.pop(0)))
        self.ended(out.pop())
        del self.ahead[0]

    def run(self):
        t = self.t = test_node.Tuner()
        self.there.send(t.endpoint)
        t.receive()
        t.ask("config", config={"tunables": {}}, folder="/", seed=1)
        ready = t.receive()
        assert ready["kind"] == "ready", ready
        for b in (1, 2):
            t.fork(b)
            t.receive()
        for i in range(self.slices):
            took = self.slice(1 + i % 2, self.clocks)
            if i > 3:  # the first slice of each copies
                self.own.append(took)
        for i in range(SLICES):
            self.own.append(self.slice(1 + i % 2, 1))
        self.slices_ahead(SLICES)
        for i in range(SLICES):
            t.fork(10 + i, 1)
            t.receive()
            self.shared.append(self.slice(10 + i, 1))
            t.ask("free", branch=10 + i)
            t.receive()
        t.ask("stop", reason="bench")
        self.there.send({"own": self.own, "ahead": self.ahead,
                         "shared": self.shared})
        self.there.recv()  # what was sent last is to arrive


def make(name):
    """Model, optimizer, samples and a step; of `none` nothing."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    torch.manual_seed(1)
    if name == "none":
        return [], 64 * BLOCK, lambda ids: 0.5
    if name == "lenet":
        x, classes = torch.randn(2048, 1, 28, 28), 10
        net = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, classes))
    elif name == "mlp":
        x, classes = torch.randn(2048, 784), 10
        net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(),
                            nn.Linear(256, classes))
    else:  # 40 layers, 11 million parameters
        x, classes = torch.randn(2048, 525), 525
        layers = [nn.Linear(525, 525) for _ in range(40)]
        net = nn.Sequential(*[m for one in layers for m in (one, nn.ReLU())])
    y = torch.randint(0, classes, (len(x),))
    if name == "adam11m":
        opt = torch.optim.Adam(net.parameters(), lr=1e-4)
    else:
        opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step(ids):
        loss = F.cross_entropy(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss
    return [net, opt], len(x), step


class Blocks:
    """Times of blocks of plain clocks and of clocks under the tuner by turns."""

    def __init__(self, name, rounds):
        import torch
        self.rounds, self.named = rounds, name != "none"
        _, n, self.step = make(name)
        self.ids = [torch.randperm(n)[i:i + 64] for i in range(0, n - 63, 64)]
        self.plain, self.tuned, self.more = [], [], []
        self.last = self.begun = 0.0
        self.at = 0

    def run_plain(self):
        begun = time.process_time()
        for i in range(BLOCK):
            loss = self.step(self.ids[i % len(self.ids)])
            if self.named:
                loss.item()
        return (time.process_time() - begun) / BLOCK * 1e6

    def clock(self, of_slice):
        """After clock @of_slice of a slice, at the end of the loop's body."""
        if len(self.tuned) >= self.rounds or of_slice % BLOCK:
            return
        if of_slice:
            took = (time.process_time() - self.begun) / BLOCK * 1e6
        plain = self.run_plain()
        if of_slice:
            self.tuned.append(took)
            self.plain.append(plain)
            self.more.append(took - (plain + self.last) / 2)
        self.last, self.begun = plain, time.process_time()


def measure(name, rounds):
    """In a process of its own: it connects once."""
    driver = Driver(rounds)
    os.environ["MLTUNE_TUNER"] = driver.begin()
    import torch
    torch.set_num_threads(1)
    import mltune
    mltune.config()
    blocks = Blocks(name, rounds) if rounds else None
    state, n, step = make(name)
    run = mltune.Run(*state, samples=n)
    seen = -1  # the dry clock
    between, ended, now = [], 0.0, time.perf_counter
    for batch in run.train():
        begun = now()
        loss = step(batch.samples)
        told = now()
        batch.loss(loss)
        if blocks and seen >= 0:
            at = seen % driver.clocks
            if at % BLOCK > 1:  # else the body was longer
                between.append((now() - told + begun - ended) * 1e6)
            blocks.clock(at)
        seen += 1
        ended = now()
    switches = driver.end()
    params = {"model": name, "batch": 64}
    if blocks:
        say("clock_plain", params, blocks.plain, "us")
        say("clock_run", params, blocks.tuned, "us")
        say("clock_more", params, blocks.more, "us")
        say("clock_between", params, between, "us")
    for memory, values in switches.items():
        say("switch", {**params, "memory": memory}, values, "us")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        for model in sys.argv[1:] or ROUNDS:
            subprocess.run([sys.executable, __file__, model,
                            str(ROUNDS[model])], check=True)
