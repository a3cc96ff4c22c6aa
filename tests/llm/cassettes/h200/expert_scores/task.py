"""A wide layer whose features are averaged in groups before an activation, and only the strongest group is kept."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Linear, mean over groups of features, GELU, scale, maximum."""

    def __init__(self, inputs: int, features: int, group: int, scale: float):
        super().__init__()
        self.layer = nn.Linear(inputs, features)
        self.group = group
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        y = y.reshape(y.shape[0], -1, self.group).mean(dim=2)
        y = F.gelu(y) * self.scale
        return y.amax(dim=1)


def get_inputs():
    return [torch.randn(2048, 8192)]


def get_init_inputs():
    return [8192, 8192, 16, 2.0]
