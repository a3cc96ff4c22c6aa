// A GPU's clusters on a CPU, one thread for each of theirs: what kernels call that C++ has no words for.
// A copy takes place when its piece is waited for, and memory of a block is NaN before; so what comes too early shows.
#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#define __global__
#define __launch_bounds__(...)

using std::min;
struct Index { int x; };
inline thread_local Index threadIdx, blockIdx, blockDim;

namespace on_host {
constexpr int TILE_BYTES = 1 << 20, FOLDS = 16, WARP = 32, MOST_THREADS = 1024;

struct Block {
  explicit Block(int threads) : all(threads) {
    std::memset(tile, 0xff, sizeof tile);
    for (int warp = 0; warp < threads / WARP; ++warp) warps.push_back(std::make_unique<std::barrier<>>(WARP));
  }
  alignas(16) unsigned char tile[TILE_BYTES];
  alignas(16) unsigned char slots[FOLDS][512];
  float given[MOST_THREADS];
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
};

struct Cluster {
  Cluster(int parts, int threads) : all(parts * threads) {
    for (int part = 0; part < parts; ++part) blocks.push_back(std::make_unique<Block>(threads));
  }
  std::vector<std::unique_ptr<Block>> blocks;
  std::barrier<> all;
};

struct Copy { void* to; const void* from; int bytes; };

inline thread_local Cluster* cluster;
inline thread_local int part;
inline thread_local std::optional<std::barrier<>::arrival_token> token;
inline thread_local std::vector<std::vector<Copy>> pieces;

inline Block& block() { return *cluster->blocks[part]; }
template <typename T> T (&slots(int fold))[33] { return reinterpret_cast<T(&)[33]>(block().slots[fold]); }

// Run a kernel, one cluster after the other.
template <typename... Pointers>
void launch(void (*kernel)(Pointers...), void** addresses, int blocks, int parts, int threads) {
  auto call = [&]<std::size_t... I>(std::index_sequence<I...>) { kernel(static_cast<Pointers>(addresses[I])...); };
  for (int first = 0; first < blocks; first += parts) {
    Cluster here(parts, threads);
    std::vector<std::thread> running;
    for (int number = 0; number < parts * threads; ++number)
      running.emplace_back([&, number] {
        cluster = &here, part = number / threads;
        threadIdx.x = number % threads, blockIdx.x = first + part, blockDim.x = threads;
        pieces.assign(1, {});
        call(std::index_sequence_for<Pointers...>{});
      });
    for (auto& thread : running) thread.join();
  }
}
}  // namespace on_host

inline float __int_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline void __syncthreads() { on_host::block().all.arrive_and_wait(); }
inline float __shfl_xor_sync(unsigned, float x, int apart) {
  auto& block = on_host::block();
  auto& warp = *block.warps[threadIdx.x / on_host::WARP];
  block.given[threadIdx.x] = x;
  warp.arrive_and_wait();
  x = block.given[threadIdx.x ^ apart];
  warp.arrive_and_wait();
  return x;
}

namespace on_chip {
inline float read(float x) { return x; }
inline bool read(bool x) { return x; }
inline float read(bf16 x) { return std::bit_cast<float>((unsigned)x.bits << 16); }
inline float read(f16 x) { return (float)std::bit_cast<_Float16>(x.bits); }
inline void write(float& to, float x) { to = x; }
inline void write(bool& to, bool x) { to = x; }
inline void write(bf16& to, float x) {
  const unsigned bits = std::bit_cast<unsigned>(x);
  to.bits = x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline void write(f16& to, float x) { to.bits = std::bit_cast<unsigned short>((_Float16)x); }

template <int Lanes, typename T> void fetch(T* to, const T* from) {
  on_host::pieces.back().push_back({to, from, (int)sizeof(T) * Lanes});
}
inline void end_piece() { on_host::pieces.emplace_back(); }
inline void wait_for_piece(int last) {
  for (int piece = 0; piece <= last; ++piece) {
    for (const auto& copy : on_host::pieces[piece]) std::memcpy(copy.to, copy.from, copy.bytes);
    on_host::pieces[piece].clear();
  }
}

inline int own_part() { return on_host::part; }
inline void arrive_at_cluster() { on_host::token = on_host::cluster->all.arrive(); }
inline void wait_for_cluster() { on_host::cluster->all.wait(*std::exchange(on_host::token, std::nullopt)); }
inline void fence_for_cluster() {}
inline float of_part(const float* here, int part) {
  const auto place = (const unsigned char*)here - (const unsigned char*)&on_host::block();
  return *(const float*)((const unsigned char*)on_host::cluster->blocks[part].get() + place);
}

inline float larger(float x, float y) { return x > y || x != x ? x : y; }
inline float smaller(float x, float y) { return x < y || x != x ? x : y; }
inline float power_of_two(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }
}  // namespace on_chip
