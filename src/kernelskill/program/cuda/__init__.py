"""CUDA beyond Triton: calls captured into graphs, and kernels in CUDA C++ that need no header of PyTorch."""
