"""A sum that is a little off everywhere."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.sum(dim=1) * 1.0001
