import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.mine = nn.Linear(inner, outer)

    def forward(self, x):
        return torch.relu(self.mine(x))
