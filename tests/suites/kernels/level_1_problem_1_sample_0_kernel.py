import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.exp(x.square().neg_()).mul_(torch.tanh(x))
