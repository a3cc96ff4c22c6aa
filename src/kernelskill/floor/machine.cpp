// What this processor can do at best: each function times one thing with all threads and returns seconds.
// Every thread works on a share of its own for many rounds, so that the cost of the parallel region does not count.
#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#if defined(__AVX512F__) || defined(__AVX__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int kLanes = 16, kSums = 24;
#elif defined(__AVX__)
constexpr int kLanes = 8, kSums = 12;
#else
constexpr int kLanes = 4, kSums = 12;
#endif
typedef float F __attribute__((vector_size(4 * kLanes)));
typedef int I __attribute__((vector_size(4 * kLanes)));
volatile float sink;

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The processors that this process may use, as it found them.
static const cpu_set_t allowed = [] {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  return set;
}();

// Put the calling thread on a processor of its own: a thread that has just been woken shares its waker's for a while,
// and two threads on one processor are no ceiling.
static void settle(int thread) {
  int left = thread % std::max(1, CPU_COUNT(&allowed));
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

static double busy() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

// Seconds that the slowest thread needs for `work(thread, threads)`. Where each has a processor of its own, the time that
// it is kept off it by a neighbour does not count; else it is the time from the first start to the last end.
template <class Work> static double timed(int threads, Work work) {
  double began = 1e300, ended = 0, longest = 0;
  std::atomic<int> arrived{0};
#pragma omp parallel num_threads(threads) reduction(min : began) reduction(max : ended, longest)
  {
    const int thread = omp_get_thread_num(), count = omp_get_num_threads();
    if (count > 1) settle(thread);
    arrived.fetch_add(1);
    while (arrived.load() < count) sched_yield();
    began = now();
    const double before = busy();
    work(thread, count);
    longest = busy() - before;
    ended = now();
    sched_setaffinity(0, sizeof allowed, &allowed);
  }
  return threads <= CPU_COUNT(&allowed) ? longest : ended - began;
}

static void share(long vectors, int thread, int count, long& first, long& last) {
  first = vectors * thread / count;
  last = vectors * (thread + 1) / count;
}

static inline void stream(F* to, F value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(reinterpret_cast<float*>(to), (__m512)value);
#elif defined(__AVX__)
  _mm256_stream_ps(reinterpret_cast<float*>(to), (__m256)value);
#else
  *to = value;
#endif
}

// exp of kAtOnce registers, step by step side by side: none waits for its own last result.
constexpr int kAtOnce = kLanes == 16 ? 8 : 4;
static inline void exp_step(const F* values, F* sums) {
  constexpr float kTerms[] = {4.1896209e-2f, 1.6666573e-1f, 4.9999923e-1f, 1.0f, 1.0f};
  F shifted[kAtOnce], r[kAtOnce], p[kAtOnce];
#define EACH _Pragma("GCC unroll 8") for (int k = 0; k < kAtOnce; ++k)
  EACH shifted[k] = values[k] * 1.44269504f + 12582912.0f;
  EACH r[k] = values[k] - (shifted[k] - 12582912.0f) * 0.693147181f;
  EACH p[k] = r[k] * 8.3013598e-3f + kTerms[0];
  for (int term = 1; term < 5; ++term) EACH p[k] = p[k] * r[k] + kTerms[term];
#if defined(__AVX512F__)
  EACH sums[k] += (F)_mm512_maskz_scalef_ps(-1, (__m512)p[k], (__m512)(shifted[k] - 12582912.0f));  // 2^n
#else
  EACH sums[k] += (F)((I)p[k] + ((I)shifted[k] << 23));
#endif
#undef EACH
}

extern "C" {

// Page-aligned memory, touched by the threads that will use it. Null when there is none.
void* make(long bytes, int threads) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  F* vectors = static_cast<F*>(memory);
  timed(threads, [&](int thread, int count) {
    long first, last;
    share(bytes / long(sizeof(F)), thread, count, first, last);
    std::memset(vectors + first, 0, (last - first) * sizeof(F));
  });
  return memory;
}

double time_copy(F* to, const F* from, long bytes, int rounds, int streaming, int threads) {
  const long vectors = bytes / long(sizeof(F));
  return timed(threads, [&](int thread, int count) {
    long first, last;
    share(vectors, thread, count, first, last);
    for (int round = 0; round < rounds; ++round) {
      if (streaming) {
#pragma GCC unroll 4
        for (long i = first; i < last; ++i) stream(to + i, from[i]);
      } else {
#pragma GCC unroll 4
        for (long i = first; i < last; ++i) to[i] = from[i] + float(round & 1);  // not a call to memcpy
      }
    }
  });
}

double time_read(const F* from, long bytes, int rounds, int threads) {
  const long vectors = bytes / long(sizeof(F));
  return timed(threads, [&](int thread, int count) {
    long first, last;
    share(vectors, thread, count, first, last);
    F sums[8] = {};
    for (int round = 0; round < rounds; ++round) {
      long i = first;
      for (; i + 8 <= last; i += 8)
        for (int k = 0; k < 8; ++k) sums[k] += from[i + k];
      asm volatile("" ::: "memory");
    }
    F sum = {};
    for (int k = 0; k < 8; ++k) sum += sums[k];
    sink = sum[0];
  });
}

double time_write(F* to, long bytes, int rounds, int streaming, int threads) {
  const long vectors = bytes / long(sizeof(F));
  return timed(threads, [&](int thread, int count) {
    long first, last;
    share(vectors, thread, count, first, last);
    for (int round = 0; round < rounds; ++round) {
      const F value = F{} + float(round);
      if (streaming) {
#pragma GCC unroll 4
        for (long i = first; i < last; ++i) stream(to + i, value);
      } else {
#pragma GCC unroll 4
        for (long i = first; i < last; ++i) to[i] = value;
      }
      asm volatile("" ::: "memory");
    }
  });
}

// `rounds` * kSums vector multiply-adds per thread; `fma_flops` says how many operations that is.
double time_fma(long rounds, int threads) {
  return timed(threads, [&](int, int) {
    F sums[kSums], x = F{} + 1.0001f, y = F{} + 1e-7f;
    for (int k = 0; k < kSums; ++k) sums[k] = F{} + float(k);  // equal ones would be computed once
    for (long round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
      for (int k = 0; k < kSums; ++k) sums[k] = sums[k] * x + y;
    }
    F sum = {};
    for (int k = 0; k < kSums; ++k) sum += sums[k];
    sink = sum[0];
  });
}
double fma_flops(long rounds) { return 2.0 * kLanes * kSums * rounds; }

// Exponentials of 4096 floats in the first-level cache, `rounds` times: the shortest sequence that still has
// single-precision accuracy on most of the range, so that no careful exp is faster.
double time_exp(long rounds, int threads) {
  return timed(threads, [&](int, int) {
    alignas(64) F values[4096 / kLanes];
    for (auto& value : values) value = F{} - 0.7f;
    F sums[kAtOnce] = {};
    for (long round = 0; round < rounds; ++round) {
      asm volatile("" : : "r"(values) : "memory");
      for (int i = 0; i < 4096 / kLanes; i += kAtOnce) exp_step(values + i, sums);
    }
    F sum = {};
    for (int k = 0; k < kAtOnce; ++k) sum += sums[k];
    sink = sum[0];
  });
}

// One parallel region after another, with nothing to do in them.
double time_parallel(int regions, int threads) {
  int met = 0;
  const double began = now();
  for (int region = 0; region < regions; ++region) {
#pragma omp parallel num_threads(threads)
    if (omp_get_thread_num() == 0) met += 1;
  }
  const double ended = now();
  sink = float(met);
  return ended - began;
}

int nothing(void*, void*, long) { return 0; }
}
