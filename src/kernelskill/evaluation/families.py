"""Hidden input families: the task's own draw, changed in ways that an honest kernel does not notice.

Only floating inputs are changed; integers, masks and the rest are a fresh draw in every family anyway.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _signed(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * (2 * torch.randint(0, 2, x.shape, generator=rng) - 1).to(x.dtype)


def _large(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * 8


def _small(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * 0.125


def _shifted(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x + 2


def _zero_blocks(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    flat = x.reshape(-1).clone()
    blocks = torch.randint(0, 4, (max(1, flat.numel() // 16) + 1,), generator=rng) == 0
    mask = blocks.repeat_interleave(16)[: flat.numel()]
    flat[mask] = 0
    return flat.reshape(x.shape)


def _heavy_tail(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    stretch = torch.exp(torch.randn(x.shape, generator=rng).clamp(-3, 3))
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


def apply(name: str, leaves: list[torch.Tensor], rng: torch.Generator) -> bool:
    """Change the floating leaves in place.

    Returns:
        Whether anything was changed (a task of integers has no families).
    """
    changed = False
    for leaf in leaves:
        if not leaf.is_floating_point() or leaf.numel() == 0:
            continue
        target = _stored(leaf)
        target.copy_(FAMILIES[name](target.clone(), rng))
        changed = True
    return changed


def perturbed(state: list[torch.Tensor], rng: torch.Generator) -> list[torch.Tensor]:
    """Parameters and buffers moved by a tenth of their own spread, at least 0.05 and never through zero for scales."""
    moved = []
    for tensor in state:
        if not tensor.is_floating_point() or tensor.numel() == 0:
            moved.append(tensor.clone())
            continue
        spread = float(tensor.double().std()) if tensor.numel() > 1 else 0.0
        noise = torch.randn(tensor.shape, generator=rng).clamp(-3, 3) * max(0.1 * spread, 0.05)
        fresh = tensor.double() + noise.double()
        if bool((tensor >= 0).all()):
            fresh = fresh.abs()
        moved.append(fresh.to(tensor.dtype))
    return moved


def _stored(leaf: torch.Tensor) -> torch.Tensor:
    """The part of an expanded tensor that is stored."""
    index = tuple(slice(0, 1) if step == 0 and size > 1 else slice(None) for size, step in zip(leaf.shape, leaf.stride(), strict=True))
    return leaf[index]
