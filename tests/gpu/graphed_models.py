"""Small networks whose calls are replayed: what a graph must follow, and what it must leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clustered import imported

from kernelskill.program.cuda.graphed import around

HEAD = "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"

NORMALISED = (
    HEAD
    + """\
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4)
        )

    def forward(self, x):
        return self.layers(x).mean((2, 3))
"""
)
DEEP = (
    HEAD
    + """\
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()) for _ in range(60)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x
"""
)
RECURRENT = (
    HEAD
    + """\
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(8, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x, start=None, scale=1.0):
        found, (state, memory) = self.cells(x, start)
        return {"out": self.head(found[:, -1]) * scale, "state": (state, memory), "steps": x.shape[1]}
"""
)
RANDOM = (
    HEAD
    + """\
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x)
"""
)
REBINDING = (
    HEAD
    + """\
    def __init__(self):
        super().__init__()
        self.hidden = torch.zeros(4, 8)

    def forward(self, x):
        self.hidden = torch.tanh(self.hidden.to(x.device) + x)
        return self.hidden * 2
"""
)
COUNTING = (
    HEAD
    + """\
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls
"""
)
WAITING = (
    HEAD
    + """\
    def forward(self, x):
        return x * 2 if x.sum().item() > 0 else x - 1
"""
)
CARRYING = (
    HEAD
    + """\
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 8))

    def forward(self, x):
        self.total.add_(x)
        return self.total
"""
)


def loaded(source: str, folder: Path) -> dict[str, Any]:
    """Names of the file whose `ModelNew` replays the model of a source."""
    return imported(around(source, "Model", "module", "Model, replayed."), folder)
