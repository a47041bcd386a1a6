"""Two processes with DistributedDataParallel over gloo."""
import torch
import torch.distributed
import torch.nn.functional as F

import mltune

cfg = mltune.config(wrong="")
torch.set_num_threads(1)
if cfg.nodes > 1:
    torch.distributed.init_process_group("gloo")
made = torch.Generator().manual_seed(3)
x = torch.randn(201, 8, generator=made)
y = (x.sum(1) > 0).long()
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16),
                          torch.nn.ReLU(), torch.nn.Dropout(0.2),
                          torch.nn.Linear(16, 2))
if cfg.nodes > 1:
    net = torch.nn.parallel.DistributedDataParallel(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
run = mltune.Run(net, opt, samples=len(x), validation_samples=len(x),
                 batch_size=10)


@run.validate
def accuracy():
    mine = slice(cfg.node, None, cfg.nodes)
    return (net(x[mine]).argmax(1) == y[mine]).sum(), len(y[mine])


for batch in run.train():
    loss = F.cross_entropy(net(x[batch.samples]), y[batch.samples])
    if cfg.wrong == "nan" and batch.clock == 3 and cfg.node == 0:
        loss = loss * float("nan")
    opt.zero_grad()
    loss.backward()
    opt.step()
    batch.loss(loss)
