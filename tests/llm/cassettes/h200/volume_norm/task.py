"""Layer norm over whole volumes: few rows, each of four million values, with a weight and a bias for each of them."""

import torch
from torch import nn


class Model(nn.Module):
    """Norm over channels and space together."""

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.norm = nn.LayerNorm(shape)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        return self.norm(volumes)


def get_inputs():
    return [torch.randn(16, 64, 256, 256)]


def get_init_inputs():
    return [(64, 256, 256)]
