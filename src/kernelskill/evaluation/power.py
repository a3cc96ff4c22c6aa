"""Whether a gate would refuse wrong answers.

It has power if it refuses zeros, the mean, the result of other inputs and single wrong elements; without power it
proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernelskill.evaluation.correctness import Pool, judge
from kernelskill.evaluation.errors_summed import real

DENTED = 100
"""One element in so many is moved to tell whether a gate sees single wrong elements."""
SAMPLE, STRETCHES = 1 << 25, 1024
"""Elements of a huge result that are looked at to tell whether a gate has power, and in how many stretches they lie."""


def has_power(pool: Pool, other: list[torch.Tensor], allowed: float) -> str:
    """What wrong answer the gates would let through ("" = none).

    Of huge results a sample is looked at first. Gates compare errors with sizes, which so many elements from all over
    the result show as the whole does, in a fraction of the time. Only what would pass there is tried on the whole.

    Args:
        pool: eager and twin results (the candidate's are not looked at).
        other: eager's results on other inputs, one per call; empty: that answer is not tried.
        allowed: as for `judge`.
    """
    if not pool.is_numeric:
        same = bool(other) and all(torch.equal(a, b) for a, b in zip(pool.eager, other, strict=True))
        return "the result of other inputs" if same else ""
    sample = Pool([], *([_sampled(item) for item in items] for items in (pool.eager, pool.twin)))
    others = [_sampled(item) for item in other]
    is_whole = all(one is all_of for one, all_of in zip(sample.eager, pool.eager, strict=True))
    passes = next(_passing(sample, others, allowed), "")
    if is_whole or not passes:
        return passes
    return next(_passing(pool, other, allowed), "")


def _passing(pool: Pool, other: list[torch.Tensor], allowed: float) -> Iterator[str]:
    """Each wrong answer that would pass; made one after the other, as huge ones would not fit side by side."""
    wrong = {"zeros": lambda: [torch.zeros_like(item) for item in pool.eager]}
    if other:
        wrong["the result of other inputs"] = lambda: other
    if pool.eager[0].numel() > 1:
        wrong["the mean"] = lambda: [torch.full_like(item, _mean(item)) for item in pool.eager]
        wrong["one element in a hundred off by the result's spread"] = lambda: [
            _dented(item) for item in pool.eager
        ]
    for what, answers in wrong.items():
        if judge(Pool(answers(), pool.eager, pool.twin), "", "", allowed).passed:
            yield what


def _sampled(tensor: torch.Tensor) -> torch.Tensor:
    """Evenly spaced stretches of a huge result, one after the other; else the result itself."""
    if tensor.numel() <= SAMPLE:
        return tensor
    apart = tensor.numel() // STRETCHES
    return (
        tensor.reshape(-1)[: STRETCHES * apart].view(STRETCHES, apart)[:, : SAMPLE // STRETCHES].reshape(-1)
    )


def _dented(tensor: torch.Tensor) -> torch.Tensor:
    """Every hundredth element moved by the standard deviation of all."""
    flat = tensor.clone().reshape(-1)
    parts = real(flat)
    finite = parts if bool(torch.isfinite(parts).all()) else parts[torch.isfinite(parts)]
    spread = float(finite.float().std()) if finite.numel() > 1 else 0.0
    flat[::DENTED] += spread
    return flat.reshape(tensor.shape)


def _mean(tensor: torch.Tensor) -> float:
    if tensor.is_complex():
        return 0.0
    if tensor.is_cuda:  # without copies of the whole in double precision
        finite = torch.isfinite(tensor)
        total = torch.where(finite, tensor, 0).sum(dtype=torch.float64)
        return float(total / finite.sum().clamp(min=1))
    good = tensor.double()[torch.isfinite(tensor)]
    return float(good.mean()) if good.numel() else 0.0
