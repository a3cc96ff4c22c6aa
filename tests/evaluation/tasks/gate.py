import torch
from torch import nn

N = 1024


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return torch.relu(x * self.weight) + torch.tanh(x)


def get_inputs():
    return [torch.rand(64, N)]


def get_init_inputs():
    return [N]
