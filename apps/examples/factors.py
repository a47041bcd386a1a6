"""Matrix factorization of ratings, in PyTorch: who will like what.

    python3 factors.py          mltune run factors.json
"""
import samples
import torch
from torch import nn

import mltune

cfg = mltune.config(data="", rank=8)
users, items, stars = map(torch.tensor, samples.ratings(cfg.data))
stars = stars.float()
split = len(stars) * 9 // 10


class Factors(nn.Module):
    def __init__(self, users, items, rank):
        super().__init__()
        self.user, self.item = nn.Embedding(users, rank), \
            nn.Embedding(items, rank)
        self.user_mean, self.item_mean = nn.Embedding(users, 1), \
            nn.Embedding(items, 1)
        for table in self.children():
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, user, item):
        return mean + (self.user(user) * self.item(item)).sum(1) + \
            self.user_mean(user)[:, 0] + self.item_mean(item)[:, 0]

    def size(self, user, item):
        """Of the factors that a batch uses, squared."""
        return (self.user(user) ** 2 + self.item(item) ** 2).sum(1).mean()


mean = stars[:split].mean()
model = Factors(int(users.max()) + 1, int(items.max()) + 1, cfg.rank)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
run = mltune.Run(model, opt, samples=split, loss_floor=0,
                 validation_samples=len(stars) - split)


def squares(at):
    return ((model(users[at], items[at]) - stars[at]) ** 2).mean()


@run.validate(metric="rmse", better="lower", reduction="sqrt_mean")
def rmse():
    return squares(slice(split, None))


for batch in run.train():
    at = batch.samples
    loss = squares(at)
    opt.zero_grad()
    (loss + run.tunable("shrink", 0.01) *
     model.size(users[at], items[at])).backward()
    opt.step()
    batch.loss(loss)    # what is compared has no share of the penalty
