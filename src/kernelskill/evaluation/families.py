"""Hidden input families: the task's own draw, changed in ways that an honest kernel does not notice.

Only floating inputs that are not masks or normalised rows are changed; the rest is a fresh draw in every family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
BLOCK = 16
"""Elements of one zeroed block."""
PIECE = 1 << 26
"""Elements on a GPU that are changed together."""
ROWS = 64
"""Rows that are looked at to tell whether all are normalised."""
NORMAL = 1e-3
"""How near to 1 the sum (or length) of a row must be to count as normalised."""


def _signed(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * (2 * torch.randint(0, 2, x.shape, generator=rng, device=rng.device) - 1).to(x.dtype)


def _large(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * 10


def _small(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * 0.1


def _shifted(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x + 2


def _zero_blocks(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    flat = x.reshape(-1).clone()
    blocks = torch.randint(0, 4, (flat.numel() // BLOCK + 1,), generator=rng, device=rng.device) == 0
    flat[blocks.repeat_interleave(BLOCK)[: flat.numel()]] = 0
    return flat.reshape(x.shape)


def _heavy_tail(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    stretch = torch.exp(torch.randn(x.shape, generator=rng, device=rng.device).clamp(-3, 3))
    return x * stretch.to(x.dtype)


FAMILIES: dict[str, Change] = {
    "signed": _signed,
    "scaled-up": _large,
    "scaled-down": _small,
    "shifted": _shifted,
    "zero-blocks": _zero_blocks,
    "heavy-tail": _heavy_tail,
}
"""Family -> how it changes a floating input."""


def changeable(leaves: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Which leaves a family may change: floating, not a mask of zeros and ones, not normalised row by row."""
    return tuple(
        place
        for place, leaf in enumerate(leaves)
        if leaf.is_floating_point() and leaf.numel() and not is_mask(leaf) and not is_normalised(leaf)
    )


def apply(name: str, leaves: Sequence[torch.Tensor], places: Sequence[int], rng: torch.Generator) -> None:
    """Change these leaves in place."""
    for place in places:
        target = _stored(leaves[place])
        for piece in _pieces(target):
            piece.copy_(FAMILIES[name](piece.clone(), rng))


def _pieces(target: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The whole, or parts of it where temporaries of its size would not fit into a GPU's memory."""
    if not target.is_cuda or target.numel() <= PIECE or not target.is_contiguous():
        return (target,)
    return tuple(target.view(-1).split(PIECE))


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether it holds nothing but 0 and 1, or 0 and -infinity (a mask written as numbers)."""
    return all(
        bool(((piece == 0) | (piece == 1) | piece.isneginf()).all())
        for piece in tensor.reshape(-1).split(1 << 16)
    )


def is_normalised(tensor: torch.Tensor) -> bool:
    """Whether every row is a distribution (sums to 1, none negative) or a unit vector."""
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return False
    rows = tensor.flatten(0, -2)[:ROWS].double() if tensor.dim() > 1 else tensor.double().reshape(1, -1)
    sums, lengths = rows.sum(-1), rows.square().sum(-1).sqrt()
    distribution = bool((rows >= 0).all()) and bool(((sums - 1).abs() < NORMAL).all())
    return distribution or bool(((lengths - 1).abs() < NORMAL).all())


def perturbed(state: Sequence[torch.Tensor], rng: torch.Generator) -> list[torch.Tensor]:
    """Parameters and buffers moved by a tenth of their own spread, at least 0.05; masks and integers stay.

    What is nowhere negative (scales, variances) stays so; infinities stay where they are.
    """
    moved = []
    for tensor in state:
        if not tensor.is_floating_point() or tensor.numel() == 0 or _is_fixed(tensor):
            moved.append(tensor.clone())
            continue
        finite = tensor.double()[tensor.isfinite()]
        spread = float(finite.std()) if finite.numel() > 1 else 0.0
        noise = torch.randn(tensor.shape, generator=rng, device=rng.device).clamp(-3, 3)
        noise *= max(0.05, 0.1 * spread)
        fresh = tensor.double() + noise.double()
        if bool((tensor >= 0).all()):
            fresh = fresh.abs()
        moved.append(torch.where(tensor.isfinite(), fresh, tensor.double()).to(tensor.dtype))
    return moved


def _is_fixed(tensor: torch.Tensor) -> bool:
    """A mask with both of its values; all zeros or all ones are a bias or a scale at its start."""
    return is_mask(tensor) and tensor.numel() > 1 and not bool((tensor == tensor.reshape(-1)[0]).all())


def _stored(leaf: torch.Tensor) -> torch.Tensor:
    """The part of an expanded tensor that is stored."""
    return leaf[
        tuple(
            slice(0, 1) if step == 0 and size > 1 else slice(None)
            for size, step in zip(leaf.shape, leaf.stride(), strict=True)
        )
    ]
