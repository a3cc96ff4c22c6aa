from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        raise RuntimeError("unsupported shape")
