import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.BatchNorm1d(size)
        self.norm.eval()

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(512, 4)]


def get_init_inputs():
    return [4]
