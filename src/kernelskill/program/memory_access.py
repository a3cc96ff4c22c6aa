"""C++ text of loads, stores and folds across a register, for every storage type; printed as needed."""

from __future__ import annotations

BF16 = """\
struct bf16 {
  uint16_t bits;
  operator float() const { uint32_t wide = uint32_t(bits) << 16; float x; std::memcpy(&x, &wide, 4); return x; }
  bf16() = default;
  bf16(float x) {
    uint32_t wide;
    std::memcpy(&wide, &x, 4);
    bits = x != x ? 0x7fc0 : (wide + 0x7fff + (wide >> 16 & 1)) >> 16;  // to nearest, ties to even
  }
};
"""

LOAD = """\
template <class F> inline F load(const float* p) { F x; std::memcpy(&x, p, sizeof x); return x; }
template <class F> inline F load(const float* p, int n) { F x{}; std::memcpy(&x, p, 4 * n); return x; }
"""

LOAD_OTHER = """\
template <class F, class T> inline F load(const T* p) {
  F x;
  for (unsigned i = 0; i < sizeof(F) / 4; ++i) x[i] = float(p[i]);
  return x;
}
template <class F, class T> inline F load(const T* p, int n) {
  F x{};
  for (int i = 0; i < n; ++i) x[i] = float(p[i]);
  return x;
}
"""

LOAD_MASK = """\
template <class F> inline auto load_mask(const bool* p) {
  typedef int8_t bytes __attribute__((vector_size(sizeof(F) / 4)));
  bytes b;
  std::memcpy(&b, p, sizeof b);
  return __builtin_convertvector(b, decltype(F{} < F{})) != 0;
}
template <class F> inline auto load_mask(const bool* p, int n) {
  bool b[sizeof(F) / 4] = {};
  std::memcpy(b, p, n);
  return load_mask<F>(b);
}
"""

LOAD_STRIDED = """\
template <class F, class T> inline F load_strided(const T* p, long step, int n = sizeof(F) / 4) {
  F x{};
  for (int i = 0; i < n; ++i) x[i] = float(p[i * step]);
  return x;
}
"""

LOAD_MASK_STRIDED = """\
template <class F> inline auto load_mask_strided(const bool* p, long step, int n = sizeof(F) / 4) {
  bool b[sizeof(F) / 4] = {};
  for (int i = 0; i < n; ++i) b[i] = p[i * step];
  return load_mask<F>(b);
}
"""

STORE = """\
template <class F> inline void store(float* p, F x) { std::memcpy(p, &x, sizeof x); }
template <class F> inline void store(float* p, F x, int n) { std::memcpy(p, &x, 4 * n); }
"""

STORE_OTHER = """\
template <class T, class F> inline void store(T* p, F x, int n = sizeof(F) / 4) {
  for (int i = 0; i < n; ++i) p[i] = T(x[i]);
}
"""

STORE_MASK = """\
template <class I> inline void store(bool* p, I mask, int n = sizeof(I) / 4) {
  for (int i = 0; i < n; ++i) p[i] = mask[i] != 0;
}
"""

STORE_STRIDED = """\
template <class T, class F> inline void store_strided(T* p, long step, F x, int n = sizeof(F) / 4) {
  for (int i = 0; i < n; ++i) p[i * step] = T(x[i]);
}
"""

STREAM = """\
// Past the cache where the address allows it: the line is not read before it is overwritten.
template <class F> inline void stream(float* p, F x) {
  if (reinterpret_cast<uintptr_t>(p) % sizeof(F)) { std::memcpy(p, &x, sizeof x); return; }
  if constexpr (sizeof(F) == 64) _mm512_stream_ps(p, (__m512)x);
  else if constexpr (sizeof(F) == 32) _mm256_stream_ps(p, (__m256)x);
  else _mm_stream_ps(p, (__m128)x);
}
template <class F> inline void stream(float* p, F x, int n) { std::memcpy(p, &x, 4 * n); }
"""

KEEP = """\
template <class F> inline F keep(F x, float) { return x; }
template <class F> inline F keep(F x, float other, int n) {  // lanes from n on hold no element
  for (int i = 0; i < int(sizeof(F) / 4); ++i) x[i] = i < n ? x[i] : other;
  return x;
}
"""

INDEX = """\
template <class F> inline F index_at(long j) {
  F x;
  for (unsigned i = 0; i < sizeof(F) / 4; ++i) x[i] = i;
  return x + float(j);
}
"""


def _extreme(name: str, sign: str) -> str:
    return f"""\
// The {name} of two values with its place; the earlier place of equals; NaN before all, as in torch.
template <class F> inline void {name}(F& top, F& place, F x, F at) {{
  auto wins = (x {sign} top) | ((x != x) & (top == top));
  auto same = (x == top) | ((x != x) & (top != top));
  wins = wins | (same & (at < place));
  top = wins ? x : top;
  place = wins ? at : place;
}}
template <class F> inline void across_{name}(float& top, float& place, F x, F at) {{
  for (unsigned i = 0; i < sizeof(F) / 4; ++i) {name}(top, place, float(x[i]), float(at[i]));
}}
"""


EXTREMES = {"argmax": "larger", "argmin": "smaller"}
"""Fold -> function that keeps an extreme with its place."""

ACROSS = {
    "sum": """\
template <class F> inline float across_sum(F x) {
  float lanes[sizeof(F) / 4];
  std::memcpy(lanes, &x, sizeof x);
  for (unsigned half = sizeof(F) / 8; half; half /= 2)
    for (unsigned i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}
""",
    "prod": """\
template <class F> inline float across_prod(F x) {
  float y = x[0];
  for (unsigned i = 1; i < sizeof(F) / 4; ++i) y *= x[i];
  return y;
}
""",
    "max": """\
template <class F> inline float across_max(F x) {
  float y = x[0];
  for (unsigned i = 1; i < sizeof(F) / 4; ++i) y = x[i] > y || x[i] != x[i] ? x[i] : y;
  return y;
}
""",
    "min": """\
template <class F> inline float across_min(F x) {
  float y = x[0];
  for (unsigned i = 1; i < sizeof(F) / 4; ++i) y = x[i] < y || x[i] != x[i] ? x[i] : y;
  return y;
}
""",
}


def memory_functions(text: str, dtypes: set[str]) -> list[str]:
    """The loads, stores and folds that a printed body calls.

    Args:
        text: the printed functions.
        dtypes: storage types of all operands.
    """
    other = dtypes - {"float32", "bool"}
    wanted = {
        BF16: "bfloat16" in dtypes,
        LOAD: "load<F>" in text,
        LOAD_OTHER: "load<F>" in text and bool(other),
        LOAD_MASK: "load_mask" in text,
        LOAD_STRIDED: "load_strided<F>" in text,
        LOAD_MASK_STRIDED: "load_mask_strided" in text,
        STORE: "store(" in text,
        STORE_OTHER: "store(" in text and bool(other),
        STORE_MASK: "store(" in text and "bool" in dtypes,
        STORE_STRIDED: "store_strided(" in text,
        STREAM: "stream(" in text,
        KEEP: "keep(" in text,
        INDEX: "index_at<" in text,
        _extreme("larger", ">"): "larger(" in text,
        _extreme("smaller", "<"): "smaller(" in text,
        **{piece: f"across_{name}(" in text for name, piece in ACROSS.items()},
    }
    return [piece for piece, is_needed in wanted.items() if is_needed]
