"""Normalises by the batch, but forgets the running statistics."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x):
        return torch.nn.functional.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True)
