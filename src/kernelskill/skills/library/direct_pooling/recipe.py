"""A kernel for each pooling whose indices nobody uses, with its point-wise neighbours."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.program.templates.pool_sites import fuse_pool, pool_sites
from kernelskill.records import Edit, Facts

SKILL = "direct-pooling"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per pooling."""
    return [
        Edit(
            skill=SKILL,
            site=site.core,
            action="pool",
            summary=f"{site.fold} over windows of {' x '.join(map(str, site.kernel[3 - site.rank :]))}",
        )
        for site in pool_sites(program)
    ]


def apply(program: Program, edit: Edit) -> Program:
    """Put the pooling's kernel in place.

    Raises:
        ProgramError: there is no such pooling (any more), or it does not make a kernel.
    """
    for site in pool_sites(program):
        if site.core == edit.site:
            return fuse_pool(program, site).with_skill(SKILL)
    raise ProgramError(f"{edit.site} is not a pooling whose indices are unused")
