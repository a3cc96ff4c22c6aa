import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        square = x * x
        return torch.tanh(x) / torch.exp(square)
