"""Takes memory until there is none."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

        self.held = []

    def forward(self, x):
        while True:
            self.held.append(torch.ones(1 << 28))
