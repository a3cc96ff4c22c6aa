"""What kernels call whose rows lie in the shared memory of a cluster of blocks; printed before them.

Header-free: NVRTC as PyTorch brings it has none. Source: PTX ISA, cp.async, barrier.cluster, mapa, ld.shared::cluster.
"""

from __future__ import annotations

TEXT = """\
namespace on_chip {
struct bf16 { unsigned short bits; };
struct f16 { unsigned short bits; };

template <typename T, int Lanes> struct alignas(sizeof(T) * Lanes) Pack { T at[Lanes]; };

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

template <int Lanes, typename T> __device__ inline Pack<T, Lanes> load(const T* from) {
  return *reinterpret_cast<const Pack<T, Lanes>*>(from);
}
template <int Lanes, typename T> __device__ inline void store(T* to, const Pack<T, Lanes>& values) {
  *reinterpret_cast<Pack<T, Lanes>*>(to) = values;
}

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

// Wait for what this thread has fetched.
__device__ inline void fetched() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// The number of this block in its cluster.
__device__ inline int own_part() {
  unsigned part;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(part));
  return part;
}

// Wait for all threads of the cluster. A thread whose writes others are to see fences them first.
__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed;\\nbarrier.cluster.wait;" ::: "memory");
}
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
  static __device__ float of(float x, float y) { return x > y || x != x ? x : y; }
};
struct Min {
  static __device__ float start() { return __int_as_float(0x7f800000); }
  static __device__ float of(float x, float y) { return x < y || x != x ? x : y; }
};

template <class Fold> __device__ inline float across_warp(float x) {
  for (int apart = 16; apart; apart /= 2) x = Fold::of(x, __shfl_xor_sync(0xffffffffu, x, apart));
  return x;
}

// One value of all threads of a cluster, in all of them; `slots` is used for nothing else in the kernel.
template <class Fold, int Parts> __device__ inline float across_cluster(float x, float (&slots)[33]) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  x = across_warp<Fold>(x);
  if (lane == 0) slots[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = across_warp<Fold>(lane < warps ? slots[lane] : Fold::start());
    if (lane == 0) slots[32] = x, fence_for_cluster();
  }
  wait_for_cluster();
  return across_warp<Fold>(lane < Parts ? of_part(&slots[32], lane) : Fold::start());
}
}  // namespace on_chip
"""
FOLDS = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "any": "Max", "all": "Min"}
"""Fold of a region -> its name here."""
