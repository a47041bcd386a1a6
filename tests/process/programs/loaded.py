"""A class with worker processes and random augmentation."""
import torch
import torch.nn.functional as F

import mltune


class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        made = torch.Generator().manual_seed(3)
        self.x = torch.randn(200, 8, generator=made)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.1 * torch.randn(8), self.y[i]


class Trained(mltune.Trainable):
    metric = "error"
    batch_size = 20

    def setup(self, config):
        torch.set_num_threads(1)
        self.data = Noisy()
        self.samples = len(self.data)
        self.validation_samples = 50
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.3),
            torch.nn.Linear(16, 2))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.steps = 0
        self.workers = config.workers

    def loader(self, run):
        return run.loader(self.data, num_workers=self.workers)

    def step(self, batch):
        x, y = batch.data
        self.steps += 1
        loss = F.cross_entropy(self.net(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return {"loss": loss, "steps": self.steps}

    def validate(self):
        wrong = self.net(self.data.x[:50]).argmax(1) != self.data.y[:50]
        return wrong.sum(), 50


if __name__ == "__main__":
    mltune.config(workers=0)
    Trained().run()
