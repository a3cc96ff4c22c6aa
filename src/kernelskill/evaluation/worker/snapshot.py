"""Everything that a forward pass may leave behind in a module, kept and put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .pieces import pieces

Attributes = dict[str, dict[str, Any]]
"""Per submodule (dotted name), its plain attributes: neither parameters nor buffers nor submodules."""
_BOOKKEEPING = frozenset(vars(torch.nn.Module()))


@dataclass(frozen=True)
class Snapshot:
    """A module at one moment: tensors by value, other attributes by identity."""

    tensors: dict[str, torch.Tensor]
    """Parameters and buffers by qualified name, tied ones under each name."""
    loose: dict[str, torch.Tensor]
    """Tensors kept as plain attributes, by dotted name; no state dict knows them."""
    attributes: Attributes

    @classmethod
    def of(cls, model: torch.nn.Module) -> Snapshot:
        """Copy what is there now."""
        attributes = attributes_of(model)
        loose = {name: value.detach().clone() for name, value in loose_tensors(attributes).items()}
        return cls({name: tensor.detach().clone() for name, tensor in _named(model)}, loose, attributes)

    def restore_state(self, model: torch.nn.Module) -> None:
        """Put parameters and buffers back, as the judge does; nothing else."""
        with torch.no_grad():
            for name, tensor in _named(model):
                if name in self.tensors and not same_bytes(tensor, self.tensors[name]):
                    tensor.copy_(self.tensors[name])

    def restore(self, model: torch.nn.Module) -> None:
        """Put everything back; attributes that appeared since are removed."""
        self.restore_state(model)
        put_back(model, self.attributes)
        with torch.no_grad():
            for name, value in loose_tensors(self.attributes).items():
                if not same_bytes(value, self.loose[name]):
                    value.detach().copy_(self.loose[name])

    def changed(self, model: torch.nn.Module) -> tuple[list[str], list[str]]:
        """Names whose values differ now: parameters and buffers; tensors kept as plain attributes."""
        now = loose_tensors(attributes_of(model))
        return (
            [name for name, tensor in _named(model) if not _kept(self.tensors, name, tensor)],
            [name for name, tensor in now.items() if not _kept(self.loose, name, tensor)],
        )


def attributes_of(model: torch.nn.Module) -> Attributes:
    """Plain attributes of all submodules, as they are."""
    return {
        prefix: {name: value for name, value in vars(module).items() if name not in _BOOKKEEPING}
        for prefix, module in model.named_modules()
    }


def put_back(model: torch.nn.Module, attributes: Attributes) -> None:
    """Make every plain attribute again what it was."""
    now = attributes_of(model)
    for prefix, module in model.named_modules():
        before = attributes.get(prefix, {})
        for name in set(now[prefix]) - set(before):
            del vars(module)[name]
        vars(module).update(before)


def loose_tensors(attributes: Attributes) -> dict[str, torch.Tensor]:
    """Tensors among plain attributes, by dotted name."""
    return {
        f"{prefix}.{name}".lstrip("."): value
        for prefix, values in attributes.items()
        for name, value in values.items()
        if isinstance(value, torch.Tensor)
    }


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same elements, NaN being equal to NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return all(_same_piece(mine, others) for mine, others in pieces(left, right))


def _same_piece(left: torch.Tensor, right: torch.Tensor) -> bool:
    if torch.equal(left, right):
        return True
    if not (left.is_floating_point() or left.is_complex()):
        return False
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _kept(before: dict[str, torch.Tensor], name: str, tensor: torch.Tensor) -> bool:
    return name in before and same_bytes(tensor, before[name])


def _named(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    found = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return [(name, tensor) for name, tensor in found if not torch.nn.parameter.is_lazy(tensor)]
