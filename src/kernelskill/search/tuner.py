"""Parameters of an edit, one at a time: the proposal first, then its neighbours in the edit's own space.

Ask and tell: `variants` gives the edits worth trying in order, and what was tried before is left out by the caller's
memory. The spaces of micro-edits hold a handful of values, so that a walk over them is a search.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelskill.records import Edit, Scalar


class Tuner:
    """Orders the points of an edit's parameter space."""

    def __init__(self, limit: int = 8) -> None:
        self.limit = limit
        """Most variants of one edit."""

    def variants(self, edit: Edit) -> Iterator[Edit]:
        """The edit as proposed, then with one parameter changed at a time, nearest values first."""
        yield edit
        count = 1
        for name in sorted(edit.space):
            current = edit.parameters.get(name)
            for value in sorted(edit.space[name], key=lambda item: _distance(item, current)):
                if value == current or count >= self.limit:
                    continue
                count += 1
                yield changed(edit, name, value)


def changed(edit: Edit, name: str, value: Scalar) -> Edit:
    """The edit with another value of one parameter, told in its summary."""
    before = edit.parameters.get(name)
    summary = edit.summary
    if summary and str(before) in summary:
        head, _, tail = summary.rpartition(str(before))
        summary = f"{head}{value}{tail}"
    elif summary:
        summary = f"{summary} ({name} = {value})"
    return edit.model_copy(update={"parameters": {**edit.parameters, name: value}, "summary": summary})


def _distance(value: Scalar, current: Scalar) -> float:
    numbers = isinstance(value, int | float) and isinstance(current, int | float)
    return abs(float(value) - float(current)) if numbers else float(value != current)  # type: ignore[arg-type]
