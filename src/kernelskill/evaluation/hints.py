"""What usually causes a wrong result."""

from __future__ import annotations

import torch

from kernelskill.evaluation import correctness
from kernelskill.evaluation.correctness import Pool
from kernelskill.evaluation.families import OVERFLOWING
from kernelskill.evaluation.seat import POISON, Seat
from kernelskill.records import Workload


def of_wrong_values(family: str, *, other_state: bool, pool: Pool, seat: Seat, workload: Workload) -> str:
    """A hint for whoever is wrong on a family; "" where nothing is known.

    Args:
        family: of inputs.
        other_state: whether parameters or buffers were others than at the start.
        pool: results.
        seat: the candidate's.
        workload: of the task.
    """
    if family == OVERFLOWING:
        return "bring exponents into range before e^x: subtract the largest, or choose by sign"
    if any(_has_poison(item) for item in pool.candidate):
        return "some elements were never written, or are NaN"
    if seat.state is not None and seat.state.missing:
        missing = ", ".join(seat.state.missing[:5])
        return f"keep the reference's names of parameters and buffers; these are missing: {missing}"
    if other_state:
        return "the result ignores parameters or buffers that changed after construction"
    if any(not spec.is_contiguous for spec in workload.inputs):
        return "inputs are not contiguous; read them by their strides"
    return ""


def _has_poison(tensor: torch.Tensor) -> bool:
    if not tensor.numel():
        return False
    if tensor.is_floating_point() or tensor.is_complex():
        return bool(tensor.isnan().any())
    width = tensor.element_size()
    poison = torch.full((width,), POISON, dtype=torch.uint8).view(tensor.dtype if width > 1 else torch.uint8)
    return bool((correctness.bits(tensor) == poison.to(tensor.device)).any())
