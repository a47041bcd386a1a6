"""Boosted trees with XGBoost: a clock is a round, and each fork has a forest of
its own. The learning rate, depth and subsample may change from round to round.

    python3 boosting.py          mltune run boosting.json
"""
import numpy as np
import samples
import xgboost

import mltune

ROUNDS = 5    # an epoch
cfg = mltune.config(data="")
x, label = samples.table(cfg.data)
classes, y = np.unique(label, return_inverse=True)
split = len(x) * 8 // 10
train = xgboost.DMatrix(x[:split], y[:split])
test = xgboost.DMatrix(x[split:], y[split:])


class Forest:
    """A booster as state: its bytes."""

    params = {"objective": "multi:softprob", "num_class": len(classes),
              "nthread": 1, "eval_metric": "mlogloss"}

    def __init__(self):
        self.booster = xgboost.Booster(self.params, [train])
        self.load_state_dict(self.state_dict())

    def state_dict(self):
        return {"raw": bytes(self.booster.save_raw("ubj"))}

    def load_state_dict(self, state):
        self.booster = xgboost.Booster(self.params)
        self.booster.load_model(bytearray(state["raw"]))
        self.booster.set_param(self.params)

    def loss(self, data):
        return float(self.booster.eval(data).rpartition(":")[2])


forest = Forest()
run = mltune.Run(forest=forest, samples=split, parts=ROUNDS, loss_floor=0,
                 validation_samples=len(x) - split)


@run.validate(metric="log_loss", better="lower")
def log_loss():
    return forest.loss(test)


@run.apply
def apply(setting):
    forest.booster.set_param({
        "eta": setting.get("learning_rate", 0.3),
        "max_depth": int(setting.get("max_depth", 4)),
        "subsample": setting.get("subsample", 1.0)})


@run.saver
def save(folder):
    forest.booster.save_model(f"{folder}/forest.ubj")


for batch in run.train():
    batch.loss(forest.loss(train), samples=split // ROUNDS)
    if not batch.probe:
        forest.booster.set_param({"seed": batch.clock})
        forest.booster.update(train, forest.booster.num_boosted_rounds())
