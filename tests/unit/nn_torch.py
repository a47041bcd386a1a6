#!/usr/bin/python3
"""Networks that test_nn_torch.c wrote, computed again by PyTorch.

Usage: nn_torch.py FOLDER...    Each holds case.json (shapes, losses found) and
case.f32, float32 values one after another: samples, labels, targets, then for
each layer its parameters, their gradient, the running moments, what moves them,
and the factors of its dropout. Exit 1, with a line, where a value is further
from PyTorch's than 1e-4 of the largest one beside it.
"""
import json
import pathlib
import sys

import numpy
import torch
from torch.nn import functional

TOLERANCE = 1e-4


class Case:
    def __init__(self, folder):
        self.name = folder.name
        self.about = json.loads((folder / "case.json").read_text())
        self.values = numpy.fromfile(folder / "case.f32", numpy.float32)
        self.at = 0

    def take(self, *shape):
        count = int(numpy.prod(shape))
        part = self.values[self.at:self.at + count].reshape(shape)
        self.at += count
        return torch.tensor(part)


def channels_first(x):
    return x.permute(0, 3, 1, 2)


def weights(layer, rows):
    """[units, fan_in] and [units] of a table's rows."""
    cut, fan_in = layer["row_units"], layer["fan_in"]
    w = rows[:, :cut * fan_in].reshape(-1, fan_in)[:layer["units"]]
    return w, rows[:, cut * fan_in:].reshape(-1)[:layer["units"]]


def max_pool(layer, x):
    return functional.max_pool2d(x, layer["kernel"], layer["stride"],
                                 layer["padding"])


def avg_pool(layer, x):
    return functional.avg_pool2d(x, layer["kernel"], layer["stride"],
                                 layer["padding"], count_include_pad=False)


def dense(layer, x):
    w, b = weights(layer, layer["rows"])
    x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
    return functional.linear(x, w, b)[:, :, None, None]


def conv(layer, x):
    w, b = weights(layer, layer["rows"])
    k = layer["kernel"]
    w = channels_first(w.reshape(layer["units"], k, k, layer["in"][0]))
    return functional.conv2d(x, w, b, layer["stride"], layer["padding"])


def norm(layer, x, train):
    mean, variance = layer["running"].chunk(2)
    gamma, beta = layer["rows"][0].chunk(2)
    return functional.batch_norm(x, mean, variance, gamma, beta, train,
                                 layer["rate"], layer["epsilon"])


def forward(layers, x, train):
    for layer in layers:
        kind = layer["kind"]
        if kind == "norm":
            x = norm(layer, x, train)
        elif kind == "dropout":
            x = x * channels_first(layer["mask"]) if train else x
        elif kind in ("relu", "tanh"):
            x = getattr(torch, kind)(x)
        else:
            x = globals()[kind](layer, x)
    return x.permute(0, 2, 3, 1).reshape(len(x), -1)


def loss_of(case, z, labels, targets):
    if case.about["loss"] == "cross_entropy":
        return functional.cross_entropy(z, labels, reduction="sum")
    return 0.5 * functional.mse_loss(z, targets, reduction="sum")


def read_layers(case):
    n = case.about["samples"]
    for layer in case.about["layers"]:
        rows, width = layer.pop("row_count"), layer["row_width"]
        layer["rows"] = case.take(rows, width).requires_grad_()
        layer["gradient"] = case.take(rows, width)
        layer["running"] = case.take(layer["moments"])
        layer["moved"] = case.take(layer["moments"])
        if layer["kind"] == "dropout":
            channels, height, width = layer["in"]
            layer["mask"] = case.take(n, height, width, channels)
    return case.about["layers"]


def compare(case, what, found, wanted):
    found, wanted = torch.as_tensor(found), torch.as_tensor(wanted)
    if wanted.numel() == 0:
        return True
    scale = max(float(wanted.abs().max()), 1e-6)
    worst = float((found - wanted).abs().max()) / scale
    if worst <= TOLERANCE:
        return True
    print(f"{case.name}: {what}: {worst:.2g} of the largest value apart")
    return False


def check(folder):
    case = Case(folder)
    n, (channels, height, width) = case.about["samples"], case.about["input"]
    x = channels_first(case.take(n, height, width, channels))
    labels = case.take(n).long()
    targets = case.take(n, case.about["outputs"])
    layers = read_layers(case)
    with torch.no_grad():
        tested = loss_of(case, forward(layers, x, False), labels, targets)
    before = [layer["running"].clone() for layer in layers]
    loss = loss_of(case, forward(layers, x, True), labels, targets)
    (loss / n).backward()
    good = compare(case, "loss", case.about["train_loss"], loss.item())
    good &= compare(case, "evaluation", case.about["test_loss"], tested.item())
    for number, layer in enumerate(layers):
        if layer["row_width"]:
            good &= compare(case, f"gradient of layer {number}",
                            layer["gradient"], layer["rows"].grad)
        good &= compare(case, f"moments of layer {number}", layer["moved"],
                        layer["running"] - before[number])
    return good


def main():
    torch.set_num_threads(1)
    results = [check(pathlib.Path(name)) for name in sys.argv[1:]]
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
