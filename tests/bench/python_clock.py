#!/usr/bin/env python3
"""What mltune costs a program in Python, in CPU time of its process.

    /usr/bin/python3 tests/bench/python_clock.py [ROUNDS]

One measurement a line, `name params value unit`: the median over interleaved
rounds, and in brackets the middle half.

clock_plain   us a clock of a loop without mltune; of model=none: an empty one
clock_run     of the same one under a tuner
clock_more    the difference of neighbouring rounds
switch        us from a slice's turn to its first clock, and from its last one to
              its end: memory of its own, and shared (first write: copied)
"""
import os
import pathlib
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "apps/python"), str(ROOT / "tests/process")]
import test_node  # noqa: E402

CLOCKS = 200


def say(name, params, values, unit):
    values = sorted(values)
    n = len(values)
    print(name, " ".join(f"{k}={v}" for k, v in params.items()),
          f"{statistics.median(values):.4g}", unit,
          f"[{values[n // 4]:.4g} {values[3 * n // 4]:.4g}]", flush=True)


class Driver(threading.Thread):
    """A tuner: slices of branches by turns."""

    def __init__(self, rounds):
        super().__init__(daemon=True)
        self.t = test_node.Tuner()
        self.rounds = rounds
        self.own, self.shared = [], []

    def run(self):
        t = self.t
        t.receive()
        t.ask("config", config={"tunables": {}}, folder="/", seed=1)
        assert t.receive()["kind"] == "ready"
        for b in (1, 2):
            t.fork(b)
            t.receive()
        clock = 0
        for i in range(2 * self.rounds):
            op = t.schedule(1 + i % 2, clock, CLOCKS, CLOCKS)
            clock += CLOCKS
            done = t.until_done(op)[1]
            (self.own if i > 1 else self.shared).append(done["switch_s"] * 1e6)
        for i in range(self.rounds):
            t.fork(10 + i, 1)
            t.receive()
            op = t.schedule(10 + i, clock, 1, 1)
            clock += 1
            self.shared.append(t.until_done(op)[1]["switch_s"] * 1e6)
            t.ask("free", branch=10 + i)
            t.receive()
        t.ask("stop", reason="bench")


def make(name):
    """Model, optimizer, samples and a step; of `none` nothing."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    torch.manual_seed(1)
    if name == "none":
        return [], 64 * CLOCKS, lambda ids: 0.5
    if name == "lenet":
        x, classes = torch.randn(2048, 1, 28, 28), 10
        net = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, classes))
    else:
        x, classes = torch.randn(2048, 784), 10
        net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(),
                            nn.Linear(256, classes))
    y = torch.randint(0, classes, (len(x),))
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step(ids):
        loss = F.cross_entropy(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss
    return [net, opt], len(x), step


def measure(name, rounds):
    """In a process of its own: it connects once."""
    import torch
    torch.set_num_threads(1)
    driver = Driver(rounds)
    os.environ["MLTUNE_TUNER"] = driver.t.endpoint
    driver.start()
    import mltune
    mltune.config()
    _, n, plain_step = make(name)
    state, n, step = make(name)
    run = mltune.Run(*state, samples=n)
    ids = [torch.randperm(n)[i:i + 64] for i in range(0, n - 63, 64)]
    plain, tuned, more = [], [], []
    begin, seen = 0.0, 0

    def one_plain():
        begun = time.process_time()
        for i in range(CLOCKS):
            loss = plain_step(ids[i % len(ids)])
            if name != "none":
                loss.item()
        plain.append((time.process_time() - begun) / CLOCKS * 1e6)

    for batch in run.train():
        if seen >= 1 and (seen - 1) % CLOCKS == 0 and \
                len(tuned) < 2 * rounds:
            one_plain()
            begin = time.process_time()
        seen += 1
        batch.loss(step(batch.samples))
        if (seen - 1) % CLOCKS == 0 and seen > 1 and len(tuned) < 2 * rounds:
            tuned.append((time.process_time() - begin) / CLOCKS * 1e6)
            more.append(tuned[-1] - plain[-1])
    driver.join()
    params = {"model": name, "batch": 64}
    say("clock_plain", params, plain[1:], "us")
    say("clock_run", params, tuned[1:], "us")
    say("clock_more", params, more[1:], "us")
    say("switch", {**params, "memory": "own"}, driver.own, "us")
    say("switch", {**params, "memory": "shared"}, driver.shared, "us")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        import subprocess
        for model in ("none", "mlp", "lenet"):
            subprocess.run([sys.executable, __file__, model,
                            *(sys.argv[1:] or ["21"])], check=True)
