#!/usr/bin/python3
"""Images a second of networks on a device, beside PyTorch on the same one.

    tests/bench/nn_device.py build/release/mltune [DEVICE] [ROUNDS]

DEVICE: cuda:0, or cpu. In each round PyTorch trains (data on the device, 32-bit
floats without tensor cores, its choice of algorithms) and then a run of `nn` with
the same network and batch, whose windows say how long its clocks took; the first
third of them is left out. Lines as those of tests/bench.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

ROUND, SAMPLES = 200, 8192
BATCHES = {64: 4, 256: 10, 1024: 24}  # batch: epochs of a run
DENSE = [{"type": "dense", "units": 4096}, {"type": "relu"}]
NETWORKS = {  # our description, its data, PyTorch's
    "lenet5": ({"preset": "lenet5"}, 28, lambda: nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(),
        nn.Linear(500, 10))),
    "cifar-quick": ({"preset": "cifar-quick"}, 32, lambda: nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.MaxPool2d(3, 2, 1), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, 1),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, 1),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))),
    "mlp": ({"layers": [*DENSE, *DENSE, {"type": "dense", "units": "outputs"}]},
            28, lambda: nn.Sequential(
                nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(),
                nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10))),
}


def torch_rate(make, side, batch, device):
    """Best of three times ROUND steps."""
    model = make().to(device)
    rule = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.rand(SAMPLES, 1, side, side, device=device)
    y = torch.randint(0, 10, (SAMPLES,), device=device)
    best = float("inf")
    for _ in range(4):  # the first one warms up
        begun = time.perf_counter()
        for i in range(ROUND):
            at = i * batch % SAMPLES
            rule.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x[at:at + batch]),
                                        y[at:at + batch]).backward()
            rule.step()
        if device != "cpu":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return ROUND * batch / best


def our_rate(mltune, app, side, batch, device):
    config = {
        "app": {"name": "nn", "device": device,
                "data": f"gen:digits?samples=40000&size={side}&test=1000", **app},
        "tunables": {"learning_rate": {"type": "float", "min": 1e-4, "max": 1,
                                       "scale": "log", "default": 0.01},
                     "momentum": {"type": "float", "min": 0, "max": 0.99,
                                  "default": 0.9},
                     "batch_size": {"type": "int", "values": [batch],
                                    "default": batch}},
        "cluster": {"workers": 1}, "seed": 1,
        "stop": {"max_epochs": BATCHES[batch], "plateau_epochs": 1000}}
    with tempfile.TemporaryDirectory() as folder:
        state = ["--state", folder + "/state"]
        subprocess.run([mltune, "run", "-", "--no-tune", "--quiet", "--name", "r",
                        *state], input=json.dumps(config), text=True, check=True,
                       stdout=subprocess.DEVNULL)
        lines = subprocess.run([mltune, "export", "r", "--format", "jsonl",
                                "--out", "-", *state], text=True, check=True,
                               capture_output=True).stdout.splitlines()
    windows = [w for line in lines for record in [json.loads(line)]
               if record["kind"] == "progress" for w in record["windows"]
               if w["samples"] == batch * w["clocks"]]
    late = windows[len(windows) // 3:]
    return sum(w["samples"] for w in late) / sum(w["seconds"] for w in late)


def main():
    mltune = pathlib.Path(sys.argv[1]).resolve()
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda:0"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 2):
        for name, (app, side, make) in NETWORKS.items():
            for batch in BATCHES:
                theirs = torch_rate(make, side, batch, device)
                ours = our_rate(mltune, app, side, batch, device)
                line = f"nn_device network={name} batch={batch} device={device}"
                print(f"{line} {ours:.0f} images/s\n"
                      f"{line} vs=pytorch {ours / theirs:.2f} ratio", flush=True)


if __name__ == "__main__":
    main()
