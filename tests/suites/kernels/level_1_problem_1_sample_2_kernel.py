import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * torch.exp(x * x)
