"""The gate's answer in words."""

from __future__ import annotations

from kernelskill.records import Retrieval


def explain(retrieval: Retrieval, *, refused: bool = True) -> str:
    """Headroom, bottlenecks, and one line per decision; `refused` also tells what was not admitted, and why."""
    lines = [
        f"headroom     {retrieval.headroom}",
        f"bottlenecks  {', '.join(retrieval.bottlenecks) or 'none found'}",
    ]
    for item in retrieval.decisions:
        if item.admitted or refused:
            where = f" on {item.subject}" if item.subject else ""
            lines.append(
                f"{'admitted' if item.admitted else 'refused '}     {item.skill}{where}: {item.reason}"
            )
    return "\n".join(lines)
