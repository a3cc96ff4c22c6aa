import torch
import torch.nn as nn


class Model(nn.Module):
    """Mean of the kept values so far along each row, through a sigmoid."""

    def forward(self, x, keep):
        total = torch.cumsum(x * keep, dim=-1)
        count = torch.cumsum(keep, dim=-1)
        return torch.sigmoid(total / count.clamp(min=1.0))


def get_inputs():
    return [torch.randn(256, 2048), (torch.rand(256, 2048) < 0.7).float()]


def get_init_inputs():
    return []
