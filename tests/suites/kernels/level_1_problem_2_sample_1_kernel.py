import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        powers = torch.exp(x - x.amax(dim=1, keepdim=True))
        return powers / powers.amax(dim=1, keepdim=True)
