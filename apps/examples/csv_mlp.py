"""A network for a table: regression on the last column of a csv, in PyTorch.

    python3 csv_mlp.py          mltune run csv_mlp.json
"""
import samples
import torch
import torch.nn.functional as F
from torch import nn

import mltune

cfg = mltune.config(data="", units=64)
x, y = (torch.tensor(a, dtype=torch.float32) for a in samples.table(cfg.data))
y = (y - y.mean()) / y.std()
split = len(x) * 8 // 10

model = nn.Sequential(
    nn.Linear(x.shape[1], cfg.units), nn.ReLU(), nn.Dropout(0.1),
    nn.Linear(cfg.units, cfg.units), nn.ReLU(), nn.Linear(cfg.units, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
run = mltune.Run(model, opt, samples=split, loss_floor=0,
                 validation_samples=len(x) - split)


@run.validate(metric="rmse", better="lower", reduction="sqrt_mean")
def rmse():
    return F.mse_loss(model(x[split:])[:, 0], y[split:])


for batch in run.train():
    model[2].p = run.tunable("dropout", 0.1)
    loss = F.mse_loss(model(x[batch.samples])[:, 0], y[batch.samples])
    opt.zero_grad()
    loss.backward()
    opt.step()
    batch.loss(loss)
