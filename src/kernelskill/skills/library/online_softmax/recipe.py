"""A kernel for each softmax with its neighbours."""

from __future__ import annotations

from kernelskill.program.fusion import fuse, sites
from kernelskill.program.program import Program
from kernelskill.records import Edit, Facts

SKILL = "online-softmax"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per site; its site names the nodes that become a kernel."""
    return [
        Edit(skill=SKILL, site=",".join(site), action="fuse", summary=f"one kernel for {', '.join(site)}")
        for site in sites(program, "softmax")
    ]


def apply(program: Program, edit: Edit) -> Program:
    """Fuse the nodes of the site.

    Raises:
        ProgramError: they do not make one kernel (any more).
    """
    return fuse(program, tuple(edit.site.split(",")), skill=SKILL).with_skill(SKILL)
