import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        linear = nn.Linear(inner, outer)
        self.weight, self.bias = linear.weight.detach(), linear.bias.detach()

    def forward(self, x):
        return torch.relu(nn.functional.linear(x, self.weight, self.bias))
