"""A gated recurrent unit written as a loop over time, and a head on its last state."""

import torch
from torch import nn


class Model(nn.Module):
    """GRU cell by cell; gates in the order reset, update, new."""

    def __init__(self, inputs: int, width: int, classes: int):
        super().__init__()
        self.width = width
        self.from_input = nn.Linear(inputs, 3 * width)
        self.from_state = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x.new_zeros(x.shape[0], self.width)
        for step in range(x.shape[1]):
            from_input = self.from_input(x[:, step]).chunk(3, dim=1)
            from_state = self.from_state(state).chunk(3, dim=1)
            reset = torch.sigmoid(from_input[0] + from_state[0])
            update = torch.sigmoid(from_input[1] + from_state[1])
            new = torch.tanh(from_input[2] + reset * from_state[2])
            state = (1 - update) * new + update * state
        return self.head(state)


def get_inputs():
    return [torch.randn(256, 16, 128)]


def get_init_inputs():
    return [128, 128, 10]
