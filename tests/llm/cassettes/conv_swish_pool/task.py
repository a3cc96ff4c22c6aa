"""A small convolution, an activation and a pooling, as at the entrance of a network."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Convolution 3 x 3, hard swish, maximum over 2 x 2."""

    def __init__(self, channels: int, features: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, 3, padding=1)

    def forward(self, x):
        return F.max_pool2d(F.hardswish(self.conv(x)), 2)


def get_inputs():
    return [torch.randn(16, 3, 96, 96)]


def get_init_inputs():
    return [3, 32]
