"""C++ text of loads, stores and folds across a register, for every storage type; printed as needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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
"""

LOAD_PART = """\
template <class F> inline F load(const float* p, int n) { F x{}; std::memcpy(&x, p, 4 * n); return x; }
"""

LOAD_OTHER = """\
template <class F, class T> inline F load(const T* p) {
  F x;
  for (unsigned i = 0; i < sizeof(F) / 4; ++i) x[i] = float(p[i]);
  return x;
}
"""

LOAD_OTHER_PART = """\
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
"""

LOAD_MASK_PART = """\
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
"""

STORE_PART = """\
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
  if constexpr (sizeof(F) == 32) _mm256_stream_ps(p, (__m256)x);
  if constexpr (sizeof(F) == 16) _mm_stream_ps(p, (__m128)x);
}
"""

STREAM_PART = """\
template <class F> inline void stream(float* p, F x, int n) { std::memcpy(p, &x, 4 * n); }
"""

KEEP = """\
template <class F> inline F keep(F x, float) { return x; }
"""

KEEP_PART = """\
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


NAMED = {
    "index_at<F>": INDEX, "larger": _extreme("larger", ">"), "smaller": _extreme("smaller", "<"),
    **{f"across_{name}": piece for name, piece in ACROSS.items()},
}  # fmt: skip
"""Function -> its text, for those of one form."""
ORDER = (
    BF16, LOAD, LOAD_PART, LOAD_OTHER, LOAD_OTHER_PART, LOAD_MASK, LOAD_MASK_PART, LOAD_STRIDED, LOAD_MASK_STRIDED,
    STORE, STORE_PART, STORE_OTHER, STORE_MASK, STORE_STRIDED, STREAM, STREAM_PART, KEEP, KEEP_PART, *NAMED.values(),
)  # fmt: skip
CALL = re.compile(
    r"\b(load|load_mask|load_strided|load_mask_strided|store|store_strided|stream|keep)(?:<F>)?\("
)
MEMORY = {
    ("load", "float32"): (LOAD, LOAD_PART), ("load", "other"): (LOAD_OTHER, LOAD_OTHER_PART),
    ("load_mask", "bool"): (LOAD_MASK, LOAD_MASK_PART), ("store", "float32"): (STORE, STORE_PART),
    ("store", "other"): (STORE_OTHER, STORE_OTHER), ("store", "bool"): (STORE_MASK, STORE_MASK),
    ("stream", "float32"): (STREAM, STREAM_PART),
}  # fmt: skip
"""Function and kind of storage -> its text for whole registers, and for those that are not full."""


def memory_functions(kernels: Iterable[tuple[str, Mapping[str, str]]]) -> list[str]:
    """The loads, stores and folds that printed bodies call, in an order that compiles.

    Args:
        kernels: the printed body of each, and the storage types of its operands by name.
    """
    wanted: set[str] = set()
    for text, dtypes in kernels:
        wanted |= {BF16} if "bfloat16" in dtypes.values() else set()
        for call in CALL.finditer(text):
            wanted |= _called(text, call, dtypes)
        wanted |= {piece for name, piece in NAMED.items() if f"{name}(" in text}
    if LOAD_MASK_STRIDED in wanted or LOAD_MASK_PART in wanted:
        wanted.add(LOAD_MASK)
    return [piece for piece in ORDER if piece in wanted]


def _called(text: str, call: re.Match[str], dtypes: Mapping[str, str]) -> set[str]:
    """What one call in a body needs."""
    name, given = call[1], _arguments(text, call.end())
    if name == "keep":
        return _forms((KEEP, KEEP_PART), given[2:])
    if name.endswith("_strided"):
        piece = {"load": LOAD_STRIDED, "load_mask": LOAD_MASK_STRIDED, "store": STORE_STRIDED}[name[:-8]]
        return {piece}
    # Arrays of the function's own are of floats.
    pointer = re.match(r"\w+", given[0])
    dtype = dtypes.get(operand_of(pointer[0] if pointer else "", dtypes), "float32")
    kind = dtype if dtype in {"float32", "bool"} else "other"
    return _forms(MEMORY[name, kind], given[1:] if name.startswith("load") else given[2:])


def _forms(forms: tuple[str, str], length: list[str]) -> set[str]:
    """The text for whole registers, the other one, or both where a length may be given."""
    if not length:
        return {forms[0]}
    return set(forms) if length[0] == "n..." else {forms[1]}


def _arguments(text: str, begin: int) -> list[str]:
    """The arguments of a call whose first one begins here."""
    found, depth, start = [], 0, begin
    for place in range(begin, len(text)):
        if text[place] in "([{":
            depth += 1
        elif text[place] in ")]}" and depth:
            depth -= 1
        elif text[place] == ")" or (text[place] == "," and not depth):
            found.append(text[start:place].strip())
            start = place + 1
            if text[place] == ")":
                break
    return found


def operand_of(pointer: str, operands: Iterable[str]) -> str:
    """The operand that a pointer was moved from: its name goes on where the operand's ends."""
    owners = [name for name in operands if pointer == name or pointer.startswith(f"{name}_")]
    return max(owners, key=len, default="")
