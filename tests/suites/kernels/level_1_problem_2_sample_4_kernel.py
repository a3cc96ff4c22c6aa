import torch
from torch import nn


class Renamed(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
