"""Hidden input families: the task's own draw, changed in ways that an honest kernel does not notice.

Only floating inputs that are not masks or normalised rows are changed; the rest is a fresh draw in every family. What
the task promises about an input stays: zeros where many are zero (a triangle, a sparse matrix), and symmetry. Inputs
that are the same in every draw are permuted in a family of their own: a candidate must read them all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from kernelskill.records import Graph

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
BLOCK = 16
"""Elements of one zeroed block."""
PIECE = 1 << 26
"""Elements on a GPU that are changed together."""
LOOK = 1 << 16
"""Elements that are looked at together on a CPU, and first of all on a GPU."""
ROWS = 64
"""Rows that are looked at to tell whether all are normalised."""
MANY_ZEROS = 0.05
"""Share of zeros from which they are taken for the task's own structure."""
INTEGER_BITS = 12
SIGNIFICAND = {torch.float16: 11, torch.bfloat16: 8}
RARE_OF = 4096
"""One element in so many (at least one) is of another sign and size, so that no sample of small inputs tells."""
LOOKED_AT = 256
"""Elements, drawn by lot, of which the largest is the one that is made another, so that it is none of the zeros."""
TOUCHED_OF = 1024
"""One element in so many of each parameter is moved where most must stay."""
BEYOND = 1.25
"""How far past the largest exponent of e^x inputs are moved, and past the least: 111 for float32 (and for less, which
is computed in it), 887 for float64."""
NORMAL = 1e-3
"""How near to 1 the sum (or length) of a row must be to count as normalised."""


