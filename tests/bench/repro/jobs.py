"""The jobs of the reproduction: what is trained, on how much of which data, with
which hand-made schedule, up to which target.

Hand-made schedules are what a practitioner with experience would set: the
learning rate found by a coarse search on that job, momentum 0.9, and a fall of
the rate known from the literature. They know in advance what mltune has to find.
"""
import gzip
import lzma
import struct

from common import BATCH_SIZE, LEARNING_RATE, MOMENTUM, STALENESS


def write_idx(path, dims, values):
    header = bytes([0, 0, 8, len(dims)]) + struct.pack(f">{len(dims)}I", *dims)
    path.write_bytes(header + values)


def mnist(args, train, test):
    """A folder with the first images of MNIST's two halves."""
    folder = args.work / f"mnist-{train}-{test}"
    if folder.is_dir():
        return folder
    folder.mkdir()
    for half, n in (("train", train), ("t10k", test)):
        source = args.data / f"mnist-{half}"
        with gzip.open(f"{source}-images-idx3-ubyte.gz") as f:
            pixels = f.read(16 + n * 784)[16:]
        with gzip.open(f"{source}-labels-idx1-ubyte.gz") as f:
            labels = f.read(8 + n)[8:]
        write_idx(folder / f"{half}-images-idx3-ubyte", (n, 28, 28), pixels)
        write_idx(folder / f"{half}-labels-idx1-ubyte", (n,), labels)
    return folder


def cifar(args, train):
    """A folder with the first images of the staged batch, and 1,000 to test."""
    folder = args.work / f"cifar-{train}"
    if folder.is_dir():
        return folder
    folder.mkdir()
    for name, source, n in (
            ("data_batch_1.bin", "cifar10.data_batch_1.bin.xz", train),
            ("test_batch.bin", "cifar10.test_first1000.bin.xz", 1000)):
        with lzma.open(args.data / source) as f:
            (folder / name).write_bytes(f.read(n * 3073))
    return folder


class Job:
    """@config: without strategy. @higher: a larger metric is better. @target:
    the hand-made schedule's accuracy at that scale, less a little: it reaches
    it with every seed. @hand: the setting and schedule of `fixed`."""

    def __init__(self, name, words, config, target, higher, hand, cap_s):
        self.name, self.words, self.config = name, words, config
        self.target, self.higher, self.hand = target, higher, hand
        self.cap_s = cap_s
        self.metric = "accuracy" if higher else "RMSE"

    def configured(self, strategy, settings=None, **tuner):
        """The configuration under a strategy; with `initial` in @tuner."""
        config = {**self.config}
        config["tuner"] = {"strategy": strategy, **tuner}
        if settings:
            config["tuner"]["strategy_settings"] = settings
        return config

    def hand_made(self):
        setting, schedule = self.hand
        return self.configured("fixed", schedule, initial=setting)


def workers(config, n):
    return {**config, "cluster": {"workers": n}}


def mf(args):
    return Job(
        "mf", "matrix factorization of MovieLens 1M (90 % of it, a tenth of "
        "that for validation), rank 16, adagrad, 100 clocks a pass",
        workers({
            "app": {"name": "mf", "data": str(args.data / "ml1m.train90.tsv.xz"),
                    "rank": 16, "clock": 100, "test_fraction": 0.1},
            "ps": {"update_rule": "adagrad"},
            "tunables": {"learning_rate": LEARNING_RATE},
            "stop": {"max_epochs": 60}}, 1),
        0.865, False, ({"learning_rate": 0.0464}, {}), 600 if args.full else 60)


def mlr(args):
    return Job(
        "mlr", "softmax regression of 60,000 MNIST images, 10,000 for "
        "validation",
        workers({
            "app": {"name": "mlr", "data": str(mnist(args, 60000, 10000))},
            "tunables": {"learning_rate": LEARNING_RATE, "momentum": MOMENTUM,
                         "batch_size": BATCH_SIZE}}, 1),
        0.92, True,
        ({"learning_rate": 0.1, "momentum": 0.9, "batch_size": 64},
         {"schedule": "exponential", "gamma": 0.9}), 600 if args.full else 60)


def network(args, name, preset, data, words, target, hand, cap_s):
    return Job(
        name, words,
        workers({
            "app": {"name": "nn", "preset": preset, "data": str(data)},
            "tunables": {"learning_rate": LEARNING_RATE, "momentum": MOMENTUM,
                         "batch_size": BATCH_SIZE}}, 1),
        target, True, hand, cap_s)


def mlp(args):
    train = 60000 if args.full else 2000
    return network(
        args, "mlp", "mlp", mnist(args, train, 10000 if args.full else 2000),
        f"784-256-10 on {train:,} MNIST images",
        0.98 if args.full else 0.87,
        ({"learning_rate": 0.1, "momentum": 0.9, "batch_size": 64},
         {"schedule": "exponential", "gamma": 0.95}), 1800 if args.full else 60)


def lenet5(args):
    train = getattr(args, "images", None) or (10000 if args.full else 1000)
    test = 10000 if args.full else 2000 if train > 2000 else 1000
    return network(
        args, "lenet5", "lenet5", mnist(args, train, test),
        f"lenet5 on {train:,} MNIST images, {test:,} for validation",
        0.985 if args.full else 0.97 if train > 2000 else 0.90,
        ({"learning_rate": 0.1, "momentum": 0.9, "batch_size": 64},
         {"schedule": "exponential", "gamma": 0.95}),
        7200 if args.full else 120)


def cifar_quick(args):
    train = 10000 if args.full else 2000
    return network(
        args, "cifar-quick", "cifar-quick", cifar(args, train),
        f"cifar-quick on {train:,} CIFAR-10 images, 1,000 for validation",
        0.60 if args.full else 0.42,
        ({"learning_rate": 0.1, "momentum": 0.9, "batch_size": 64},
         {"schedule": "exponential", "gamma": 0.97}),
        7200 if args.full else 300)


JOBS = {"mf": mf, "mlr": mlr, "mlp": mlp, "lenet5": lenet5,
        "cifar-quick": cifar_quick}


def job(args):
    return JOBS[args.job](args)


def with_staleness(config):
    """Four tunables: two workers whose reads may be stale."""
    return {**workers(config, 2), "ps": {**config.get("ps", {}),
                                         "consistency": "ssp"},
            "tunables": {**config["tunables"], "staleness": STALENESS}}
