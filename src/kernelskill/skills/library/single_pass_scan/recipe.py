"""A scan in one pass, with the flips and shifts around it done by indexing."""

from __future__ import annotations

from kernelskill.errors import ProgramError
from kernelskill.program.program import Program
from kernelskill.program.templates.scan_sites import fuse_scan, scan_sites
from kernelskill.records import Edit, Facts

SKILL = "single-pass-scan"


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per scan."""
    return [
        Edit(
            skill=SKILL,
            site=site.core,
            action="scan",
            summary=f"{'reverse ' if site.reverse else ''}{'exclusive ' if site.exclusive else ''}{site.fold} scan",
        )
        for site in scan_sites(program)
    ]


def apply(program: Program, edit: Edit) -> Program:
    """Put the scan's kernel in place.

    Raises:
        ProgramError: there is no such scan (any more).
    """
    for site in scan_sites(program):
        if site.core == edit.site:
            fused = fuse_scan(program, site)
            return fused if SKILL in fused.skills else fused.with_skill(SKILL)
    raise ProgramError(f"{edit.site} is not a scan")
