"""A recurrent network that writes, character by character: PyTorch's GRU.

    python3 char_gru.py          mltune run char_gru.json
"""
import samples
import torch
import torch.nn.functional as F
from torch import nn

import mltune

cfg = mltune.config(data="", units=64, length=32)
text = samples.text(cfg.data)
letters = sorted(set(text))
ids = torch.tensor([letters.index(c) for c in text])
ids = ids[:(len(ids) - 1) // cfg.length * cfg.length + 1]
x, y = ids[:-1].view(-1, cfg.length), ids[1:].view(-1, cfg.length)
split = len(x) * 9 // 10
x, vx, y, vy = x[:split], x[split:], y[:split], y[split:]


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(len(letters), cfg.units)
        self.memory = nn.GRU(cfg.units, cfg.units, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.next = nn.Linear(cfg.units, len(letters))

    def loss(self, x, y):
        out, _ = self.memory(self.drop(self.letters(x)))
        return F.cross_entropy(self.next(self.drop(out)).transpose(1, 2), y)


model = Writer()
opt = torch.optim.Adam(model.parameters(), lr=0.003)
run = mltune.Run(model, opt, samples=len(x), validation_samples=len(vx),
                 batch_size=32, loss_floor=0)


@run.validate(metric="nats", better="lower")
def nats():
    return model.loss(vx, vy)


for batch in run.train():
    model.drop.p = run.tunable("dropout", 0.1)
    loss = model.loss(x[batch.samples], y[batch.samples])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), run.tunable("clip", 1.0))
    opt.step()
    batch.loss(loss)
