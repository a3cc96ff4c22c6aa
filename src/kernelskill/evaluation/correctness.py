"""Whether a result is as accurate as it must be: error against the float64 twin, in units of eager's own.

Gates (all must pass), for the candidate C, eager E and the twin Y of the same inputs:
1. overall: rms(C - Y) <= max(2 rms(E - Y), rms(Y) * a), where a allows for one rounding of the result and for an honest
   order of summation: sequential in blocks of at most 4096, pairwise above;
2. tail: max |C - Y| <= 4 max |E - Y| + 16 a * rms(Y) + 8 u |Y|;
3. locality: in each of up to 64 tiles the first gate, with a factor of 8, relative to that tile's own size;
4. NaN and infinities stand where eager has them, and nowhere else.
A gate has power if it refuses zeros, the mean, and the result of other inputs; without power it proves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from kernelskill.records import FamilyError, Graph, Precision

UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Half a unit in the last place of 1."""
LONGEST_SEQUENCE = 4096
TILES = 64
POOLED_ELEMENTS = 1024
"""Outputs smaller than this are pooled over several draws, or a lucky error would decide."""
REDUCED_ERROR = 2.0**-7
"""Relative rms error that a bf16 computation stays below (8 bits of significand)."""


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


def allowance(dtype: torch.dtype, precision: Precision, reduction: int) -> float:
    """Relative rms error that rounding and an honest order of summation may cost.

    Args:
        dtype: type of the output.
        precision: accuracy owed.
        reduction: longest sum behind an output element.
    """
    if precision is Precision.REDUCED:
        return REDUCED_ERROR
    accumulated = UNIT[torch.float32] * math.sqrt(min(max(reduction, 1), LONGEST_SEQUENCE))
    return 2 * UNIT[dtype] + 4 * UNIT[torch.float32] + accumulated


def judge(pool: Pool, family: str, name: str, allowed: float) -> FamilyError:
    """All gates on one output."""
    first = pool.eager[0]
    if not (first.is_floating_point() or first.is_complex()):
        return _exact(pool, family, name)
    rms, rms_eager, limit = _overall(pool, allowed)
    worst = max(_finite_max((c.double() - y).abs()) for c, y in zip(pool.candidate, pool.twin, strict=True))
    note = _non_finite(pool)
    if not note and not rms <= limit:
        note = f"error {rms:.2e} of the result's size, allowed {limit:.2e}"
    if not note:
        note = _tail(pool, allowed) or _tiles(pool, allowed)
    return FamilyError(
        family=family,
        output=name,
        rms=rms if math.isfinite(rms) else None,
        rms_eager=rms_eager if math.isfinite(rms_eager) else None,
        limit=limit if math.isfinite(limit) else None,
        worst_abs=worst if math.isfinite(worst) else None,
        passed=not note,
        note=note,
    )


def has_power(pool: Pool, other: list[torch.Tensor], allowed: float) -> str:
    """What wrong answer the gates would let through ("" = none).

    Args:
        pool: eager and twin results (the candidate's are not looked at).
        other: eager's results on other inputs, one per call.
        allowed: as for `judge`.
    """
    if not (pool.eager[0].is_floating_point() or pool.eager[0].is_complex()):
        same = all(torch.equal(a, b) for a, b in zip(pool.eager, other, strict=True))
        return "the result of other inputs" if same else ""
    wrong = {
        "zeros": [torch.zeros_like(item) for item in pool.eager],
        "the result of other inputs": other,
    }
    if pool.eager[0].numel() > 1:
        wrong["the mean"] = [torch.full_like(item, _mean(item)) for item in pool.eager]
    for what, answers in wrong.items():
        if judge(Pool(answers, pool.eager, pool.twin), "", "", allowed).passed:
            return what
    return ""


def finite_share(twin: list[torch.Tensor]) -> float:
    """Share of finite elements; 1 for integers and empty results."""
    total = sum(item.numel() for item in twin if item.is_floating_point())
    finite = sum(int(torch.isfinite(item).sum()) for item in twin if item.is_floating_point())
    return finite / total if total else 1.0


