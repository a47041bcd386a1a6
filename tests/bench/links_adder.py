#!/usr/bin/env python3
"""A node of tests/bench/links.py that uses the parameter server directly.

    links_adder.py NODE NODES MODEL MEET LISTEN SLICES

Each worker adds integers that all know, at each clock, to rows that lie on all
nodes. Under bsp each read is compared with the sum of all clocks before, at the end
all rows are, under every model: what was lost or came twice is found. Says "at N"
as it goes on, and "right" at the end; else why not and when, and ends with 1.
"""
import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "apps/python"))

from mltune import ps  # noqa: E402

ROWS, WIDTH, WORKERS, TOUCHED = 48, 4, 2, 3
CLOCKS = 40  # of a slice
PAUSE_S = 0.003


def adds(worker, clock):
    """Rows and what they get."""
    return [((clock * 7 + worker * 5 + i * 17) % ROWS, worker + 1 + i)
            for i in range(TOUCHED)]


class Adder:
    def __init__(self, node, nodes, model, meet, listen):
        self.node, self.nodes, self.model = node, nodes, model
        self.server = ps.Server(WORKERS, nodes=nodes, node=node, meet=meet,
                                listen=listen, consistency=model,
                                staleness=2, memory_limit=64 << 20,
                                ring_bytes=-1)
        self.tables = [self.server.table(name, ROWS, WIDTH, type=kind,
                                         chunk_bytes=64)
                       for name, kind in (("counts", "i32"), ("sums", "f64"))]
        self.server.start()
        self.clock, self.said = 0, 0.0
        self.sum = np.zeros(ROWS, np.int64)  # of all clocks before
        self.begin = 0, self.sum  # of the slice

    def wrong(self, table, row, read, expected):
        return AssertionError(f"row {row} of {table.name} holds {read}, not "
                              f"{expected}, at clock {self.clock}")

    def end_clock(self, local):
        if local == 0:
            for worker in range(WORKERS * self.nodes):
                for row, value in adds(worker, self.clock):
                    self.sum[row] += value
            self.clock += 1
            now = time.time()
            if now > self.said + 0.05:
                self.said = now
                print(f"at {self.clock} {now:.3f}", flush=True)

    def work(self, w):
        local = w.index - self.node * WORKERS
        before = self.begin[1].copy()
        for clock in range(self.begin[0], self.begin[0] + CLOCKS):
            for row, value in adds(w.index, clock):
                for table in self.tables:
                    read = w.get(table, row)
                    if self.model == "bsp" and (read != before[row]).any():
                        raise self.wrong(table, row, read, before[row])
                    w.inc(table, row, np.full(WIDTH, value, read.dtype))
            for worker in range(WORKERS * self.nodes):
                for row, value in adds(worker, clock):
                    before[row] += value
            time.sleep(PAUSE_S)
            w.clock()
            self.end_clock(local)

    def check(self, w):
        for table in self.tables:
            for row in range(ROWS):
                read = w.get(table, row)
                if (read != self.sum[row]).any():
                    raise self.wrong(table, row, read, self.sum[row])
        w.clock()


def main():
    node, nodes, slices = (int(sys.argv[i]) for i in (1, 2, 6))
    try:
        adder = Adder(node, nodes, *sys.argv[3:6])
        for _ in range(slices):
            adder.begin = adder.clock, adder.sum.copy()
            adder.server.run(adder.work)
        adder.server.run(adder.check)
        adder.server.close()
    except (AssertionError, ps.PsError) as e:
        print(f"node {node}: {e}\nsaid at {time.time():.3f}", file=sys.stderr)
        return 1
    print("right", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
