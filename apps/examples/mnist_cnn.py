"""A small CNN on MNIST: `python3 mnist_cnn.py`, `mltune run mnist_cnn.json`."""
import gzip

import torch
import torch.nn.functional as F
from torch import nn

import mltune

cfg = mltune.config(data="mnist", train=10000, epochs=10)  # connects, seeds


def idx(name, skip):
    data = gzip.open(f"{cfg.data}/{name}-ubyte.gz").read()
    return torch.frombuffer(bytearray(data[skip:]), dtype=torch.uint8)


def load(name):
    x = idx(name + "-images-idx3", 16).view(-1, 1, 28, 28) / 255
    return x, idx(name + "-labels-idx1", 8).long()


x, y = (part[:cfg.train] for part in load("train"))
vx, vy = load("t10k")
model = nn.Sequential(
    nn.Conv2d(1, 8, 5), nn.MaxPool2d(2), nn.ReLU(),
    nn.Conv2d(8, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
    nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
run = mltune.Run(model, opt, samples=len(x), validation_samples=len(vx),
                 epochs=cfg.epochs)

@run.validate
def accuracy():
    hits = [(model(a).argmax(1) == b).sum()
            for a, b in zip(vx.split(250), vy.split(250))]
    return sum(hits), len(vx)

for batch in run.train():                         # batch.samples: which ones
    model[9].p = run.tunable("dropout", 0.1)
    loss = F.cross_entropy(model(x[batch.samples]), y[batch.samples])
    opt.zero_grad(); loss.backward(); opt.step()
    batch.loss(loss)
