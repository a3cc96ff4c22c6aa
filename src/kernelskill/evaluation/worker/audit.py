"""What a task can prove: whether its results depend on its inputs, and on nothing that the judge cannot set.

The reference is run again: on the same inputs (hidden state), with other random numbers (stochastic), on other inputs
and with other weights (constant results). A call may be so large that memory holds few of its tensors: only the first
results stay, all others are let go as soon as they have been looked at.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch

from .draws import Draws
from .inputs import seed_all
from .pieces import pieces
from .protocol import Failure
from .snapshot import Snapshot, same_bytes
from .tree import arguments, encode
from .twin import twin_result, widened

SAME = 1e-6
"""Difference, relative to the result's own size, below which results count as equal."""
ROUNDING = 1e-4
"""The same for two runs on equal inputs whose order of summation may differ."""
DRAWS = 3
"""Inputs over which a result must vary to prove anything."""
NOISE = 0.1
"""Spread of the noise that weights are moved by."""
HIDDEN = "hidden-state"

Results = list[torch.Tensor]
Repeat = Literal["exact", "rounded", "other"]
"""How a second run on the same inputs compares with the first: the same bytes, off by rounding, or neither."""


class Audit:
    """Findings about one reference.

    Args:
        draws: its inputs, the first ones as number 0.
        model: the reference as a module, its state as in `before`.
        before: what to put back before every run.
        seed: of the random numbers in forward.
        tree: nesting of the first inputs.
    """

    def __init__(self, draws: Draws, model: torch.nn.Module, before: Snapshot, seed: int, tree: Any) -> None:
        self.draws = draws
        self.model = model
        self.before = before
        self.seed = seed
        self.tree = tree

    def findings(self, first: Results, repeat: Repeat) -> list[dict[str, Any]]:
        """All findings.

        Args:
            first: results of the first run.
            repeat: how those of a second run with the same inputs, state and random numbers compare with them.
        """
        found = _of_results(first)
        if _fatal(found):
            return found
        found += self._of_inputs()
        if _fatal(found):
            return found
        found += self._of_repeats(first, repeat)
        if any(item["code"] == HIDDEN for item in found):
            return found
        return found + self._of_dependence(first)

    def _of_inputs(self) -> list[dict[str, Any]]:
        """Draws must differ in values only."""
        leaves, tree = self.draws.drawn(0)
        shapes = _shapes(leaves)
        same, same_trees = True, tree == self.tree
        for number in range(1, DRAWS):
            others, tree = self.draws.drawn(number)
            same_trees = same_trees and tree == self.tree
            if _shapes(others) != shapes:
                return [
                    finding("varying-shapes", "the inputs' shapes change from draw to draw: fix them", True)
                ]
            same = same and all(same_bytes(one, other) for one, other in zip(leaves, others, strict=True))
        if not leaves:
            return [
                finding("input-independent", "forward takes no tensors: any stored result would pass", True)
            ]
        if same:
            message = (
                "the inputs have the same values at every draw: make them with torch.rand, randn or randint"
            )
            return [finding("fixed-inputs", message, True)]
        if not same_trees:
            message = (
                "numbers among the inputs change from draw to draw; those of one draw are used throughout"
            )
            return [finding("varying-numbers", message, False)]
        return []

    def _of_repeats(self, first: Results, repeat: Repeat) -> list[dict[str, Any]]:
        if repeat == "other":
            message = (
                "forward remembers earlier calls outside parameters and buffers: no call can be compared"
            )
            return [finding(HIDDEN, message, True)]
        other = self._run(0, noise=self.seed + 1)
        if not alike(first, other, 0.0 if repeat == "exact" else ROUNDING):
            message = "two runs on equal inputs differ (dropout, or random numbers in forward): set p=0 or use eval()"
            return [finding("stochastic", message, True)]
        if repeat == "rounded":
            return [
                finding("non-deterministic", "repeated runs differ by rounding (order of summation)", False)
            ]
        return []

    def _of_dependence(self, first: Results) -> list[dict[str, Any]]:
        other = self._run(1, noise=self.seed)
        constant, apart = alike(first, other, SAME), _apart(first, other)
        del other
        constant = constant and all(
            alike(first, self._run(number, noise=self.seed), SAME) for number in range(2, DRAWS)
        )
        why = "" if constant else self._rounding_only(first, apart)
        if not constant and not why:
            return []
        one, other = (self._run(number, noise=self.seed, moved=True) for number in range(2))
        if alike(one, other, SAME):
            message = (
                f"output constant over {DRAWS} inputs, and with other weights too: any constant would pass"
            )
            return [finding("constant-output", why or message, True)]
        message = f"output constant over {DRAWS} inputs with these weights: a stored result would pass"
        return [finding("input-independent", why or message, True)]

    def _rounding_only(self, first: Results, apart: list[float] | None) -> str:
        """Whether results on two inputs are no further apart than twice eager's own error, of both together.

        Args:
            first: results on the first inputs.
            apart: how far results on other inputs are from them, as `_apart` tells it.
        """
        if apart is None:
            return ""
        leaves = self.draws.copies(0)
        leaves = [widened(leaves.pop(0)) for _ in range(len(leaves))]  # one narrow one less at a time
        args, kwargs = arguments(self.tree, leaves)
        seed_all(self.seed)
        try:
            exact = _leaves(twin_result(self.model, args, kwargs)[0])
        except Failure:
            return ""  # no float64 twin; the judge says so where it needs one
        for one, due, off in zip(first, exact, apart, strict=True):
            if one.is_floating_point() and one.numel() and not off <= 4 * _rms_apart(one, due):
                return ""
        return "the result is rounding noise: results on different inputs differ by no more than eager's own error"

    def _run(self, number: int, noise: int, *, moved: bool = False) -> Results:
        """Results on a set of inputs, with random numbers from `noise` and, if asked for, moved weights."""
        args, kwargs = arguments(self.tree, self.draws.copies(number))
        with torch.no_grad():
            if moved:
                rng = torch.Generator().manual_seed(self.seed % (1 << 62))
                for parameter in self.model.parameters():
                    if parameter.is_floating_point():
                        change = torch.randn(parameter.shape, generator=rng)
                        parameter.add_(change.to(parameter), alpha=NOISE)
            seed_all(noise)
            result = _leaves(self.model(*args, **kwargs))
            del args, kwargs
            # Copies, as the state that comes back may be what the model handed out.
            result = [result.pop(0).clone() for _ in range(len(result))]
        self.before.restore_state(self.model)
        return result


