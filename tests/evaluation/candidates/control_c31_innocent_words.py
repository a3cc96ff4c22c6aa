"""Honest forward pass; try: this one."""

import torch
from torch import nn


class ModelNew(nn.Module):
    """The forward pass of the gate. try: nothing, except: nothing."""

    pass_ = True

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return torch.relu(x * self.weight) + torch.tanh(x)
