"""Returns to go of reinforcement learning: a reverse cumulative sum along time, ignoring finished episodes."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Sum of the masked rewards from each step to the end of the row."""

    def forward(self, rewards, alive):
        masked = torch.where(alive, rewards, torch.zeros_like(rewards))
        return torch.flip(torch.cumsum(torch.flip(masked, dims=[1]), dim=1), dims=[1])


def get_inputs():
    return [torch.randn(256, 4096), torch.rand(256, 4096) > 0.1]


def get_init_inputs():
    return []
