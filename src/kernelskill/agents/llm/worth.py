"""Whether a further round is worth its price: expected gain by evidence and floor, against what its calls cost."""

from __future__ import annotations

from collections.abc import Iterable

from kernelskill.agents.llm.prompts import Section
from kernelskill.agents.llm.scene import Scene
from kernelskill.errors import ModelError
from kernelskill.records import Facts, Retrieval
from kernelskill.records.model import Role

ROUND: tuple[Role, ...] = ("planner", "optimizer")
"""Who is asked in every round; repairs and readings come on top, where there are any."""


class NotWorthIt(ModelError):
    """The next round would cost more than what it is expected to gain is worth; the message has both."""


def require_worth(scene: Scene, retrieval: Retrieval, facts: Facts, parts: Iterable[Section]) -> None:
    """Nothing where nobody said what speed is worth, or no price is known (as in a replay).

    Args:
        scene: of the run; its settings say what one percent of a call's time is worth.
        retrieval: the gate's answer, with the speedup that prior and evidence expect of each skill.
        facts: of the base, with its time and the floor's.
        parts: of the question that would be asked.

    Raises:
        NotWorthIt: the round is not worth it.
    """
    worth_usd = scene.settings.percent_usd
    if worth_usd is None:
        return
    chars = sum(len(part.text) for part in parts)
    prices = [scene.model.expected_usd(role, chars, scene.settings.max_output_tokens) for role in ROUND]
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return
    cost = sum(known)
    skill, speedup = expected(retrieval, facts)
    percent = 100 * (1 - 1 / speedup)
    if percent * worth_usd < cost:
        raise NotWorthIt(
            f"a further round is expected to save {percent:.2g} % of a call's time ({skill}), worth "
            f"${percent * worth_usd:.4f} at ${worth_usd:g} a percent, and would cost about ${cost:.4f}"
        )


def expected(retrieval: Retrieval, facts: Facts) -> tuple[str, float]:
    """The admitted skill that prior and evidence expect most of, and its speedup, at most what the floor leaves."""
    admitted = [item for item in retrieval.decisions if item.admitted]
    hoped, skill = max(
        ((item.expected_speedup or 1.0, item.skill) for item in admitted), default=(1.0, "none")
    )
    speedup = max(1.0, hoped)
    base_ms, floor_ms = facts.get("base_ms"), facts.get("floor_ms")
    left = speedup
    if isinstance(base_ms, int | float) and isinstance(floor_ms, int | float) and floor_ms > 0:
        left = base_ms / floor_ms
    return (skill, speedup) if left >= speedup else (f"{skill}, up to the floor", max(1.0, left))
