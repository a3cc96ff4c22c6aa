"""Kernels in CUDA C++, built by cupy's NVRTC where it is there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from profiled_case import Case

CUDA = r"""
extern "C" __global__ void conflicts(const float* x, float* y) {
  __shared__ float tile[32][32];
  const long at = (long)blockIdx.x * 1024 + threadIdx.x;
  float sum = 0.f;
  for (int round = 0; round < 8; ++round) {
    tile[threadIdx.x % 32][threadIdx.x / 32] = x[at] + round;
    __syncthreads();
    sum += tile[(threadIdx.x + round) % 32][threadIdx.x / 32];
    __syncthreads();
  }
  y[at] = sum;
}
extern "C" __global__ void diverges(const float* x, float* y) {
  const long at = (long)blockIdx.x * 1024 + threadIdx.x;
  float v = x[at];
  const int times = (threadIdx.x * 37) % 29;
  for (int round = 0; round < times * 2; ++round) {
    if (v > 0.5f) v = v * 0.999f - 0.01f; else v = v * 1.001f + sinf(v);
  }
  y[at] = v;
}
__device__ float fold(float v, bool largest, float* parts) {
  for (int step = 16; step; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v, step);
    v = largest ? fmaxf(v, other) : v + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = parts[threadIdx.x % 32];
  for (int step = 16; step; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v, step);
    v = largest ? fmaxf(v, other) : v + other;
  }
  return v;
}
extern "C" __global__ void __launch_bounds__(1024) shared_rows(const float4* x, float4* y) {
  extern __shared__ float4 row[];  // 12288 of them: one block fills a multiprocessor
  __shared__ float parts[32];
  const long base = (long)blockIdx.x * 12288;
  float high = -3.4e38f, total = 0.f;
  #pragma unroll
  for (int at = threadIdx.x; at < 12288; at += 1024) {
    const float4 v = x[base + at];
    row[at] = v;
    high = fmaxf(high, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  }
  high = fold(high, true, parts);
  for (int at = threadIdx.x; at < 12288; at += 1024) {
    float4 v = row[at];
    v.x = __expf(v.x - high); v.y = __expf(v.y - high); v.z = __expf(v.z - high); v.w = __expf(v.w - high);
    row[at] = v;
    total += (v.x + v.y) + (v.z + v.w);
  }
  total = 1.f / fold(total, false, parts);
  for (int at = threadIdx.x; at < 12288; at += 1024) {
    const float4 v = row[at];
    y[base + at] = make_float4(v.x * total, v.y * total, v.z * total, v.w * total);
  }
}
"""
ROW = 49152
"""Floats of a row that `shared_rows` holds."""


def cuda_cases(x: torch.Tensor, y: torch.Tensor) -> list[Case]:
    """Kernels over n floats, or over as many rows of `ROW` as they hold; none where cupy cannot build them."""
    try:
        import cupy

        module = cupy.RawModule(code=CUDA, options=("-std=c++17",))
        functions = {name: module.get_function(name) for name in ("conflicts", "diverges", "shared_rows")}
        functions["shared_rows"].max_dynamic_shared_size_bytes = 4 * ROW
    except Exception as error:  # noqa: BLE001  no cupy, or no compiler for it: the other kernels are worth having
        sys.stderr.write(f"no kernels in CUDA C++: {error!r}\n")
        return []

    def launch(name: str, blocks: int, shared: int = 0) -> Callable[[], Any]:
        function = functions[name]

        def call() -> None:
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
            function((blocks,), (1024,), (x.data_ptr(), y.data_ptr()), shared_mem=shared, stream=stream)

        return call

    small, rows = x.numel() // 4, x.numel() // ROW
    whole = rows * ROW
    return [
        Case(
            "bank_conflicts", launch("conflicts", small // 1024), 4 * small, 4 * small, 8.0 * small,
            function=functions["conflicts"],
        ),
        Case(
            "divergent_loop", launch("diverges", small // 1024), 4 * small, 4 * small, 56.0 * small, 14.0 * small,
            function=functions["diverges"],
        ),
        Case(
            "shared_rows", launch("shared_rows", rows, 4 * ROW), 4 * whole, 4 * whole, 4.0 * whole, whole,
            function=functions["shared_rows"],
        ),
    ]  # fmt: skip
