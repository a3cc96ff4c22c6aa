"""Prints a hundred megabytes, and is right."""

import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

        for _ in range(100):
            sys.stdout.write("x" * (1 << 20))

    def forward(self, x):
        return torch.relu(x * self.weight) + torch.tanh(x)
