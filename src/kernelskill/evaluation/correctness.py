"""Whether a result is as accurate as it must be: error against the float64 twin, in units of eager's own.

Gates (all must pass), for the candidate C, eager E and the twin Y of the same inputs:
1. overall: rms(C - Y) <= max(2 rms(E - Y), a rms(Y)), where a allows for one rounding of the result and for an honest
   order of summation: sequential in blocks of at most 4096, pairwise above;
2. tail: max |C - Y| <= 4 max |E - Y| + 16 a rms(Y) + 8 u |Y|;
3. locality: in each of up to 64 tiles the first gate, with a factor of 8, relative to that tile's own size;
4. NaN and infinities stand where eager has them (or the twin, where only float32 overflows), and nowhere else.
Integers and booleans are compared exactly, byte for byte; see `ties.py` for positions of largest elements.
`power.py` tells whether gates refuse wrong answers at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from kernelskill.evaluation.errors_summed import (
    GPU_PIECE,
    GPU_TOGETHER,
    PIECE,
    TILES,
    UNIT,
    Sums,
    real,
    tiles,
)
from kernelskill.records import FamilyError, Graph, Node, Precision

LONGEST_SEQUENCE = 4096
POOLED_ELEMENTS = 1024
"""Outputs smaller than this are pooled over several draws, or a lucky error would decide."""
TIER_ERROR = {Precision.REDUCED: 2.0**-7, Precision.TF32: 2.0**-10}
"""Relative rms error that a computation of that precision stays below (bf16 has 8 bits of significand, tf32 11)."""
OVERFLOW_ROOM = 2.0**17
"""Units of the last place that results may be off by where exponents are as large as they can be: one of them is off by
the rounding of a number of its size, and differently in every honest order of work. In float32 that leaves 1/128."""
FEW = 32
"""Elements of a tile below which eager may be much closer there than elsewhere by luck."""
NOTHING = 1e-3
"""Share of the whole result's allowance that a tile may be off by even if all of it should be zero."""
UNDERFLOW = 1e-30
"""Absolute error that never counts: below it, float32 keeps only part of its digits, or none."""
SUMMING = ("mm", "conv", "sum", "mean", "norm", "softmax", "cum", "var", "pool", "loss", "dot", "mv", "std",
           "attention", "logsumexp", "scan", "prod")  # fmt: skip
"""Parts of operator names that mean a sum over many elements."""


@dataclass
class Pool:
    """Results of one output over several calls."""

    candidate: list[torch.Tensor] = field(default_factory=list)
    eager: list[torch.Tensor] = field(default_factory=list)
    twin: list[torch.Tensor] = field(default_factory=list)

    def add(self, candidate: torch.Tensor, eager: torch.Tensor, twin: torch.Tensor) -> None:
        """One more call."""
        self.candidate.append(candidate)
        self.eager.append(eager)
        self.twin.append(twin)

    @property
    def is_numeric(self) -> bool:
        """Whether errors can be measured; otherwise results are compared exactly."""
        return self.eager[0].is_floating_point() or self.eager[0].is_complex()


def allowance(dtype: torch.dtype, precision: Precision, reduction: int) -> float:
    """Relative rms error that rounding and an honest order of summation may cost.

    Args:
        dtype: type of the output.
        precision: accuracy owed.
        reduction: longest sum behind an output element.
    """
    unit = UNIT.get(dtype, 2.0**-24)
    accumulated = UNIT[torch.float32] * math.sqrt(min(max(reduction, 1), LONGEST_SEQUENCE))
    return max(TIER_ERROR.get(precision, 0.0), 2 * unit + 4 * UNIT[torch.float32] + accumulated)


def overflow_allowance(dtype: torch.dtype, precision: Precision, reduction: int) -> float:
    """As `allowance`, for inputs at which e^x overflows: NaN and infinities decide there, or gross errors.

    In less than float32 any error is within it, and only NaN and infinities decide.
    """
    unit = max(UNIT.get(dtype, 2.0**-24), TIER_ERROR.get(precision, 0.0))
    return max(allowance(dtype, precision, reduction), OVERFLOW_ROOM * unit)


def judge(pool: Pool, family: str, name: str, allowed: float) -> FamilyError:
    """All gates on one output."""
    if not pool.is_numeric:
        return _exact(pool, family, name)
    parts = [list(tiles(c, e, y)) for c, e, y in zip(pool.candidate, pool.eager, pool.twin, strict=True)]
    whole = Sums()
    for part in (part for call in parts for part in call):
        whole += part
    rms, rms_eager, limit = _overall(whole, allowed)
    note = ""
    if whole.stray:
        note = (
            f"{whole.stray} elements are NaN or infinite where they must not be, or finite where they must be"
        )
    elif not rms <= limit:
        note = f"error {rms:.2e} of the result's size, allowed {limit:.2e}"
    else:
        note = next((found for call in parts if (found := _tail(call, allowed) or _tiles(call, allowed))), "")
    return FamilyError(
        family=family,
        output=name,
        rms=_finite(rms),
        rms_eager=_finite(rms_eager),
        limit=_finite(limit),
        worst_abs=_finite(whole.worst),
        passed=not note,
        note=note,
    )


