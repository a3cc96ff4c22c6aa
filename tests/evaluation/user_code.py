"""What a user's own module may look like."""

import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6))

    def forward(self, x, mask):
        return (x * self.weight + mask).softmax(-1)
