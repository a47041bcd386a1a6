"""A network as wide as its settings say, with Adam: branches that take memory."""
import torch
import torch.nn.functional as F

import mltune

cfg = mltune.config(width=256, depth=4)
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(cfg.width, cfg.width)
                            for _ in range(cfg.depth)])
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(64, cfg.width)
run = mltune.Run(net, opt, samples=64, batch_size=8)
for batch in run.train():
    opt.zero_grad()
    loss = F.mse_loss(net(x[batch.samples]), x[batch.samples])
    loss.backward()
    opt.step()
    batch.loss(loss)
