"""What kernels call whose rows lie in the shared memory of a cluster of blocks; printed before them.

Header-free: NVRTC as PyTorch brings it has none. Source: PTX ISA, cp.async, barrier.cluster, mapa, ld.shared::cluster,
max, ex2.
"""

from __future__ import annotations

ACCESSES = """\
namespace on_chip {
struct bf16 { unsigned short bits; };
struct f16 { unsigned short bits; };

template <typename T, int Lanes> struct alignas(sizeof(T) * Lanes) Pack { T at[Lanes]; };

template <int Lanes, typename T> __device__ inline Pack<T, Lanes> load(const T* from) {
  return *reinterpret_cast<const Pack<T, Lanes>*>(from);
}
template <int Lanes, typename T> __device__ inline void store(T* to, const Pack<T, Lanes>& values) {
  *reinterpret_cast<Pack<T, Lanes>*>(to) = values;
}
}  // namespace on_chip
"""
"""Storage types and accesses."""
INSTRUCTIONS = """\
namespace on_chip {
__device__ inline float read(float x) { return x; }
__device__ inline bool read(bool x) { return x; }
__device__ inline float read(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ inline float read(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

__device__ inline void write(float& to, float x) { to = x; }
__device__ inline void write(bool& to, bool x) { to = x; }
__device__ inline void write(bf16& to, float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
__device__ inline void write(f16& to, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }

// Begin to copy an access from memory to shared memory; many may be under way, and none needs registers.
template <int Lanes, typename T> __device__ inline void fetch(T* to, const T* from) {
  constexpr int bytes = sizeof(T) * Lanes;
  const unsigned there = (unsigned)__cvta_generic_to_shared(to);
  const unsigned long long here = (unsigned long long)__cvta_generic_to_global(from);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(here) : "memory");
  else if constexpr (bytes == 4 || bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(there), "l"(here), "n"(bytes) : "memory");
  else
    store<Lanes>(to, load<Lanes>(from));
}

// End a piece of what this thread fetches; there are four.
__device__ inline void end_piece() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait until this thread's pieces up to one have come.
__device__ inline void wait_for_piece(int piece) {
  switch (piece) {
    case 0: asm volatile("cp.async.wait_group 3;" ::: "memory"); break;
    case 1: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
    case 2: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
    default: asm volatile("cp.async.wait_group 0;" ::: "memory");
  }
}

// The number of this block in its cluster.
__device__ inline int own_part() {
  unsigned part;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(part));
  return part;
}

// Tell the cluster that this thread has come, wait until all have. Writes that others are to see are fenced before.
__device__ inline void arrive_at_cluster() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ inline void wait_for_cluster() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
__device__ inline void fence_for_cluster() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }

// What another block of the cluster has at the place that is `here` in this one.
__device__ inline float of_part(const float* here, int part) {
  unsigned there;
  float x;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(here)), "r"(part));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(there) : "memory");
  return x;
}

// The larger or smaller of two; a NaN stays.
__device__ inline float larger(float x, float y) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  return x;
}
__device__ inline float smaller(float x, float y) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  return x;
}

// 2 to the power of x, zero below 2^-126.
__device__ inline float power_of_two(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
}  // namespace on_chip
"""
"""What C++ has no words for: conversions, asynchronous copies, clusters, single instructions."""
FOLDING = """\
namespace on_chip {
struct Sum {
  static __device__ float start() { return 0.0f; }
  static __device__ float of(float x, float y) { return x + y; }
};
struct Prod {
  static __device__ float start() { return 1.0f; }
  static __device__ float of(float x, float y) { return x * y; }
};
struct Max {
  static __device__ float start() { return -__int_as_float(0x7f800000); }
  static __device__ float of(float x, float y) { return larger(x, y); }
};
struct Min {
  static __device__ float start() { return __int_as_float(0x7f800000); }
  static __device__ float of(float x, float y) { return smaller(x, y); }
};

// exp(x) for x <= 0, off by less than 3e-7 of exp(0); a NaN stays.
__device__ inline float exp_below_zero(float x) { return power_of_two(x * 1.44269504f); }

// The maximum of some numbers, and the sum of exponentials below it. Of none, or of -inf alone, the sum is 0.
struct Peak { float top, sum; };
__device__ inline float finite(float top) { return top == Max::start() ? 0.0f : top; }

struct Softmax {
  static __device__ Peak start() { return {Max::start(), 0.0f}; }
  template <int Lanes> static __device__ Peak of(Peak all, const float (&x)[Lanes]) {
    float top = all.top, sum = 0.0f;
#pragma unroll
    for (int lane = 0; lane < Lanes; ++lane) top = larger(top, x[lane]);
#pragma unroll
    for (int lane = 0; lane < Lanes; ++lane) sum += exp_below_zero(x[lane] - finite(top));
    return {top, all.sum * exp_below_zero(all.top - finite(top)) + sum};
  }
};

template <class Fold> __device__ inline float across_warp(float x) {
  for (int apart = 16; apart; apart /= 2) x = Fold::of(x, __shfl_xor_sync(0xffffffffu, x, apart));
  return x;
}
template <class Fold> __device__ inline Peak across_warp(Peak x) {
  const float top = across_warp<Max>(x.top);
  return {top, across_warp<Sum>(x.sum * exp_below_zero(x.top - finite(top)))};
}
__device__ inline Peak of_part(const Peak* here, int part) {
  return {of_part(&here->top, part), of_part(&here->sum, part)};
}

// One value of all threads of a cluster, in all of them; `slots` is used for nothing else in the kernel.
template <class Fold, int Parts, typename Value>
__device__ inline Value across_cluster(Value x, Value (&slots)[33]) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  x = across_warp<Fold>(x);
  if (lane == 0) slots[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = across_warp<Fold>(lane < warps ? slots[lane] : Fold::start());
    if (lane == 0) slots[32] = x, fence_for_cluster();
  }
  arrive_at_cluster();
  wait_for_cluster();
  return across_warp<Fold>(lane < Parts ? of_part(&slots[32], lane) : Fold::start());
}
}  // namespace on_chip
"""
"""How values of all threads become one."""
TEXT = ACCESSES + INSTRUCTIONS + FOLDING
FOLDS = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "any": "Max", "all": "Min",
         "softmax": "Softmax"}  # fmt: skip
"""Fold of a region -> its name here."""