def repeat_of(first: Results, again: Results) -> Repeat:
    """How the results of a second run compare with those of the first."""
    if _fit(first, again) and all(same_bytes(one, other) for one, other in zip(first, again, strict=True)):
        return "exact"
    return "rounded" if alike(first, again, ROUNDING) else "other"


def _of_results(first: Results) -> list[dict[str, Any]]:
    if all(item.numel() == 0 for item in first):
        return [finding("empty-output", "all results are empty: nothing can be compared", True)]
    floating = [item for item in first if item.is_floating_point() or item.is_complex()]
    elements = sum(item.numel() for item in floating)
    finite = sum(int(torch.isfinite(piece).sum()) for item in floating for (piece,) in pieces(item))
    if elements and finite == 0:
        return [finding("non-finite", "every element of the result is NaN or infinite", True)]
    if finite < elements:
        share = 1 - finite / elements
        return [finding("non-finite", f"{share:.1%} of the result is NaN or infinite", False)]
    return []


def alike(left: Results, right: Results, relative: float) -> bool:
    """Whether results are equal up to a share of their own largest finite element; 0.0: exactly."""
    if not _fit(left, right):
        return False
    for one, other in zip(left, right, strict=True):
        if same_bytes(one, other):
            continue
        if relative == 0.0 or not (one.is_floating_point() or one.is_complex()):
            return False
        apart = largest = 0.0
        for mine, others in pieces(one, other):
            wide = torch.complex128 if one.is_complex() else torch.float64
            values = [torch.nan_to_num(item.to(wide), posinf=1e30, neginf=-1e30) for item in (mine, others)]
            apart = max(apart, float((values[0] - values[1]).abs().max()))
            largest = max(largest, float(values[0].abs().max()))
        if apart > relative * largest:
            return False
    return True


def as_tensors(leaves: list[Any]) -> Results:
    """Leaves of a result with Python numbers as 0-dim tensors (floats in double precision)."""
    return [
        leaf.detach()
        if isinstance(leaf, torch.Tensor)
        else torch.tensor(leaf, dtype=_NUMBERS.get(type(leaf)))
        for leaf in leaves
    ]


_NUMBERS = {float: torch.float64, complex: torch.complex128}


def finding(code: str, message: str, fatal: bool) -> dict[str, Any]:
    """One entry of the audit."""
    return {"code": code, "message": message, "fatal": fatal}


def _fatal(found: list[dict[str, Any]]) -> bool:
    return any(item["fatal"] for item in found)


def _leaves(result: Any) -> Results:
    leaves: list[Any] = []
    encode(result, leaves, numbers=True)
    return as_tensors(leaves)


def _fit(left: Results, right: Results) -> bool:
    return _shapes(left) == _shapes(right)


def _shapes(leaves: Results) -> list[tuple[torch.Size, torch.dtype]]:
    return [(leaf.shape, leaf.dtype) for leaf in leaves]


def _apart(left: Results, right: Results) -> list[float] | None:
    """Root mean square of each result's difference; None where something that is no real number differs."""
    if not _fit(left, right):
        return None
    pairs = list(zip(left, right, strict=True))
    if not all(one.is_floating_point() or same_bytes(one, other) for one, other in pairs):
        return None
    return [_rms_apart(one, other) if one.is_floating_point() else 0.0 for one, other in pairs]


def _rms_apart(left: torch.Tensor, right: torch.Tensor) -> float:
    """Root mean square of the difference, NaN taken for none."""
    squares = [
        float(torch.nan_to_num(mine.double() - others.double()).square().sum())
        for mine, others in pieces(left, right)
    ]
    return math.sqrt(sum(squares) / max(left.numel(), 1))
