"""All that a PyTorch program may have as state: a network with running means and
dropout, an optimizer with moments, a schedule, a loader with a worker process and
noise of its own. With DistributedDataParallel where there are several processes.
The model's folder has the optimizer's and the schedule's state beside the net's.
"""
import os

import torch
import torch.distributed
import torch.nn.functional as F

import mltune

cfg = mltune.config()
torch.set_num_threads(1)
if cfg.nodes > 1:
    torch.distributed.init_process_group("gloo")
made = torch.Generator().manual_seed(3)
x = torch.randn(300, 8, generator=made)
y = (x @ torch.randn(8, 4, generator=made)).argmax(1)


class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, i):
        return x[i] + 0.1 * torch.randn(8), y[i]


net = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
    torch.nn.Dropout(0.2), torch.nn.Linear(16, 4))
if cfg.nodes > 1:
    net = torch.nn.parallel.DistributedDataParallel(net)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
plan = torch.optim.lr_scheduler.StepLR(opt, 40, 0.95)
run = mltune.Run(net, opt, plan, samples=200, validation_samples=100,
                 batch_size=10)
run.loader(Noisy(), num_workers=1)


@run.validate
def accuracy():
    mine = slice(200 + cfg.node, None, cfg.nodes)
    return (net(x[mine]).argmax(1) == y[mine]).sum(), len(y[mine])


@run.saver
def save_rest(folder):
    torch.save({"opt": opt.state_dict(), "plan": plan.state_dict()},
               os.path.join(folder, "rest.pt"))


for batch in run.train():
    inputs, labels = batch.data
    loss = F.cross_entropy(net(inputs), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    plan.step()
    batch.loss(loss)
