"""Kernels that are not a loop nest over one space: scans and pooling."""
