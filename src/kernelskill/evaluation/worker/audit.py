"""What a task can prove: whether its results depend on its inputs, and on nothing that the judge cannot set.

The reference is run again: on the same inputs (hidden state), with other random numbers (stochastic), on other inputs
and with other weights (constant results).
"""

from __future__ import annotations

from typing import Any

import torch

from .inputs import draw, seed_all
from .protocol import Failure
from .session import Session
from .snapshot import Snapshot, same_bytes
from .tree import arguments, encode
from .twin import twin_result

SAME = 1e-6
"""Difference, relative to the result's own size, below which results count as equal."""
ROUNDING = 1e-4
"""The same for two runs on equal inputs whose order of summation may differ."""
DRAWS = 3
"""Inputs over which a result must vary to prove anything."""
NOISE = 0.1
"""Spread of the noise that weights are moved by."""
HIDDEN = "hidden-state"
PIECE = 1 << 26
"""Elements on a GPU that are widened together."""

Results = list[torch.Tensor]


class Audit:
    """Findings about one reference.

    Args:
        session: the worker's, with the reference loaded.
        model: the reference as a module, its state as in `before`.
        before: what to put back before every run.
        seed: of the first inputs; others are derived from it.
        tree: nesting of the first inputs.
    """

    def __init__(
        self, session: Session, model: torch.nn.Module, before: Snapshot, seed: int, tree: Any
    ) -> None:
        self.session = session
        self.model = model
        self.before = before
        self.seed = seed
        self.tree = tree

    def findings(self, first: Results, again: Results) -> list[dict[str, Any]]:
        """All findings.

        Args:
            first: results of the first run.
            again: results of a second run with the same inputs, state and random numbers.
        """
        found = _of_results(first)
        if _fatal(found):
            return found
        draws = [draw(self.session, self.seed + 1000 * step) for step in range(DRAWS)]
        found += self._of_inputs(draws)
        if _fatal(found):
            return found
        found += self._of_repeats(first, again, draws[0][0])
        if any(item["code"] == HIDDEN for item in found):
            return found
        return found + self._of_dependence(first, [leaves for leaves, _ in draws])

    def _of_inputs(self, draws: list[tuple[Results, Any]]) -> list[dict[str, Any]]:
        """Draws must differ in values only."""
        specs = [[(leaf.shape, leaf.dtype) for leaf in leaves] for leaves, _ in draws]
        if any(spec != specs[0] for spec in specs):
            return [finding("varying-shapes", "the inputs' shapes change from draw to draw: fix them", True)]
        if not draws[0][0]:
            return [
                finding("input-independent", "forward takes no tensors: any stored result would pass", True)
            ]
        same = all(
            same_bytes(one, other)
            for leaves, _ in draws[1:]
            for one, other in zip(draws[0][0], leaves, strict=True)
        )
        if same:
            message = (
                "the inputs have the same values at every draw: make them with torch.rand, randn or randint"
            )
            return [finding("fixed-inputs", message, True)]
        if any(tree != self.tree for _, tree in draws):
            message = (
                "numbers among the inputs change from draw to draw; those of one draw are used throughout"
            )
            return [finding("varying-numbers", message, False)]
        return []

    def _of_repeats(self, first: Results, again: Results, leaves: Results) -> list[dict[str, Any]]:
        exact = (
            all(same_bytes(a, b) for a, b in zip(first, again, strict=True)) if _fit(first, again) else False
        )
        if not exact and not alike(first, again, ROUNDING):
            message = (
                "forward remembers earlier calls outside parameters and buffers: no call can be compared"
            )
            return [finding(HIDDEN, message, True)]
        other = self._run(leaves, noise=self.seed + 1)
        if not alike(first, other, 0.0 if exact else ROUNDING):
            message = "two runs on equal inputs differ (dropout, or random numbers in forward): set p=0 or use eval()"
            return [finding("stochastic", message, True)]
        if not exact:
            return [
                finding("non-deterministic", "repeated runs differ by rounding (order of summation)", False)
            ]
        return []

    def _of_dependence(self, first: Results, draws: list[Results]) -> list[dict[str, Any]]:
        others = [self._run(leaves, noise=self.seed) for leaves in draws[1:]]
        constant = all(alike(first, other, SAME) for other in others)
        why = "" if constant else self._rounding_only(first, others[0], draws[0])
        if not constant and not why:
            return []
        moved = [self._run(leaves, noise=self.seed, moved=True) for leaves in draws[:2]]
        if alike(moved[0], moved[1], SAME):
            message = (
                f"output constant over {DRAWS} inputs, and with other weights too: any constant would pass"
            )
            return [finding("constant-output", why or message, True)]
        message = f"output constant over {DRAWS} inputs with these weights: a stored result would pass"
        return [finding("input-independent", why or message, True)]

    def _rounding_only(self, first: Results, other: Results, leaves: Results) -> str:
        """Whether results on two inputs are no further apart than twice eager's own error, of both together."""
        args, kwargs = arguments(self.tree, [leaf.clone() for leaf in leaves])
        seed_all(self.seed)
        try:
            exact = _leaves(twin_result(self.model, args, kwargs)[0])
        except Failure:
            return ""  # no float64 twin; the judge says so where it needs one
        for one, two, due in zip(first, other, exact, strict=True):
            if not one.is_floating_point():
                if not same_bytes(one, two):
                    return ""
            elif one.numel() and not _rms(one.double() - two.double()) <= 4 * _rms(one.double() - due):
                return ""
        return "the result is rounding noise: results on different inputs differ by no more than eager's own error"

    def _run(self, leaves: Results, noise: int, *, moved: bool = False) -> Results:
        args, kwargs = arguments(self.tree, [leaf.clone() for leaf in leaves])
        with torch.no_grad():
            if moved:
                rng = torch.Generator().manual_seed(self.seed % (1 << 62))
                for parameter in self.model.parameters():
                    if parameter.is_floating_point():
                        change = torch.randn(parameter.shape, generator=rng)
                        parameter.add_(change.to(parameter), alpha=NOISE)
            seed_all(noise)
            result = _leaves(self.model(*args, **kwargs))
            result = [tensor.clone() for tensor in result]
        self.before.restore_state(self.model)
        return result


def _of_results(first: Results) -> list[dict[str, Any]]:
    if all(item.numel() == 0 for item in first):
        return [finding("empty-output", "all results are empty: nothing can be compared", True)]
    floating = [item for item in first if item.is_floating_point() or item.is_complex()]
    elements = sum(item.numel() for item in floating)
    finite = sum(int(torch.isfinite(item).sum()) for item in floating)
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
        for mine, others in zip(_pieces(one), _pieces(other), strict=True):
            wide = torch.complex128 if one.is_complex() else torch.float64
            values = [torch.nan_to_num(item.to(wide), posinf=1e30, neginf=-1e30) for item in (mine, others)]
            apart = max(apart, float((values[0] - values[1]).abs().max()))
            largest = max(largest, float(values[0].abs().max()))
        if apart > relative * largest:
            return False
    return True


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The whole, or parts of it where temporaries of its size would not fit into a GPU's memory."""
    return tensor.reshape(-1).split(PIECE) if tensor.is_cuda and tensor.numel() > PIECE else (tensor,)


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
    return [(item.shape, item.dtype) for item in left] == [(item.shape, item.dtype) for item in right]


def _rms(tensor: torch.Tensor) -> float:
    return float(torch.nan_to_num(tensor).square().mean().sqrt())
