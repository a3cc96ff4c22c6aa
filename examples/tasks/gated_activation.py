"""A gate of smooth activations on data that stays in cache: many transcendentals for each byte."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """GELU path times a sigmoid gate, plus a tanh path damped by a Gaussian."""

    def __init__(self, slope: float):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        gate = torch.sigmoid(self.slope * x)
        bump = torch.exp(-x * x)
        return F.gelu(x) * gate + torch.tanh(x) * bump


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return [1.702]
