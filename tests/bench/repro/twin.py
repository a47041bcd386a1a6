#!/usr/bin/python3
"""cifar-quick tuned by MLtuner from the full ranges, beside the same network in
PyTorch with hand-set values: best validation accuracy, wanted within a point.

    twin.py --data DIR [--scale full] [--seeds N]

Needs Debian's python3-torch (not installed by install-deps; says "skip" without).
PyTorch runs on one thread: rate 0.01 (momentum 0.9, batch 64), falling by 3 % an
epoch, He initialisation, pixels normalised by channel, no augmentation, as in nn.
"""
import statistics
import sys
import time

import common
import jobs

RATE, GAMMA, MOMENTUM, BATCH = 0.01, 0.97, 0.9, 64


def load(torch, path):
    raw = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    raw = raw.reshape(-1, 3073)
    return raw[:, 1:].float().reshape(-1, 3, 32, 32), raw[:, 0].long()


def network(torch):
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, 1), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, 1),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, 1),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))
    for layer in net:
        if hasattr(layer, "weight"):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    return net


def accuracy(torch, net, x, y):
    net.eval()
    with torch.no_grad():
        right = sum((net(x[i:i + 250]).argmax(1) == y[i:i + 250]).sum().item()
                    for i in range(0, len(x), 250))
    net.train()
    return right / len(x)


def train(torch, folder, epochs, seed):
    """(seconds, accuracy) of each epoch's end."""
    torch.manual_seed(seed)
    x, y = load(torch, folder / "data_batch_1.bin")
    test_x, test_y = load(torch, folder / "test_batch.bin")
    mean = x.mean((0, 2, 3), keepdim=True)
    deviation = x.std((0, 2, 3), keepdim=True)
    x, test_x = (x - mean) / deviation, (test_x - mean) / deviation
    net = network(torch)
    optimizer = torch.optim.SGD(net.parameters(), RATE, MOMENTUM)
    falls = torch.optim.lr_scheduler.ExponentialLR(optimizer, GAMMA)
    begin, out = time.monotonic(), []
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), BATCH):
            batch = order[i:i + BATCH]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[batch]),
                                              y[batch]).backward()
            optimizer.step()
        falls.step()
        out.append((time.monotonic() - begin,
                    accuracy(torch, net, test_x, test_y), 0))
    return out


def main():
    args = common.arguments(__doc__, cap=dict(type=float,
                                              help="seconds of a run"),
                            epochs=dict(type=int, help="of the twin"))
    try:
        import torch
    except ImportError:
        print("skip: no PyTorch (apt-get install python3-torch)")
        return 0
    torch.set_num_threads(1)
    args.job = "cifar-quick"
    job = jobs.job(args)
    cap_s = args.cap or job.cap_s
    epochs = args.epochs or (60 if args.full else 25)
    folder = jobs.cifar(args, 10000 if args.full else 2000)
    figure = common.Figure("cifar-quick: best accuracy so far",
                           "seconds of the run", "accuracy", log_x=True)
    twin, ours, rows = [], [], []
    for seed in range(1, args.seeds + 1):
        trace = train(torch, folder, epochs, seed)
        twin.append(max(a for _, a, _ in trace))
        figure.add("PyTorch, hand-set", common.best_so_far(trace),
                   common.COLORS[1], "step")
        config = job.configured("mltuner")
        config["stop"] = {"max_time": cap_s}
        r = common.run(args, config, seed)
        ours.append(r.best)
        figure.add("mltuner", common.best_so_far(r.epochs()),
                   common.COLORS[0], "step")
        rows.append([seed, f"{twin[-1]:.3f}", f"{trace[-1][0]:.1f}",
                     f"{r.best:.3f}", f"{r.seconds:.1f}", f"{r.cpu_s:.1f}"])
        common.note(f"seed {seed}: twin {twin[-1]:.3f}, mltuner {r.best:.3f}")
    print(f"{job.words}; the twin {epochs} epochs, mltuner at most {cap_s:.0f} "
          f"s. {common.where(args)}")
    common.table(["seed", "PyTorch, hand-set", "its seconds", "mltuner",
                  "seconds", "CPU seconds"], rows)
    gap = 100 * (statistics.median(twin) - statistics.median(ours))
    print(f"medians: mltuner {gap:.1f} points below the twin\n"
          if gap > 0 else f"medians: mltuner {-gap:.1f} points above the twin\n")
    common.save(args, "twin-cifar-quick", figure)
    common.finish(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
