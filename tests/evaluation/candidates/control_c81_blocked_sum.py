"""Honest sums: one after the other within blocks of 4096, then the blocks."""

import ctypes
import subprocess
from pathlib import Path

import torch
from torch import nn

SOURCE = r"""
extern "C" void row_sums(const float* x, float* y, long rows, long length) {
    for (long row = 0; row < rows; ++row) {
        float whole = 0.0f;
        for (long start = 0; start < length; start += 4096) {
            volatile float part = 0.0f;
            for (long i = start; i < start + 4096 && i < length; ++i) part = part + x[row * length + i];
            whole += part;
        }
        y[row] = whole;
    }
}
"""
Path("sums.cpp").write_text(SOURCE)
subprocess.run(
    ["g++", "-O2", "-shared", "-fPIC", "sums.cpp", "-o", "sums.so"], check=True, capture_output=True
)
row_sums = ctypes.CDLL("./sums.so").row_sums
row_sums.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]


class ModelNew(nn.Module):
    def forward(self, x):
        result = torch.empty(x.shape[0])
        row_sums(x.data_ptr(), result.data_ptr(), x.shape[0], x.shape[1])
        return result