def finite_share(twin: list[torch.Tensor]) -> float:
    """Share of finite elements; 1 for integers and empty results."""
    floating = [real(item).reshape(-1) for item in twin if item.is_floating_point() or item.is_complex()]
    total = sum(item.numel() for item in floating)
    finite = sum(_finite_count(piece) for item in floating for piece in item.split(_piece_of(item)))
    return finite / total if total else 1.0


def _finite_count(tensor: torch.Tensor) -> int:
    """Finite elements. A finite sum has no others among its terms, and takes one pass."""
    if bool(tensor.sum(dtype=torch.float64).isfinite()):
        return tensor.numel()
    return int(torch.isfinite(tensor).sum())


def _piece_of(tensor: torch.Tensor) -> int:
    """Elements that are looked at together."""
    return GPU_PIECE if tensor.is_cuda else PIECE


def longest_sum(graph: Graph | None, inputs: int, outputs: int) -> int:
    """Longest sum behind an output element, from the graph; from sizes where there is none."""
    if graph is None:
        return max(1, inputs // max(outputs, 1))
    longest = 1
    specs = {value.name: value.spec for value in graph.inputs}
    specs |= {value.name: value.spec for value in graph.state}
    for node in graph.nodes:
        for spec in node.outputs:
            if spec is not None:
                specs.setdefault(node.name, spec)
    for node in graph.nodes:
        result = node.outputs[0] if node.outputs else None
        if result is None or not any(word in node.op for word in SUMMING):
            continue
        for place, ref in enumerate(node.refs()):
            spec = specs.get(ref.node)
            if spec is None or not spec.shape:
                continue
            longest = max(longest, spec.numel // max(result.numel, 1), max(spec.shape))
            if place == 1 and spec.numel and _convolves(node):  # a window of all channels
                longest = max(longest, spec.numel // spec.shape[0])
    return longest


def _convolves(node: Node) -> bool:
    """Whether it is a convolution whose weight has its outputs first; a transposed one has its inputs first."""
    return "conv" in node.op and "transpose" not in node.op and True not in node.args[6:7]


def _parts(one: torch.Tensor, other: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Both in parts that a comparison's temporaries can be held beside."""
    if one.numel() <= GPU_PIECE or not (one.is_contiguous() and other.is_contiguous()):
        yield one, other
        return
    yield from zip(one.view(-1).split(GPU_PIECE), other.view(-1).split(GPU_PIECE), strict=True)


def allclose(pool: Pool, family: str, name: str, tolerance: float) -> FamilyError:
    """KernelBench's own rule: allclose to eager with equal absolute and relative tolerance.

    One thing is added: a constant is never right where eager's result is not constant, however small that is.
    """
    pairs = list(zip(pool.candidate, pool.eager, strict=True))
    if not pool.is_numeric:
        return _exact(pool, family, name)
    parts = [part for pair in pairs for part in _parts(*pair)]
    close = all(torch.allclose(c, e, atol=tolerance, rtol=tolerance) for c, e in parts)
    flat = all(_is_constant(c) for c, _ in pairs) and not all(_is_constant(e) for _, e in pairs)
    worst = max(_largest(real(c).double() - real(e).double()) for c, e in parts)
    note = "" if close else f"allclose at {tolerance:g} fails; largest difference {worst:.3g}"
    note = note or ("a constant, where the result is not constant" if flat else "")
    return FamilyError(
        family=family, output=name, rms=None, rms_eager=None, limit=tolerance, worst_abs=_finite(worst),
        passed=not note, note=note,
    )  # fmt: skip


def roughly_equal(candidate: torch.Tensor, due: torch.Tensor, allowed: float) -> bool:
    """A quick look at two results of one call that may each be off by `allowed`; False asks for a closer one."""
    if not candidate.is_floating_point():
        return torch.equal(bits(candidate), bits(due))
    if not due.numel():
        return True
    if due.is_cuda and due.numel() > GPU_PIECE:
        return _roughly_equal_in_pieces(candidate, due, allowed)
    apart = candidate.float() - due.float()
    size = float(due.float().norm())
    if not math.isfinite(size):
        return False
    tail = 16 * allowed * size / math.sqrt(due.numel())
    return float(apart.norm()) <= allowed * size and float(apart.abs().max()) <= tail


def all_roughly_equal(
    candidates: Sequence[torch.Tensor], dues: Sequence[torch.Tensor], allowed: float
) -> bool:
    """`roughly_equal` for results of several calls, many in one look; False also where single looks are better."""
    first = dues[0]
    rows = (GPU_TOGETHER if first.is_cuda else PIECE) // max(first.numel(), 1)
    if not first.is_floating_point() or not first.numel() or rows < 2:
        return False
    return all(
        _roughly_equal_rows(candidates[start : start + rows], dues[start : start + rows], allowed)
        for start in range(0, len(dues), rows)
    )


def _roughly_equal_rows(
    candidates: Sequence[torch.Tensor], dues: Sequence[torch.Tensor], allowed: float
) -> bool:
    ones, twos = (torch.stack(list(rows)).flatten(1).float() for rows in (candidates, dues))
    apart, size = ones - twos, twos.norm(dim=1)
    tail = 16 * allowed * size / math.sqrt(twos.shape[1])
    good = size.isfinite() & (apart.norm(dim=1) <= allowed * size) & (apart.abs().amax(1) <= tail)
    return bool(good.all())


def _roughly_equal_in_pieces(candidate: torch.Tensor, due: torch.Tensor, allowed: float) -> bool:
    """`roughly_equal` without temporaries of the whole size."""
    error = size = worst = 0.0
    pairs = zip(candidate.reshape(-1).split(GPU_PIECE), due.reshape(-1).split(GPU_PIECE), strict=True)
    for mine, others in pairs:
        apart, wide = mine.float() - others.float(), others.float()
        error += float(apart.norm()) ** 2
        size += float(wide.norm()) ** 2
        largest = float(apart.abs().max())
        if not math.isfinite(largest):
            return False
        worst = max(worst, largest)
    if not math.isfinite(size):
        return False
    tail = 16 * allowed * math.sqrt(size / due.numel())
    return math.sqrt(error) <= allowed * math.sqrt(size) and worst <= tail


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """In double precision, where it is of numbers that have one."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Booleans as bytes: a boolean that is neither 0 nor 1 compares equal to nothing."""
    return tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor


def _exact(pool: Pool, family: str, name: str) -> FamilyError:
    """Integers and booleans are compared in their own type."""
    wrong = sum(int((bits(c) != bits(e)).sum()) for c, e in zip(pool.candidate, pool.eager, strict=True))
    total = sum(item.numel() for item in pool.eager)
    return FamilyError(
        family=family, output=name, rms=None, rms_eager=None, limit=None, worst_abs=None, passed=wrong == 0,
        note="" if wrong == 0 else f"{wrong} of {total} elements differ; integers are compared exactly",
    )  # fmt: skip


def _overall(sums: Sums, allowed: float) -> tuple[float, float, float]:
    """Relative error of the candidate and of eager, and the limit."""
    count = max(sums.count, 1)
    size = math.sqrt(sums.size / count) or UNDERFLOW
    rms, rms_eager = math.sqrt(sums.error / count) / size, math.sqrt(sums.eager / count) / size
    return rms, rms_eager, max(2 * rms_eager, allowed, UNDERFLOW / size)


def _tail(parts: list[Sums], allowed: float) -> str:
    whole = Sums()
    for part in parts:
        whole += part
    size = math.sqrt(whole.size / max(whole.count, 1))
    if whole.beyond <= 4 * whole.worst_eager + 16 * allowed * size + UNDERFLOW:
        return ""
    return f"some elements are too far off; the worst by {whole.worst:.3g} (eager's worst {whole.worst_eager:.3g})"


def _tiles(parts: list[Sums], allowed: float) -> str:
    if len(parts) < TILES:
        return ""
    total = max(sum(part.count for part in parts), 1)
    whole = math.sqrt(sum(part.size for part in parts) / total)
    whole_eager = math.sqrt(sum(part.eager for part in parts) / total)
    for index, part in enumerate(parts):
        error, eager, size = (
            math.sqrt(value / max(part.count, 1)) for value in (part.error, part.eager, part.size)
        )
        if part.count < FEW:
            eager = max(eager, whole_eager)
        if error > 8 * max(2 * eager, allowed * size, NOTHING * allowed * whole, UNDERFLOW):
            return f"part {index} of {len(parts)} is off by {error:.2e} (eager by {eager:.2e}; its size is {size:.2e})"
    return ""


def _is_constant(tensor: torch.Tensor) -> bool:
    flat = real(tensor).reshape(-1)
    return flat.numel() > 1 and bool((flat == flat[0]).all())


def _largest(tensor: torch.Tensor) -> float:
    good = tensor[torch.isfinite(tensor)]
    return float(good.abs().max()) if good.numel() else 0.0


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
