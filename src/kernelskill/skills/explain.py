"""The gate's answer in words: headroom, ranked bottlenecks, structure, then each skill with the facts that decided.

A reason carries its facts as `name=value origin`, so what was measured can be told from what was only read.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal

from kernelskill.records import Facts, GateDecision, Retrieval
from kernelskill.skills.bottlenecks import Bottleneck
from kernelskill.skills.expression import show
from kernelskill.skills.gate import assess

Refusals = Literal["none", "grouped", "each"]
WIDTH = 116
_LABEL = 13
_MOST_SUBJECTS = 3
"""Subjects of one skill that are told one by one; a deep network has hundreds."""


def explain(retrieval: Retrieval, facts: Facts | None = None, *, refusals: Refusals = "grouped") -> str:
    """The decisions on one base, for a person.

    Args:
        retrieval: the gate's answer.
        facts: what it was asked about; gives the weights of bottlenecks, and the structure.
        refusals: `grouped` by reason, `each` on a line of its own, or `none`.
    """
    lines = [_line("headroom", _headroom(retrieval, facts))]
    lines += _bottlenecks(retrieval, facts)
    if facts is not None:
        lines.append(_line("structure", ", ".join(_structure(facts)) or "nothing known"))
    lines += _admitted(retrieval)
    if refusals != "none":
        lines += _refused(retrieval, each=refusals == "each")
    return "\n".join(lines)


def _headroom(retrieval: Retrieval, facts: Facts | None) -> str:
    share = facts.get("floor_share_ratio") if facts else None
    if share is None:
        return f"{retrieval.headroom} (no measured time to set against the floor)"
    return f"{retrieval.headroom} (floor_share_ratio={show(share)} measured)"


def _bottlenecks(retrieval: Retrieval, facts: Facts | None) -> Iterator[str]:
    known = {item.name: item for item in assess(facts).bottlenecks} if facts else {}
    for rank, name in enumerate(retrieval.bottlenecks, 1):
        found = known.get(name)
        detail = f" (weight {found.weight:.2g}{_where(found)})" if found else ""
        yield _line("bottlenecks" if rank == 1 else "", f"{rank}. {name}{detail}")
    if not retrieval.bottlenecks:
        yield _line("bottlenecks", "none found")


def _where(found: Bottleneck) -> str:
    places = [name for name in found.subjects if name]
    return f" on {_some(places)}" if places else ""


def _structure(facts: Facts) -> Iterator[str]:
    for fact in facts.facts:
        if not fact.subject and fact.name.startswith("count_") and fact.value:
            yield f"{fact.value} {fact.name.removeprefix('count_')}"
    kinds = [f"{fact.subject} ({fact.value})" for fact in facts.facts if fact.name == "kernel_kind"]
    if kinds:
        yield f"kernels {_some(kinds)}"


def _admitted(retrieval: Retrieval) -> Iterator[str]:
    groups = _by_skill(item for item in retrieval.decisions if item.admitted)
    order = "in the order in which they are tried: what is sure, or hardly known yet, comes first"
    yield _line("admitted", f"{_counted(len(groups))}, {order}" if groups else "no skill")
    for rank, (skill, decisions) in enumerate(groups.items(), 1):
        best = decisions[0].expected_speedup
        yield f"  {rank:>2}. {skill}{f', {best:.3g}x expected' if best else ''}"
        for item in decisions[:_MOST_SUBJECTS]:
            yield _indented(f"{item.subject}: {item.reason}" if item.subject else item.reason)
        if len(decisions) > _MOST_SUBJECTS:
            yield _indented(f"and {len(decisions) - _MOST_SUBJECTS} more places like these")


def _counted(number: int) -> str:
    return f"{number} skill" if number == 1 else f"{number} skills"


def _refused(retrieval: Retrieval, *, each: bool) -> Iterator[str]:
    admitted = set(retrieval.admitted)
    refused = [item for item in retrieval.decisions if not item.admitted]
    names = {item.skill for item in refused} - admitted
    yield _line(
        "refused",
        f"{_counted(len(names))} everywhere, {len({item.skill for item in refused} - names)} in places",
    )
    if each:
        for item in refused:
            where = f" on {item.subject}" if item.subject else ""
            yield _indented(f"{item.skill}{where}: {item.reason}")
        return
    reasons: dict[str, list[str]] = defaultdict(list)
    for item in refused:
        reasons[_general(item)].append(item.skill)
    for reason, skills in sorted(reasons.items(), key=lambda pair: -len(set(pair[1]))):
        yield _indented(f"{reason}: {', '.join(dict.fromkeys(skills))}")


def _general(item: GateDecision) -> str:
    """The reason without the subject's name, so that equal refusals of several places read once."""
    return item.reason.removeprefix(f"{item.subject} is ") if item.subject else item.reason


def _by_skill(decisions: Iterable[GateDecision]) -> dict[str, list[GateDecision]]:
    groups: dict[str, list[GateDecision]] = {}
    for item in decisions:
        groups.setdefault(item.skill, []).append(item)
    return groups


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_SUBJECTS
    return ", ".join(names[:_MOST_SUBJECTS]) + (f" and {more} more" if more > 0 else "")


def _line(label: str, text: str) -> str:
    return _wrapped(text, label.ljust(_LABEL), " " * _LABEL)


def _indented(text: str) -> str:
    return _wrapped(text, " " * 6, " " * 8)


def _wrapped(text: str, first: str, others: str) -> str:
    """Lines of at most `WIDTH`; ids of skills are never broken."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )
