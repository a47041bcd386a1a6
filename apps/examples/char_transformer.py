"""A small transformer that writes, character by character, as a class.

    python3 char_transformer.py          mltune run char_transformer.json
"""
import samples
import torch
import torch.nn.functional as F
from torch import nn

import mltune


class Transformer(nn.Module):
    def __init__(self, letters, length, units, heads, layers):
        super().__init__()
        self.letters = nn.Embedding(letters, units)
        self.places = nn.Parameter(0.02 * torch.randn(length, units))
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(
            units, heads, 4 * units, 0.1, batch_first=True, norm_first=True),
            layers)
        self.next = nn.Linear(units, letters)
        self.register_buffer("later", torch.full((length, length),
                                                 -1e9).triu(1))

    def loss(self, x, y):
        out = self.body(self.letters(x) + self.places, self.later)
        return F.cross_entropy(self.next(out).transpose(1, 2), y)


class Writer(mltune.Trainable):
    metric, better, batch_size = "nats", "lower", 32

    def setup(self, config):
        text = samples.text(config.get("data", ""))
        letters, n = sorted(set(text)), config.get("length", 32)
        ids = torch.tensor([letters.index(c) for c in text])
        ids = ids[:len(ids) // n * n + 1]
        x, y = ids[:-1].view(-1, n), ids[1:].view(-1, n)
        at = len(x) * 9 // 10
        self.x, self.y, self.vx, self.vy = x[:at], y[:at], x[at:], y[at:]
        self.samples, self.validation_samples = at, len(x) - at
        self.model = Transformer(len(letters), n, config.get("units", 32), 4,
                                 config.get("layers", 2))
        self.opt = torch.optim.AdamW(self.model.parameters(), 0.002)

    def apply(self, setting):
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = setting.get("dropout", 0.1)

    def step(self, batch):
        loss = self.model.loss(self.x[batch.samples], self.y[batch.samples])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss

    def validate(self):
        return self.model.loss(self.vx, self.vy)


if __name__ == "__main__":
    Writer().run()
