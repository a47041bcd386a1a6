"""A small network that tests train: which one, with what, say its settings."""
import numpy
import torch
import torch.nn.functional as F

import mltune

cfg = mltune.config(samples=300, features="", wrong="", conv=False)
has = set(cfg.features.split())
torch.set_num_threads(1)

made = torch.Generator().manual_seed(5)
SIDE = 6
x = torch.randn(cfg.samples, 1, SIDE, SIDE, generator=made)
y = (x.flatten(1) @ torch.randn(SIDE * SIDE, 4, generator=made)).argmax(1)
vx, vy = x[:100], y[:100]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.drop = torch.nn.Dropout(cfg.tunable("dropout", 0.2))
        self.last = torch.nn.Linear(4 * (SIDE - 2) ** 2, 4)
        self.register_buffer("fixed", torch.ones(4), persistent=False)

    def forward(self, data):
        data = self.drop(F.relu(self.norm(self.first(data))))
        return self.last(data.flatten(1)) * self.fixed


net = Net()
groups = [{"params": [*net.first.parameters(), *net.norm.parameters()],
           "lr": 0.02, "weight_decay": 0.0},
          {"params": net.last.parameters(), "lr": 0.05,
           "weight_decay": 1e-3}]
if "adam" in has:
    opt = torch.optim.Adam([{**g, "lr": g["lr"] / 10} for g in groups],
                           lr=0.002)
else:
    opt = torch.optim.SGD(groups, lr=0.02, momentum=0.9)
state = {"net": net, "opt": opt}
plan = None
if "step" in has:
    plan = torch.optim.lr_scheduler.StepLR(opt, 3, 0.8)
elif "onecycle" in has:
    plan = torch.optim.lr_scheduler.OneCycleLR(opt, [0.01, 0.02], 10000)
elif "cosine" in has:
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 40)
elif "plateau" in has:
    plan = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)
if plan:
    state["plan"] = plan
mean = {n: p.detach().clone() for n, p in net.named_parameters()}
if "ema" in has:  # written behind torch's back
    state["mean"] = mean
if "average" in has:
    swa = torch.optim.swa_utils.AveragedModel(net)
    state["swa"] = swa
scaler = torch.cuda.amp.GradScaler(enabled=False)
if "amp" in has:
    state["scaler"] = scaler
if "frozen" in has:
    net.first.requires_grad_(False)

run = mltune.Run(samples=cfg.samples, validation_samples=len(vx),
                 batch_size=16, epochs=3, loss_floor=0, **state)
if "values" in has:
    run.values.best = 9.0


@run.apply
def act(setting):
    net.drop.p = setting.get("dropout", 0.2)


@run.validate(metric="accuracy")
def check():
    out = net(vx)
    return {"loss": (F.cross_entropy(out, vy, reduction="sum"), len(vy)),
            "accuracy": ((out.argmax(1) == vy).sum(), len(vy))}


for batch in run.train():
    if cfg.wrong == "raise" and batch.clock == 3:
        raise ValueError("the third clock is not liked")
    if cfg.wrong == "leave" and batch.clock == 3:
        break
    if cfg.wrong == "nan" and batch.clock == 3:
        batch.loss(float("nan"))
        continue
    if cfg.wrong == "mute" and batch.clock == 3:
        continue
    if "noise" in has:  # both other generators
        numpy.random.rand()
        x.add_(0)
    if "accumulate" not in has:
        opt.zero_grad()
    if "split" in has:
        for part in batch.split(4):
            loss = F.cross_entropy(net(x[part.samples]), y[part.samples])
            part.loss(loss)
            (loss * len(part) / len(batch)).backward()
    else:
        with torch.autocast("cpu", torch.bfloat16, enabled="amp" in has):
            loss = F.cross_entropy(net(x[batch.samples]), y[batch.samples])
        weight = torch.rand(len(batch)) if "weighted" in has else None
        if weight is not None:
            loss = (F.cross_entropy(net(x[batch.samples]), y[batch.samples],
                                    reduction="none") * weight
                    ).sum() / weight.sum()
        batch.loss(loss, weight=None if weight is None else weight.sum())
        scaler.scale(loss).backward()
    if "accumulate" in has and batch.clock % 3 != 2:
        continue  # gradients outlive the clock
    scaler.step(opt)
    scaler.update()
    if "accumulate" in has:
        opt.zero_grad()
    if plan:
        plan.step(*[float(loss)] if "plateau" in has else [])
    if "ema" in has:
        for n, p in net.named_parameters():
            mean[n].data.mul_(0.9).add_(p.data, alpha=0.1)
    if "average" in has and batch.clock % 3 == 0:
        swa.update_parameters(net)
    if "values" in has:
        run.values.best = min(run.values.best, float(loss))
        run.log(best=run.values.best)
    run.log(norm=net.last.weight.norm())
