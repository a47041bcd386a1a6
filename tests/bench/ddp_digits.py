"""A network on handwritten digits (optdigits), in as many processes as are
started: what ddp.py tunes."""
import lzma

import torch
import torch.distributed
import torch.nn.functional as F
from torch import nn

import mltune

cfg = mltune.config(data="")
torch.set_num_threads(1)
if cfg.nodes > 1:
    torch.distributed.init_process_group("gloo")


def load(name):
    with lzma.open(f"{cfg.data}/optdigits.{name}.csv.xz", "rt") as file:
        rows = torch.tensor([[float(v) for v in line.split(",")]
                             for line in file])
    return rows[:, :-1] / 16, rows[:, -1].long()


x, y = load("tra")
vx, vy = load("tes")
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1),
                    nn.Linear(64, 10))
model = nn.parallel.DistributedDataParallel(net) if cfg.nodes > 1 else net
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
run = mltune.Run(model, opt, samples=len(x), validation_samples=len(vx))


@run.validate
def accuracy():
    mine = slice(cfg.node, None, cfg.nodes)
    return (net(vx[mine]).argmax(1) == vy[mine]).sum(), len(vy[mine])


for batch in run.train():
    net[2].p = run.tunable("dropout", 0.1)
    loss = F.cross_entropy(model(x[batch.samples]), y[batch.samples])
    opt.zero_grad()
    loss.backward()
    opt.step()
    batch.loss(loss)
