"""A new skill's folder: a card and a recipe that pass the door, with places where an expert must write.

Lint refuses the card until nothing of the template is left.
"""

from __future__ import annotations

import re
from pathlib import Path

from kernelskill.errors import SkillError
from kernelskill.skills.card import CARD, RECIPE, Kind

_CARD = """---
name: {id}
description: <what it does and when to use it, in one or two sentences that a coding agent picks the skill by>
id: {id}
title: {title}
kind: {kind}
applies: {applies}
subject: {subject}
bottlenecks: [{bottleneck}]
structures: []
targets: [cpu, cuda]
tiers: [{tiers}]
expected_gain:
  prior_log_speedup: 0.1
  reasoning: <why so much, in bytes, instructions or calls that are saved, and what bounds the gain>
hazards:
  - <what can go wrong, and how it shows>
  - <what else>
conflicts: []
source: <where the idea comes from>
---
## Mechanism
<what changes in the kernel, and why the machine is faster at that>

## Steps
1. <the first thing to look at or change>
2. <the next one>
3. <when to stop>

## Check that it was really done
- <what the source or the machine code must show>
- <which measured fact must have moved, and which way>

## Worked example
<numbers from an example that was run{block}>

## When not to
<conditions under which it gains nothing or harms>
"""
_BLOCK = """; keep a block that runs>

```python
before = fused(calls(("a", "mul.Tensor", ("x", 0.5)), ("b", "tanh.default", ("a",))))
after = edited(before)
assert after.skills == ("{id}",)
```
<and what it shows"""
_RECIPE = '''"""One line that says what changes."""

from __future__ import annotations

from kernelskill.program.program import Kernel, Program
from kernelskill.program.schedule_edits import apply_schedule, schedule_edits
from kernelskill.records import Edit, Facts, Scalar

SKILL = "{id}"


def _values(kernel: Kernel, facts: Facts) -> tuple[Scalar, ...]:
    """Values worth trying on one kernel, best guess first; none where there is nothing to do."""
    return (2, 4)


def propose(program: Program, facts: Facts) -> list[Edit]:
    """One edit per kernel whose schedule would change."""
    return schedule_edits(program, facts, SKILL, "unroll", _values)


def apply(program: Program, edit: Edit) -> Program:
    """Schedule the kernel anew.

    Raises:
        ProgramError: the kernel is gone, or cannot be printed that way.
    """
    return apply_schedule(program, edit).with_skill(SKILL)
'''
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def write_template(folder: Path, skill: str, kind: Kind = "micro") -> Path:
    """Make `folder/<skill with underscores>/`; returns its SKILL.md.

    Raises:
        SkillError: the id breaks the rule of ids, or the folder exists.
    """
    if not _ID.fullmatch(skill):
        raise SkillError(f"id: {skill!r}: small letters, digits and single hyphens, as in stream-stores")
    home = folder / skill.replace("-", "_")
    try:
        home.mkdir(parents=True)
    except FileExistsError as error:
        raise SkillError(f"{home} exists; give another id, or edit what is there") from error
    except OSError as error:
        raise SkillError(f"{home}: cannot be made: {error}") from error
    is_micro = kind == "micro"
    text = _CARD.format(
        id=skill,
        title=skill.replace("-", " ").capitalize(),
        kind=kind,
        applies="kernel_bound == 'memory' and bandwidth_share_ratio < 0.85"
        if is_micro
        else "operators_left >= 2",
        subject="kernel" if is_micro else "program",
        bottleneck="memory-bandwidth" if is_micro else "unfused-steps",
        tiers="high, medium, low" if is_micro else "high, medium, low, unknown",
        block="" if kind == "knowledge" else _BLOCK.format(id=skill),
    )
    (home / CARD).write_text(text, encoding="utf-8")
    if kind != "knowledge":
        (home / RECIPE).write_text(_RECIPE.format(id=skill), encoding="utf-8")
    return home / CARD
