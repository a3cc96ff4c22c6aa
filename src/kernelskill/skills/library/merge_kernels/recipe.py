"""A map kernel into the one kernel that reads its result."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.cpp import kernel_function
from kernelskill.program.program import Program
from kernelskill.program.region import Region
from kernelskill.program.rewrite.merge import Pair, merge, mergeable
from kernelskill.program.scalar import TRANSCENDENTAL
from kernelskill.records import Edit, Facts

SKILL = "merge-kernels"
_CHEAP_WALKS = 1
"""Walks over its row up to which a consumer may evaluate costly functions instead of reading their results."""


_SMALLEST_SHARE = 0.02
"""Share of a call below which a pair is left as it is: nobody could tell the gain from noise."""


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per pair that takes its time, where no costly function would be evaluated in several walks."""
    return [
        Edit(
            skill=SKILL,
            site=f"{pair.producer},{pair.consumer}",
            action="merge",
            summary=f"{pair.producer} is computed in {pair.consumer} and never stored",
        )
        for pair in mergeable(program)
        if _pays(program, pair) and _takes_time(pair, facts)
    ]


def _pays(program: Program, pair: Pair) -> bool:
    producer, consumer = program.kernel(pair.producer).body, program.kernel(pair.consumer).body
    if not isinstance(producer, Region) or not isinstance(consumer, Region):
        return False
    costly = any(op.fn in TRANSCENDENTAL for stage in producer.stages for op in stage.ops)
    return not costly or consumer.passes <= _CHEAP_WALKS


def _takes_time(pair: Pair, facts: Facts) -> bool:
    shares = [facts.get("share_ratio", name) for name in (pair.producer, pair.consumer)]
    known = [share for share in shares if isinstance(share, int | float)]
    return len(known) < len(shares) or sum(known) >= _SMALLEST_SHARE


def apply(program: Program, edit: Edit) -> Program:
    """Merge the pair.

    Raises:
        ProgramError: they do not make one kernel (any more).
    """
    names = edit.site.split(",")
    if len(names) != 2:
        raise ProgramError(f"two kernels are merged, not {edit.site}")
    merged = merge(program, Pair(*names), SKILL)
    kernel_function(merged.kernel(names[1]))
    return merged.with_skill(SKILL)