def longest_sum(graph: Graph | None, inputs: int, outputs: int) -> int:
    """Longest sum behind an output element, from the graph; from sizes where there is none."""
    if graph is None:
        return max(1, inputs // max(outputs, 1))
    longest = 1
    specs = {value.name: value.spec for value in (*graph.inputs, *graph.state)}
    for node in graph.nodes:
        for spec in node.outputs:
            if spec is not None:
                specs.setdefault(node.name, spec)
    for node in graph.nodes:
        result = node.outputs[0]
        if result is None or not any(
            word in node.op for word in ("mm", "conv", "sum", "mean", "norm", "softmax", "cum", "var", "pool", "loss",
                                         "dot", "mv", "std", "attention", "logsumexp", "scan", "prod")
        ):  # fmt: skip
            continue
        for ref in node.refs():
            spec = specs.get(ref.node)
            if spec is not None and len(spec.shape):
                longest = max(longest, spec.numel // max(result.numel, 1), max(spec.shape))
    return longest


def allclose(pool: Pool, family: str, name: str, tolerance: float) -> FamilyError:
    """KernelBench's own rule: allclose to eager with equal absolute and relative tolerance."""
    passed = all(
        torch.allclose(c, e, atol=tolerance, rtol=tolerance)
        for c, e in zip(pool.candidate, pool.eager, strict=True)
    )
    worst = max(_finite_max((c.double() - e.double()).abs()) for c, e in zip(pool.candidate, pool.eager, strict=True))
    return FamilyError(
        family=family, output=name, rms=None, rms_eager=None, limit=tolerance, worst_abs=worst, passed=passed,
        note="" if passed else f"allclose at {tolerance:g} fails; largest difference {worst:.3g}",
    )  # fmt: skip


def _exact(pool: Pool, family: str, name: str) -> FamilyError:
    """Integers and booleans are compared in their own type."""
    wrong = sum(int((c != e).sum()) for c, e in zip(pool.candidate, pool.eager, strict=True))
    total = sum(item.numel() for item in pool.eager)
    return FamilyError(
        family=family, output=name, rms=None, rms_eager=None, limit=None, worst_abs=None, passed=wrong == 0,
        note="" if wrong == 0 else f"{wrong} of {total} elements differ; integers are compared exactly",
    )  # fmt: skip


def _overall(pool: Pool, allowed: float) -> tuple[float, float, float]:
    """Relative error of the candidate and of eager, and the limit."""
    error = eager_error = size = 0.0
    for c, e, y in zip(pool.candidate, pool.eager, pool.twin, strict=True):
        good = torch.isfinite(y) & torch.isfinite(e)
        error += float(((c.double() - y)[good] ** 2).sum())
        eager_error += float(((e.double() - y)[good] ** 2).sum())
        size += float((y[good] ** 2).sum())
    if size == 0:
        return (0.0 if error == 0 else math.inf), 0.0, 0.0
    rms, rms_eager = math.sqrt(error / size), math.sqrt(eager_error / size)
    return rms, rms_eager, max(2 * rms_eager, allowed)


def _tail(pool: Pool, allowed: float) -> str:
    for c, e, y in zip(pool.candidate, pool.eager, pool.twin, strict=True):
        good = torch.isfinite(y) & torch.isfinite(e)
        if not bool(good.any()):
            continue
        apart, eager, truth = (c.double() - y)[good].abs(), (e.double() - y)[good].abs(), y[good].abs()
        size = float((truth**2).mean().sqrt())
        unit = UNIT.get(c.dtype, 2.0**-24)
        limit = 4 * float(eager.max()) + 16 * allowed * size + 8 * unit * truth
        outside = apart > limit
        if bool(outside.any()):
            worst = int(torch.argmax(apart - limit))
            return f"{int(outside.sum())} elements too far off; the worst by {float(apart[worst]):.3g}"
    return ""


def _tiles(pool: Pool, allowed: float) -> str:
    for c, e, y in zip(pool.candidate, pool.eager, pool.twin, strict=True):
        if y.numel() < 2 * TILES:
            continue
        good = torch.isfinite(y) & torch.isfinite(e)
        error, eager, size = (
            _tile_rms(torch.where(good, item, 0)) for item in (c.double() - y, e.double() - y, y)
        )
        off = error > 8 * torch.maximum(2 * eager, allowed * size)
        if bool(off.any()):
            index = int(off.nonzero()[0])
            return (
                f"part {index} of {len(off)} is off by {float(error[index]):.2e} "
                f"(eager {float(eager[index]):.2e}, size {float(size[index]):.2e})"
            )
    return ""


def _tile_rms(values: torch.Tensor) -> torch.Tensor:
    """Root mean square of equal parts of a flattened tensor, the remainder as one more part."""
    flat = (values.abs() ** 2).reshape(-1)
    length = flat.numel() // TILES
    whole = flat[: length * TILES].reshape(TILES, length).mean(1)
    rest = flat[length * TILES :]
    return torch.cat([whole, rest.mean().reshape(1)] if rest.numel() else [whole]).sqrt()


def roughly_equal(candidate: torch.Tensor, due: torch.Tensor, allowed: float) -> bool:
    """A quick look at two results of one call that may each be off by `allowed`; False asks for a closer one."""
    if not candidate.is_floating_point():
        return torch.equal(candidate, due)
    apart = candidate.float() - due.float()
    size = float(due.float().norm())
    if not math.isfinite(size):
        return False
    tail = 16 * allowed * size / math.sqrt(max(due.numel(), 1))
    return float(apart.norm()) <= allowed * size and float(apart.abs().max()) <= tail if due.numel() else True


def _non_finite(pool: Pool) -> str:
    for c, e in zip(pool.candidate, pool.eager, strict=True):
        if not torch.equal(torch.isnan(c), torch.isnan(e)):
            return f"NaN at {int(torch.isnan(c).sum())} elements, eager at {int(torch.isnan(e).sum())}"
        if c.is_complex():
            continue
        if not torch.equal(torch.where(torch.isinf(c), c, 0), torch.where(torch.isinf(e), e, 0)):
            return f"infinite at {int(torch.isinf(c).sum())} elements, eager at {int(torch.isinf(e).sum())}"
    return ""


def _finite_max(tensor: torch.Tensor) -> float:
    good = tensor[torch.isfinite(tensor)]
    return float(good.max()) if good.numel() else 0.0


def _mean(tensor: torch.Tensor) -> float:
    if tensor.is_complex():
        return 0.0
    good = tensor.double()[torch.isfinite(tensor)]
    return float(good.mean()) if good.numel() else 0.0
