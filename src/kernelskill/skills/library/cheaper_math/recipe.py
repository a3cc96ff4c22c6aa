"""Cheaper arithmetic of equal accuracy in one kernel."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.cpp import kernel_function
from kernelskill.program.program import Kernel, Program
from kernelskill.program.region import Region
from kernelskill.program.rewrite.cheaper import RULES
from kernelskill.records import Edit, Facts

SKILL = "cheaper-math"
_ORDER = ("one-exponential", "reciprocal", "shared")
"""Dearest first: a transcendental costs more than a division, a division more than what is left."""


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel and rule that would change something."""
    return [
        Edit(skill=SKILL, site=kernel.name, action=action, summary=f"{kernel.name}: {RULES[action][1]}")
        for kernel in program.kernels
        for action in _ORDER
        if _changed(kernel, action) != kernel
    ]


def apply(program: Program, edit: Edit) -> Program:
    """Rewrite the kernel's operations.

    Raises:
        ProgramError: no such kernel or rule, or nothing would change.
    """
    kernel = next((item for item in program.kernels if item.name == edit.site), None)
    if kernel is None or edit.action not in RULES:
        raise ProgramError(f"{edit.action} at {edit.site}: no such rule or kernel")
    changed = _changed(kernel, edit.action)
    if changed == kernel:
        raise ProgramError(f"{edit.action} changes nothing in {edit.site}")
    changed = changed.model_copy(update={"skills": (*kernel.skills, SKILL)})
    kernel_function(changed)
    return program.with_kernel(changed).with_skill(SKILL)


def _changed(kernel: Kernel, action: str) -> Kernel:
    rule, body = RULES[action][0], kernel.body
    if isinstance(body, Region):
        return kernel.model_copy(update={"body": rule(body)})
    parts = {"prologue": body.prologue, "epilogue": body.epilogue}
    update = {name: rule(part) for name, part in parts.items() if part is not None}
    return kernel.model_copy(update={"body": body.model_copy(update=update)})
