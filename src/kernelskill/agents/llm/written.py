"""A file that a model wrote, with what it claims about a person's hints, checked against its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kernelskill.agents.llm.answers import HintsAnswer, HintTrace
from kernelskill.agents.llm.reading import UnusableReply, answer_of, source_of


class Written(NamedTuple):
    """The file, and a line for each hint: followed where, or not and why."""

    source: str
    hints: tuple[str, ...] = ()


def written(text: str, hints: Sequence[str] = ()) -> Written:
    """Read a reply that holds a file.

    Raises:
        UnusableReply: no whole file, or a hint is said to be followed by a line that the file does not have.
    """
    source = source_of(text)
    if not hints:
        return Written(source)
    told = {trace.hint: trace for trace in answer_of(text, HintsAnswer).hints}
    missing = [str(place) for place in range(1, len(hints) + 1) if place not in told]
    if missing:
        raise UnusableReply(f"Nothing is said about hint {', '.join(missing)}.")
    traces = [_checked(told[place], hint, source) for place, hint in enumerate(hints, 1)]
    return Written(source, tuple(traces))


def _checked(trace: HintTrace, hint: str, source: str) -> str:
    line = " ".join(trace.line.split())
    if not trace.followed:
        if not trace.why_not:
            raise UnusableReply(f"Hint {trace.hint} is not followed: say why in `why_not`.")
        return f"{hint}: not followed: {trace.why_not}"
    code = [" ".join(text.split()) for text in source.splitlines()]
    if not line or not any(line in text and not text.startswith(("#", "//")) for text in code):
        raise UnusableReply(
            f"Hint {trace.hint} is said to be followed by the line {trace.line!r}, "
            "but the file has no such line of code."
        )
    return f"{hint}: followed: {line}"
