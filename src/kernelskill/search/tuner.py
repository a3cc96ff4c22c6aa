"""Parameters of an edit: a hill climb over the edit's own space, one parameter at a time.

Ask with everything that was told so far, and the next point comes back. Nothing is kept in between, so a resumed run
asks the same questions. The climb starts from what paid at other sites in this run, else from the proposal, which the
library begins at what paid in earlier runs. It goes on from the best point told to its untried neighbours, and ends
where both neighbours are worse, or failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelskill.records import Edit, Scalar

Told = tuple[Edit, float | None]
"""An edit that was tried, and its speedup over the base it was tried on; None if it failed."""


class Tuner:
    """Chooses the next point of an edit's parameter space."""

    def __init__(self, limit: int = 6) -> None:
        self.limit = limit
        """Most points of one edit's space that are tried."""

    def ask(self, edit: Edit, told: Sequence[Told] = ()) -> Edit | None:
        """The next point worth trying, or None where the climb has ended.

        Args:
            edit: as the recipe proposes it on the base.
            told: what was tried, on this base or on others; only the same skill and action count, and what was
                tried at other sites only says where to start.
        """
        alike = [(item, speedup) for item, speedup in told if _family(item) == _family(edit)]
        here = {item.key: (item, speedup) for item, speedup in alike if item.site == edit.site}
        if len(here) >= self.limit:
            return None
        elsewhere = [(item, speedup) for item, speedup in alike if item.site != edit.site]
        for start in (_warm_start(edit, elsewhere), edit):
            if start.key not in here:
                return start
        passed = [(speedup, item) for item, speedup in here.values() if speedup is not None]
        best = max(passed, key=lambda pair: pair[0])[1] if passed else edit
        centre = edit
        for name, value in best.parameters.items():
            centre = centre.changed(name, value)
        return next((point for point in _neighbours(centre) if point.key not in here), None)


def _family(edit: Edit) -> tuple[str, str, tuple[str, ...]]:
    return edit.skill, edit.action, tuple(sorted(edit.parameters))


def _warm_start(edit: Edit, elsewhere: Sequence[Told]) -> Edit:
    """The proposal with the values that paid best at another site, where the space has them."""
    paid = [(speedup, item) for item, speedup in elsewhere if speedup is not None and speedup > 1]
    if not paid:
        return edit
    for name, value in max(paid, key=lambda pair: pair[0])[1].parameters.items():
        if value in edit.space.get(name, ()):
            edit = edit.changed(name, value)
    return edit


def _neighbours(centre: Edit) -> Iterator[Edit]:
    """Points that differ in one parameter: the next number up and down, or any other word."""
    for name in sorted(centre.space):
        current = centre.parameters.get(name)
        values = [value for value in centre.space[name] if value != current]
        if _is_number(current) and all(_is_number(value) for value in values):
            ordered = sorted(values, key=_as_float)
            above = [value for value in ordered if _as_float(value) > _as_float(current)]
            below = [value for value in ordered if _as_float(value) < _as_float(current)]
            values = [*above[:1], *below[-1:]]
        for value in values:
            yield centre.changed(name, value)


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_float(value: Scalar) -> float:
    assert isinstance(value, int | float)
    return float(value)
