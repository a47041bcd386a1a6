"""The 20 jobs of quality.py: what each trains, and the files that it trains on.

A job's data lie in a folder of their own, made once from shared/data with a fixed
seed: `train*` for all runs, `held*` that no run has seen.
"""
import gzip
import lzma
import random
import struct

import tables

SGD = [0.01, 0.03, 0.1, 0.3, 1.0]
ADAM = [0.0003, 0.001, 0.003, 0.01, 0.03]
MF = [0.003, 0.01, 0.03, 0.1, 0.3]
BATCHES = [16, 64, 256]


def raw(path):
    name = str(path)
    if name.endswith(".xz"):
        return lzma.open(name, "rb")
    return gzip.open(name, "rb") if name.endswith(".gz") else open(name, "rb")


def part(lines, most, held_share, rng):
    """Shuffled, cut to `most`: those to train on, those held back."""
    lines = list(lines)
    rng.shuffle(lines)
    lines = lines[:most]
    held = int(len(lines) * held_share)
    return lines[held:], lines[:held]


def ratings(file, most):
    def make(data, folder, rng):
        with raw(data / file) as f:
            train, held = part(f, most, 0.1, rng)
        (folder / "train.tsv").write_bytes(b"".join(train))
        (folder / "held.tsv").write_bytes(b"".join(held))
    return make, "train.tsv", "held.tsv"


def documents(file, most):
    def make(data, folder, rng):
        with raw(data / file) as f:
            train, held = part(f, most, 0.1, rng)
        (folder / "train.ldac").write_bytes(b"".join(train))
        (folder / "held.ldac").write_bytes(b"".join(held))
    return make, "train.ldac", "held.ldac"


def table(name, most=20000):
    def make(data, folder, rng):
        rows, _ = tables.jobs(data)[name]
        train, held = part(rows(rng), most, 0.2, rng)
        tables.write(folder / "train.csv", train)
        tables.write(folder / "held.csv", held)
    return make, "train.csv", "held.csv"


def mnist(most):
    """The first `most` images, and all of t10k held back."""
    def one(data, name, to, count):
        to.mkdir(exist_ok=True)
        with raw(data / f"mnist-{name}-images-idx3-ubyte.gz") as f:
            magic, n, h, w = struct.unpack(">IIII", f.read(16))
            n = min(n, count)
            (to / "train-images-idx3-ubyte").write_bytes(
                struct.pack(">IIII", magic, n, h, w) + f.read(n * h * w))
        with raw(data / f"mnist-{name}-labels-idx1-ubyte.gz") as f:
            magic, _ = struct.unpack(">II", f.read(8))
            (to / "train-labels-idx1-ubyte").write_bytes(
                struct.pack(">II", magic, n) + f.read(n))

    def make(data, folder, _rng):
        one(data, "train", folder / "train", most)
        one(data, "t10k", folder / "held", 10000)
    return make, "train", "held"


def cifar(most):
    def make(data, folder, _rng):
        with raw(data / "cifar10.data_batch_1.bin.xz") as f:
            (folder / "train.bin").write_bytes(f.read(3073 * most))
        with raw(data / "cifar10.test_first1000.bin.xz") as f:
            (folder / "held.bin").write_bytes(f.read())
    return make, "train.bin", "held.bin"


class Job:
    """A job: configuration, data, what the hand's grids are."""

    def __init__(self, app, source, epochs, rates, rule=None, workers=1,
                 batches=None):
        self.app, self.epochs, self.rule = app, epochs, rule
        self.make, self.train, self.held = source
        self.rates, self.workers, self.batches = rates, workers, batches

    def config(self, folder):
        c = {"app": {**self.app, "data": str(folder / self.train)},
             "cluster": {"workers": self.workers},
             "stop": {"max_epochs": self.epochs}}
        if self.rule:
            c["ps"] = {"update_rule": self.rule}
        if self.workers > 1:
            c["ps"] = {"consistency": "ssp"}
        return c

    def fixed(self):
        """The grid of fixed settings; the other tunables keep their defaults."""
        if not self.rates:
            return [{"staleness": s} for s in (0, 1, 3, 7)]
        return [{"learning_rate": r, **({"batch_size": b} if b else {})}
                for b in self.batches or [None] for r in self.rates]

    def hand(self):
        """What a hand-made schedule begins with: a small grid of rates."""
        return [{"learning_rate": r} for r in self.rates] or [{}]


def mf(source, rule):
    return Job({"name": "mf", "rank": 32}, source, 30, MF, rule)


def mlr(source):
    return Job({"name": "mlr", "test_fraction": 0.1}, source, 30, SGD,
               batches=BATCHES)


def nn(source, epochs, rates, preset="mlp", loss=None):
    app = {"name": "nn", "preset": preset, "test_fraction": 0.1}
    if loss:
        app["loss"] = loss
    return Job(app, source, epochs, rates, batches=BATCHES)


def lda(source, topics):
    return Job({"name": "lda", "topics": topics}, source, 40, [], workers=2)


def jobs():
    small, large = ratings("ml-100k.u.data.gz", 100000), \
        ratings("ml1m.train90.tsv.xz", 1000000)
    return {
        "mf-100k": mf(small, "adagrad"),
        "mf-sgd": mf(large, "sgd"),
        "mf-adagrad": mf(large, "adagrad"),
        "mf-rpcs": mf(large, "rpcs"),
        "mlr-mnist": mlr(mnist(20000)),
        "mlr-letter": mlr(table("letter")),
        "mlr-covtype": mlr(table("covtype")),
        "mlr-a9a": mlr(table("a9a")),
        "nn-newcomer": nn(table("newcomer"), 60, ADAM, loss="squared"),
        "nn-cal": nn(table("cal_housing"), 40, ADAM, loss="squared"),
        "nn-protein": nn(table("protein"), 40, ADAM, loss="squared"),
        "nn-abalone": nn(table("abalone"), 60, ADAM, loss="squared"),
        "nn-letter": nn(table("letter"), 40, ADAM),
        "nn-covtype": nn(table("covtype"), 40, ADAM),
        "nn-ijcnn1": nn(table("ijcnn1", 12500), 30, ADAM),
        "nn-mnist": nn(mnist(6000), 15, SGD),
        "nn-lenet": nn(mnist(1000), 12, SGD, "lenet5"),
        "nn-cifar": nn(cifar(1000), 12, SGD, "cifar-quick"),
        "lda-ap": lda(documents("ap.ldac.xz", 1200), 20),
        "lda-20ng": lda(documents("20ng.train.ldac.xz", 800), 20),
    }


def prepare(name, job, data, work):
    """The job's folder, its data made."""
    folder = work / "data" / name
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        job.make(data, folder, random.Random(1))
        (folder / "done").touch()
    return folder