def _signed(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * (2 * torch.randint(0, 2, x.shape, generator=rng, device=rng.device) - 1).to(x.dtype)


def _large(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * 10


def _small(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x * 0.1


def _shifted(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return _moved(x, x + 2)


def _overflowing(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    largest = max(torch.finfo(x.dtype).max, torch.finfo(torch.float32).max)
    return _moved(x, x + _signed(torch.full_like(x, BEYOND * math.log(largest)), rng))


def _moved(x: torch.Tensor, fresh: torch.Tensor) -> torch.Tensor:
    """Other values, but zeros where many are zero."""
    zero = x == 0
    return torch.where(zero, x, fresh) if zero.float().mean() > MANY_ZEROS else fresh


def _zero_blocks(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    flat = x.reshape(-1).clone()
    blocks = torch.randint(0, 4, (flat.numel() // BLOCK + 1,), generator=rng, device=rng.device) == 0
    flat[blocks.repeat_interleave(BLOCK)[: flat.numel()]] = 0
    return flat.reshape(x.shape)


def _heavy_tail(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    stretch = torch.exp(torch.randn(x.shape, generator=rng, device=rng.device).clamp(-3, 3))
    return x * stretch.to(x.dtype)


def _rare(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    chosen = torch.randint(0, RARE_OF, x.shape, generator=rng, device=rng.device) == 0
    chosen.view(-1)[torch.randint(0, x.numel(), (1,), generator=rng, device=rng.device)] = True
    return torch.where(chosen, -10 * x, x)


def _single(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    flat = x.reshape(-1).clone()
    drawn = torch.randint(0, flat.numel(), (LOOKED_AT,), generator=rng, device=rng.device)
    sizes = torch.nan_to_num(flat[drawn].abs().float(), nan=0.0, posinf=0.0)
    flat[drawn[sizes.argmax()]] *= -10
    return flat.reshape(x.shape)


def _integers(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    bits = min(INTEGER_BITS, SIGNIFICAND.get(x.dtype, INTEGER_BITS))
    odd = 2 * torch.randint(0, 1 << (bits - 1), x.shape, generator=rng, device=rng.device) + 1
    sign = 2 * torch.randint(0, 2, x.shape, generator=rng, device=rng.device) - 1
    return torch.where(x == 0, 0, odd * sign).to(x.dtype)


def _ternary(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return (torch.randint(0, 3, x.shape, generator=rng, device=rng.device) - 1).to(x.dtype)


def _permuted(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    order = torch.randperm(x.numel(), generator=rng, device=rng.device)
    return x.reshape(-1)[order].reshape(x.shape)


PERMUTED, INTEGERS, OVERFLOWING = "permuted", "integers", "overflowing"
FAMILIES: dict[str, Change] = {
    "signed": _signed,
    "scaled-up": _large,
    "scaled-down": _small,
    "shifted": _shifted,
    "zero-blocks": _zero_blocks,
    "heavy-tail": _heavy_tail,
    "rare": _rare,
    "single": _single,
    OVERFLOWING: _overflowing,
    INTEGERS: _integers,
    PERMUTED: _permuted,
}
"""Family -> how it changes an input.

`integers` is for linear tasks: twelve significant bits times -1, 0 or 1, whose sums float32 holds exactly in any order,
and which no narrower format holds at all. `rare` and `single` are for guards: so many elements that a sum over all
shows them, and so few that no sample of large inputs holds one. `overflowing` moves elements up or down to where e^x
overflows: what is not brought into range first (a softmax without its maximum) is infinite or NaN there. It changes one
input in each call, or products would grow past where float32 can tell a softmax's elements.
"""
LINEAR = (
    "mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "conv", "convolution", "einsum", "sum", "mean", "add", "sub",
    "view", "reshape", "permute", "transpose", "t", "expand", "clone", "unsqueeze", "squeeze", "slice", "cat", "select",
    "contiguous", "alias", "unfold", "triu", "tril", "neg", "diagonal", "mv", "dot", "detach", "to", "_to_copy",
)  # fmt: skip
"""Operators that keep integers integers (or scale them alike), by name without overload."""


def changeable(leaves: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Which leaves a family may change: floating, not a mask of zeros and ones, not normalised row by row."""
    return tuple(
        place
        for place, leaf in enumerate(leaves)
        if leaf.is_floating_point() and leaf.numel() and not is_mask(leaf) and not is_normalised(leaf)
    )


def fixed(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Leaves that are the same in two draws, and hold more than one value."""
    return tuple(
        place
        for place, (one, other) in enumerate(zip(first, second, strict=True))
        if one.numel() > 1 and torch.equal(one, other) and not bool((one == one.reshape(-1)[0]).all())
    )


def is_linear(graph: Graph | None) -> bool:
    """Whether a graph is known, and holds nothing but sums, products with constants or weights, and moves."""
    return graph is not None and all(_short(node.op) in LINEAR for node in graph.nodes)


def in_call(name: str, places: Sequence[int], number: int) -> Sequence[int]:
    """Which of the leaves that a family may change it changes in one call.

    Args:
        name: family.
        places: leaves that it may change.
        number: of the call, from wherever the count begins.
    """
    return places[number % len(places) :][:1] if name == OVERFLOWING and places else places


def apply(name: str, leaves: Sequence[torch.Tensor], places: Sequence[int], rng: torch.Generator) -> None:
    """Change these leaves in place."""
    for number, place in enumerate(places):
        target = stored(leaves[place])
        change = _ternary if name == INTEGERS and number else FAMILIES[name]
        symmetric = name != PERMUTED and is_symmetric(target)
        if symmetric:  # what is changed below the diagonal would be lost
            target.copy_(target.triu())
        for piece in _pieces(target):
            piece.copy_(change(piece.clone(), rng))
        if symmetric:
            target.copy_(target.triu() + target.triu(1).mT)


def is_symmetric(tensor: torch.Tensor) -> bool:
    """Whether it is a square matrix (or a batch of them) that equals its transpose."""
    square = tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] and tensor.shape[-1] > 1
    return square and bool((tensor[..., 0] == tensor[..., 0, :]).all()) and torch.equal(tensor, tensor.mT)


def _short(op: str) -> str:
    """The operator's bare name: mm, of aten.mm.default."""
    words = op.replace("::", ".").split(".")
    return words[1] if len(words) > 1 and words[0] in ("aten", "prims") else words[0]


def _pieces(target: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The whole, or parts of it where temporaries of its size would not fit into a GPU's memory."""
    if not target.is_cuda or target.numel() <= PIECE or not target.is_contiguous():
        return (target,)
    return tuple(target.view(-1).split(PIECE))


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether it holds nothing but 0 and 1, or 0 and -infinity (a mask written as numbers)."""
    flat = tensor.reshape(-1)
    # Most tensors are no masks, which their first elements tell.
    step = PIECE if tensor.is_cuda else LOOK
    starts = (0, *range(LOOK, flat.numel(), step))
    ends = (*starts[1:], flat.numel())
    return all(_holds_mask(flat[start:end]) for start, end in zip(starts, ends, strict=True))


def _holds_mask(piece: torch.Tensor) -> bool:
    return bool(((piece == 0) | (piece == 1) | piece.isneginf()).all())


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


def touched(state: Sequence[torch.Tensor], rng: torch.Generator) -> list[torch.Tensor]:
    """As `perturbed`, but only one element in `TOUCHED_OF` of each tensor (at least one) is another."""
    moved = perturbed(state, rng)
    found = []
    for tensor, fresh in zip(state, moved, strict=True):
        chosen = torch.zeros(tensor.numel(), dtype=torch.bool, device=tensor.device)
        if tensor.numel():
            count = max(1, tensor.numel() // TOUCHED_OF)
            chosen[torch.randperm(tensor.numel(), generator=rng, device=rng.device)[:count]] = True
        found.append(torch.where(chosen.view(tensor.shape), fresh, tensor))
    return found


def _is_fixed(tensor: torch.Tensor) -> bool:
    """A mask with both of its values; all zeros or all ones are a bias or a scale at its start."""
    return is_mask(tensor) and tensor.numel() > 1 and not bool((tensor == tensor.reshape(-1)[0]).all())


def stored(leaf: torch.Tensor) -> torch.Tensor:
    """The part of an expanded tensor that is stored."""
    return leaf[
        tuple(
            slice(0, 1) if step == 0 and size > 1 else slice(None)
            for size, step in zip(leaf.shape, leaf.stride(), strict=True)
        )
    ]
