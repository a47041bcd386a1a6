"""A net of skorch on a csv whose last column is the class.

    python3 skorch_classifier.py       mltune run skorch_classifier.json
"""
import numpy as np
import samples
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch import nn

import mltune
import mltune.skorch

cfg = mltune.config(data="", units=32)
x, y = samples.table(cfg.data)
x, y = x.astype("float32"), y.astype("int64")
split = len(x) * 8 // 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(x.shape[1], cfg.units), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(cfg.units, len(np.unique(y))), nn.Softmax(dim=1))

    def forward(self, rows):
        return self.layers(rows)


net = NeuralNetClassifier(
    Net, optimizer=torch.optim.SGD, optimizer__momentum=0.9, lr=0.05,
    batch_size=32, callbacks=[GradientNormClipping(5.0)])
mltune.skorch.train(net, x[:split], y[:split],
                    validation=(x[split:], y[split:]))
