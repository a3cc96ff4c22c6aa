"""The evidence at a glance: per skill and context, how often it was tried, verified, rejected, and what it brought."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from kernelskill.records import Record
from kernelskill.skills.experience import Context, Evidence
from kernelskill.skills.ranking import estimate

HEAD = (
    f"{'skill':<30}{'in kernels like':<34}{'tried':>10}{'verified':>13}{'rejected':>13}{'gain':>9}  device\n"
    "(gain: of an edit over what it was made from, of a first version over eager; mean of verified ones)"
)


class Remembered(Record):
    """What is known of one skill in one context."""

    skill: str
    context: Context
    tries: int
    verified: int
    rejected: int
    """Counted as a "don't": judged wrong, crashed, not built."""
    mean_speedup: float | None
    """Geometric mean over verified tries; None where none was."""
    suspended: str
    """Why the skill is not tried in this context any more; "" = it is."""
    tasks: int
    torch: tuple[str, ...]
    driver: tuple[str, ...]
    newest: str

    def __str__(self) -> str:
        """One line, with a second one for a suspension."""
        where = " ".join(part for part in (self.context.kernel_kind or "program", self.context.bound,
                                           self.context.op_class) if part)  # fmt: skip
        gain = f"{self.mean_speedup:.3f}x" if self.mean_speedup else "-"
        text = (
            f"{self.skill:<30}{where:<34}{self.tries:>10}{self.verified:>13}{self.rejected:>13}"
            f"{gain:>9}  {self.context.device}"
        )
        return f"{text}\n    {self.suspended}" if self.suspended else text


def remembered(rows: Sequence[Evidence]) -> tuple[Remembered, ...]:
    """Rows by skill and context, in order of name."""
    groups: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    by_skill: dict[str, list[Evidence]] = defaultdict(list)
    for row in rows:
        groups[row.skill, row.context.model_dump_json()].append(row)
        by_skill[row.skill].append(row)
    return tuple(_of(found, by_skill[skill]) for (skill, _), found in sorted(groups.items()))


def _of(rows: Sequence[Evidence], of_skill: Sequence[Evidence]) -> Remembered:
    context = rows[0].context
    gains = [
        math.log(row.speedup.value) for row in rows if row.verified and row.speedup and row.speedup.value > 0
    ]
    return Remembered(
        skill=rows[0].skill,
        context=context,
        tries=len(rows),
        verified=sum(row.verified for row in rows),
        rejected=sum(row.rejected for row in rows),
        mean_speedup=math.exp(sum(gains) / len(gains)) if gains else None,
        suspended=estimate(0.0, of_skill, context).suspended,
        tasks=len({row.task for row in rows}),
        torch=tuple(sorted({row.torch for row in rows})),
        driver=tuple(sorted({row.driver for row in rows if row.driver})),
        newest=max(row.date for row in rows),
    )
