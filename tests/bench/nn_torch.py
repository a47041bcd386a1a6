#!/usr/bin/python3
"""PyTorch's side of `make bench B=nn`: one thread, its own SGD with momentum.

Says "R" when it is ready, and ends at once where there is no PyTorch. Then
reads lines "NETWORK BATCHES" and answers each with the CPU and wall seconds of
that many batches of 64, or BENCH_BATCH: forward, cross-entropy, backward, update.
"""
import os
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(0)

BATCH, IMAGES = int(os.environ.get("BENCH_BATCH", 64)), 4096


def networks():
    return {
        "mlp": (nn.Sequential(nn.Linear(784, 256), nn.ReLU(),
                              nn.Linear(256, 10)), (784,)),
        "lenet5": (nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2),
                                 nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
                                 nn.Flatten(), nn.Linear(800, 500), nn.ReLU(),
                                 nn.Linear(500, 10)), (1, 28, 28)),
    }


class Side:
    def __init__(self, model, shape):
        self.model = model
        self.loss = nn.CrossEntropyLoss()
        self.rule = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        self.x = torch.rand(IMAGES, *shape)
        self.y = torch.randint(0, 10, (IMAGES,))
        self.at = 0

    def run(self, batches):
        for _ in range(batches):
            x = self.x[self.at:self.at + BATCH]
            y = self.y[self.at:self.at + BATCH]
            self.at = (self.at + BATCH) % IMAGES
            self.rule.zero_grad(set_to_none=True)
            self.loss(self.model(x), y).backward()
            self.rule.step()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    sides = {name: Side(*made) for name, made in networks().items()}
    print("R", flush=True)
    for line in sys.stdin:
        name, batches = line.split()
        cpu, wall = time.process_time(), time.perf_counter()
        sides[name].run(int(batches))
        print(time.process_time() - cpu, time.perf_counter() - wall,
              flush=True)


if __name__ == "__main__":
    main()
