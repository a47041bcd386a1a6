#!/usr/bin/python3
"""The parameter server without a tuner, from Python: direct.c once more.

    direct.py [DIR]

Logistic regression on two workers. Trains for a while, forks the state, tries
two learning rates from that very state, and goes on with the better one. Given
a folder, it writes a checkpoint there while it goes on, and in the end the
weights, as weights.npy: those of direct.c, bit for bit. For that the sums are
made in its order, and expf and log are the C library's; a program of its own
would use numpy's, and be faster.
"""
import ctypes
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

from mltune.ps import Server  # noqa: E402

SAMPLES, FEATURES, WORKERS, CLOCKS = 4000, 20, 2, 20
LOSS, CORRECT = 0, 1
RATES = (0.01, 10.0)

libm = ctypes.CDLL("libm.so.6")
libm.expf.restype, libm.expf.argtypes = ctypes.c_float, [ctypes.c_float]
libm.log.restype, libm.log.argtypes = ctypes.c_double, [ctypes.c_double]


def make_data():
    """Points, and what a hidden linear rule says of them, 0 or 1."""
    state = 1

    def uniform(count):
        nonlocal state
        out = np.empty(count, np.float32)
        for i in range(count):
            state = (state * 1664525 + 1013904223) % 2 ** 32
            out[i] = np.float32(state >> 8) / np.float32(2 ** 24) * 2 - 1
        return out
    hidden = uniform(FEATURES)
    x = uniform(SAMPLES * FEATURES).reshape(SAMPLES, FEATURES)
    return x, (scores(hidden, x) > 0).astype(np.float32)


def scores(w, x):
    """Of each sample, summed in the order of its features."""
    total = np.zeros(len(x), np.float32)
    for j in range(FEATURES):
        total += w[j] * x[:, j]
    return total


def predict(w, x):
    e = np.fromiter(map(libm.expf, -scores(w, x)), np.float32, len(x))
    return np.float32(1) / (np.float32(1) + e)


class Job:
    def __init__(self, server):
        self.server = server
        self.weights = server.table("weights", rows=1, width=FEATURES)
        # The loss, and how many are classified well: a row that all add to.
        self.sums = server.table("sums", rows=1, width=2, type="f64",
                                 saved=False)
        server.start()
        self.x, self.label = make_data()
        self.parts = [(self.x[i::WORKERS], self.label[i::WORKERS])
                      for i in range(WORKERS)]

    def train(self, worker):
        """Reads the weights in place, adds its part of the gradient, meets the
        other at the clock."""
        x, label = self.parts[worker.index]
        error = (predict(worker.get(self.weights, 0), x) - label) / \
            np.float32(SAMPLES)
        # Sample after sample, as direct.c adds them.
        worker.update(self.weights, 0)[:] += np.add.accumulate(
            error[:, np.newaxis] * x, axis=0)[-1]
        worker.clock()

    def measure(self, worker):
        x, label = self.parts[worker.index]
        p = predict(worker.get(self.weights, 0), x)
        hit = np.where(label > 0.5, p, np.float32(1) - p)
        loss = 0.0
        for h in hit.tolist():
            loss -= libm.log(max(h, 1e-12))
        worker.inc(self.sums, 0, [loss, float((hit > 0.5).sum())])
        worker.clock()

    def run(self, clocks):
        """Mean loss and accuracy after so many clocks of the active branch."""
        def work(worker):
            before = worker.get(self.sums, 0).copy()
            for _ in range(clocks):
                self.train(worker)
            self.measure(worker)
            return worker.get(self.sums, 0) - before
        total = self.server.run(work)[0]
        return total[LOSS] / SAMPLES, total[CORRECT] / SAMPLES


def keep_better(job, parent):
    """Tries both rates from @parent, drops it and the worse one, leaves the
    better one active."""
    server, tried = job.server, []
    for rate in RATES:
        child = server.fork(parent)
        server.switch(child)
        server.set(learning_rate=rate)
        before, after = job.run(0)[0], job.run(CLOCKS)[0]
        print(f"trial learning_rate={rate:g} loss={before:.6f}->{after:.6f}")
        tried.append((after, rate, child))
    (_, rate, best), (_, _, worse) = sorted(tried)
    server.drop(worse)
    server.drop(parent)
    server.switch(best)
    server.set(learning_rate=rate)
    print(f"kept learning_rate={rate:g}")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    with Server(WORKERS, learning_rate=0.1, momentum=0.9,
                memory_limit=16 << 20) as server:
        job = Job(server)
        print(f"start loss={job.run(0)[0]:.6f}")
        print(f"trained clocks={CLOCKS} loss={job.run(CLOCKS)[0]:.6f}")
        keep_better(job, 0)
        if folder:
            server.checkpoint(f"{folder}/checkpoint")
        loss, accuracy = job.run(5 * CLOCKS)
        print(f"finished loss={loss:.6f} accuracy={accuracy:.4f}")
        if folder:
            server.checkpoint_end()
            server.save(folder)


if __name__ == "__main__":
    main()
