"""C++ text of the vector types and functions that printed kernels use; only what a file needs is printed.

Kernels are written in GCC's vector extension: a value of type `F` is a register of floats, a comparison of two gives a
mask, `mask ? a : b` selects. Tails are read and written with a length, so a loop body is written once. The functions
are ours because no library may be linked that changes the floating-point mode of the process, and because calls into
libm end vectorisation. They hold without -ffast-math: infinities, NaN and denormals come out as in libm.

Sources: log: Cephes single-precision coefficients (Moshier); erf: minimax fit in two ranges (Juffa); exp: a fit of our
own, with exp(r) - 1 within 1.7e-8 of its value for |r| <= ln 2 / 2. Measured error against float64: see
`tests/program/test_vector_math.py`.
"""

from __future__ import annotations


def vector_type(lanes: int) -> str:
    """The typedef of a register of floats."""
    return f"typedef float floats{lanes} __attribute__((vector_size({4 * lanes})));\n"


PIECES: dict[str, tuple[tuple[str, ...], str]] = {
    "bits": (
        (),
        """\
template <class To, class From> inline To bits(From x) { To y; std::memcpy(&y, &x, sizeof y); return y; }
""",
    ),
    "abs": (
        ("bits",),
        """\
template <class F> inline F abs_(F x) { using I = decltype(x < x); return bits<F>(bits<I>(x) & 0x7fffffff); }
""",
    ),
    "copysign": (
        ("bits",),
        """\
template <class F> inline F copysign_(F x, F sign) {
  using I = decltype(x < x);
  return bits<F>((bits<I>(x) & 0x7fffffff) | (bits<I>(sign) & (I{} + (-0x7fffffff - 1))));
}
""",
    ),
    "max": (
        (),
        """\
template <class F> inline F max_(F a, F b) { return (a > b) | (a != a) ? a : b; }  // NaN wins, as in torch
""",
    ),
    "min": (
        (),
        """\
template <class F> inline F min_(F a, F b) { return (a < b) | (a != a) ? a : b; }  // NaN wins, as in torch
""",
    ),
    "exp_parts": (
        ("bits",),
        """\
// x = n ln 2 + r with |r| <= ln 2 / 2; returns exp(r) - 1 and leaves n.
template <class F> inline F exp_reduced(F x, F& n) {
  n = x * 1.44269504f + 12582912.0f;
  n = n - 12582912.0f;
  F r = x - n * 0.693359375f + n * 2.12194440e-4f;
  F p = 1.3882520177e-3f * r + 8.3665272181e-3f;
  p = p * r + 4.1667200073e-2f;
  p = p * r + 1.6666543572e-1f;
  p = p * r + 4.9999998153e-1f;
  return p * (r * r) + r;
}
template <class F> inline F power_of_two(decltype(F{} < F{}) n) { return bits<F>((n + 127) << 23); }
""",
    ),
    "within": (
        (),
        """\
// x, or the bound that it passes; NaN stays.
template <class F> inline F within(F x, float low, float high) {
#ifdef __AVX512VL__  // one instruction a bound
  F least{}, most{};
  least += low, most += high;
  if constexpr (sizeof(F) == 64) return (F)_mm512_max_ps((__m512)least, _mm512_min_ps((__m512)most, (__m512)x));
  if constexpr (sizeof(F) == 32) return (F)_mm256_max_ps((__m256)least, _mm256_min_ps((__m256)most, (__m256)x));
#endif
  x = x > high ? F{} + high : x;
  return x < low ? F{} + low : x;
}
""",
    ),
    "scaled": (
        ("exp_parts",),
        """\
// x 2^floor(n); slow where the result is denormal.
template <class F> inline F scaled(F x, F n) {
#ifdef __AVX512VL__
  if constexpr (sizeof(F) == 64) return (F)_mm512_scalef_ps((__m512)x, (__m512)n);
  if constexpr (sizeof(F) == 32) return (F)_mm256_scalef_ps((__m256)x, (__m256)n);
#endif
  F m = n + 12582912.0f - 12582912.0f;  // to the nearest, then down
  return x * power_of_two<F>(__builtin_convertvector(m - (m > n ? F{} + 1.0f : F{}), decltype(x < x)));
}
""",
    ),
    "exp": (
        ("exp_parts", "scaled", "within"),
        """\
template <class F> inline F exp_(F x) {
  F n, q = exp_reduced(within(x, -104.0f, 89.0f), n);
  return scaled(q + 1.0f, n * 0.5f) * scaled(F{} + 1.0f, n * 0.5f + 0.5f);  // two factors: quick denormals
}
""",
    ),
    "exp_normal": (
        ("exp_parts", "scaled", "within"),
        """\
// exp(x) where what is below the smallest normal number doesn't matter.
template <class F> inline F exp_normal(F x) {
  F n, q = exp_reduced(within(x, -87.0f, 89.0f), n);
  return scaled(q + 1.0f, n);
}
""",
    ),
    "expm1": (
        ("exp_parts",),
        """\
template <class F> inline F expm1_(F x) {
  using I = decltype(x < x);
  x = x > 89.0f ? F{} + 89.0f : x;
  F y = x < -18.0f ? F{} - 18.0f : x;
  F n, q = exp_reduced(y, n);
  I k = __builtin_convertvector(n, I), half = k >> 1;
  F s = power_of_two<F>(half), t = power_of_two<F>(k - half);
  F small = q * s * t + (s * t - 1.0f);
  return k > 126 ? (q + 1.0f) * s * t - 1.0f : small;
}
""",
    ),
    "sigmoid": (
        ("exp_normal",),
        """\
template <class F> inline F sigmoid_(F x) { return 1.0f / (1.0f + exp_normal(-x)); }
""",
    ),
    "tanh": (
        ("exp_parts", "scaled", "within"),
        """\
template <class F> inline F tanh_(F x) {
  F n, q = exp_reduced(within(x + x, -18.2f, 18.2f), n), s = scaled(F{} + 1.0f, n);
  F e = q * s + (s - 1.0f);  // exp(2 x) - 1, to the last place also near 0
  return e / (e + 2.0f);
}
""",
    ),
    "erf": (
        ("exp_normal", "abs", "copysign"),
        """\
template <class F> inline F erf_(F x) {
  F t = abs_(x), s = x * x;
  F p = -1.72853470e-5f * t + 3.83197126e-4f, u = -3.88396438e-3f * t + 2.42546219e-2f;
  p = p * s + u;
  p = p * t - 1.06777877e-1f;
  p = p * t - 6.34846687e-1f;
  p = p * t - 1.28717512e-1f;
  p = p * t - t;
  F far = copysign_(1.0f - exp_normal(p), x);
  F q = -5.96761703e-4f * s + 4.99119423e-3f;
  q = q * s - 2.67681349e-2f;
  q = q * s + 1.12819925e-1f;
  q = q * s - 3.76125336e-1f;
  q = q * s + 1.28379166e-1f;
  return t > 0.927734375f ? far : q * x + x;
}
""",
    ),
    "log": (
        ("bits",),
        """\
template <class F> inline F log_(F x) {
  using I = decltype(x < x);
  I tiny = x < 1.17549435e-38f;
  F y = tiny ? x * 8388608.0f : x;
  I b = bits<I>(y), e = ((b >> 23) & 0xff) - 126 - (tiny & 23);
  F m = bits<F>((b & 0x007fffff) | 0x3f000000);  // in [0.5, 1)
  I low = m < 0.707106781f;
  e = e + low;
  m = (low ? m + m : m) - 1.0f;
  F z = m * m, n = __builtin_convertvector(e, F);
  F p = 7.0376836292e-2f * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  F r = p * m * z - 2.12194440e-4f * n - 0.5f * z;
  r = m + r + 0.693359375f * n;
  const float inf = __builtin_inff();
  r = x == 0.0f ? F{} - inf : r;
  r = x < 0.0f ? F{} + __builtin_nanf("") : r;
  return (x == inf) | (x != x) ? x : r;
}
""",
    ),
    "log1p": (
        ("log", "abs"),
        """\
template <class F> inline F log1p_(F x) {
  F u = 1.0f + x, r = log_(u) + (x - (u - 1.0f)) / u;  // what rounding 1 + x lost, to first order
  r = (x == -1.0f) | (u == __builtin_inff()) ? log_(u) : r;
  return abs_(x) < 1e-4f ? x - 0.5f * x * x : r;
}
""",
    ),
    "lanewise": (
        (),
        """\
template <class F, class Function> inline F lanewise(F x, Function f) {
  for (unsigned i = 0; i < sizeof(F) / 4; ++i) x[i] = f(x[i]);
  return x;
}
""",
    ),
    "sqrt": (
        ("lanewise",),
        "template <class F> inline F sqrt_(F x) { return lanewise(x, [](float v) { return std::sqrt(v); }); }\n",
    ),
    "rsqrt": (("sqrt",), "template <class F> inline F rsqrt_(F x) { return 1.0f / sqrt_(x); }\n"),
    "floor": (
        ("lanewise",),
        "template <class F> inline F floor_(F x) { return lanewise(x, [](float v) { return std::floor(v); }); }\n",
    ),
    "ceil": (
        ("lanewise",),
        "template <class F> inline F ceil_(F x) { return lanewise(x, [](float v) { return std::ceil(v); }); }\n",
    ),
    "trunc": (
        ("lanewise",),
        "template <class F> inline F trunc_(F x) { return lanewise(x, [](float v) { return std::trunc(v); }); }\n",
    ),
    "round": (
        ("lanewise",),
        "template <class F> inline F round_(F x) { return lanewise(x, [](float v) { return std::nearbyint(v); }); }\n",
    ),
    "sin": (
        ("lanewise",),
        "template <class F> inline F sin_(F x) { return lanewise(x, [](float v) { return std::sin(v); }); }\n",
    ),
    "cos": (
        ("lanewise",),
        "template <class F> inline F cos_(F x) { return lanewise(x, [](float v) { return std::cos(v); }); }\n",
    ),
    "pow": (
        (),
        """\
template <class F> inline F pow_(F x, F y) {
  for (unsigned i = 0; i < sizeof(F) / 4; ++i) x[i] = std::pow(x[i], y[i]);
  return x;
}
""",
    ),
    "sign": (
        (),
        "template <class F> inline F sign_(F x) { F z{}; return x > 0.0f ? z + 1.0f : x < 0.0f ? z - 1.0f : x; }\n",
    ),
}
"""Function -> (functions that it needs, text)."""


def needed(functions: set[str]) -> list[str]:
    """The functions and all that they need, in an order that compiles."""
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name in ordered or name not in PIECES:
            return
        for other in PIECES[name][0]:
            visit(other)
        ordered.append(name)

    for name in sorted(functions):
        visit(name)
    return ordered
