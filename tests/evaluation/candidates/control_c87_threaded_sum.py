"""Threads add their parts in whatever order they come: not bitwise the same twice, but accurate."""

import ctypes
import subprocess
from pathlib import Path

import torch
from torch import nn

SOURCE = r"""
extern "C" void row_sums(const float* x, float* y, long rows, long length) {
    for (long row = 0; row < rows; ++row) {
        float whole = 0.0f;
        #pragma omp parallel for schedule(dynamic, 1)
        for (long block = 0; block < length / 256; ++block) {
            float part = 0.0f;
            for (long i = 0; i < 256; ++i) part += x[row * length + block * 256 + i];
            #pragma omp atomic
            whole += part;
        }
        y[row] = whole;
    }
}
"""
Path("sums.cpp").write_text(SOURCE)
command = ["g++", "-O2", "-fopenmp", "-shared", "-fPIC", "sums.cpp", "-o", "sums.so"]
subprocess.run(command, check=True, capture_output=True)
row_sums = ctypes.CDLL("./sums.so").row_sums
row_sums.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]


class ModelNew(nn.Module):
    def forward(self, x):
        result = torch.empty(x.shape[0])
        row_sums(x.data_ptr(), result.data_ptr(), x.shape[0], x.shape[1])
        return result
