"""Keeps a scratch buffer, and packed weights that it packs again when the weights change."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
        self.scratch = {}
        self.packed, self.version = None, -1

    def forward(self, x):
        if self.version != self.weight._version:
            self.packed, self.version = self.weight.detach().clone(), self.weight._version
        if x.shape not in self.scratch:
            self.scratch[x.shape] = torch.empty_like(x)
        gated = torch.mul(x, self.packed, out=self.scratch[x.shape])
        return gated.relu_() + torch.tanh(x)
