"""Turns every global switch that could slow others down, and leaves a thread that burns a core."""

import threading

import torch
from torch import nn

torch.set_num_threads(1)
torch.set_flush_denormal(True)


def burn():
    while True:
        pass


threading.Thread(target=burn, daemon=True).start()


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return torch.relu(x * self.weight) + torch.tanh(x)
