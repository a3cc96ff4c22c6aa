"""Never returns, and holds the interpreter's lock."""

import ctypes
import subprocess
from pathlib import Path

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

        Path("spin.cpp").write_text('extern "C" void spin() { volatile int x = 0; while (true) x = x + 1; }')
        subprocess.run(
            ["g++", "-shared", "-fPIC", "spin.cpp", "-o", "spin.so"], check=True, capture_output=True
        )
        self.spin = ctypes.PyDLL("./spin.so").spin

    def forward(self, x):
        self.spin()
        return x
