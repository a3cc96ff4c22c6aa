"""Everything that a forward pass may leave behind in a module, kept and put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Snapshot:
    """State of a module at one moment: parameters and buffers by value, plain attributes by value or identity."""

    tensors: dict[str, torch.Tensor]
    """Parameters and buffers by qualified name, tied ones under each name."""
    loose: dict[str, torch.Tensor]
    """Tensors kept as plain attributes, by dotted name; no state dict knows them."""
    plain: dict[str, dict[str, Any]]
    """Other plain attributes of every submodule (counters, caches)."""

    @classmethod
    def of(cls, model: torch.nn.Module) -> Snapshot:
        """Copy what is there now."""
        loose, plain = {}, {}
        for prefix, module in model.named_modules():
            plain[prefix] = _attributes(module)
            for name, value in plain[prefix].items():
                if isinstance(value, torch.Tensor):
                    loose[f"{prefix}.{name}".lstrip(".")] = value.detach().clone()
        return cls({name: tensor.detach().clone() for name, tensor in _named(model)}, loose, plain)

    def restore(self, model: torch.nn.Module) -> None:
        """Put everything back; attributes that appeared since are removed."""
        with torch.no_grad():
            for name, tensor in _named(model):
                if name in self.tensors and not same_bytes(tensor, self.tensors[name]):
                    tensor.copy_(self.tensors[name])
            for prefix, module in model.named_modules():
                before = self.plain.get(prefix, {})
                for name in set(_attributes(module)) - set(before):
                    del module.__dict__[name]
                module.__dict__.update(before)
                for name, value in before.items():
                    if isinstance(value, torch.Tensor):
                        value.detach().copy_(self.loose[f"{prefix}.{name}".lstrip(".")])

    def changed(self, model: torch.nn.Module) -> tuple[list[str], list[str]]:
        """Names whose values differ now: parameters and buffers, and plain tensor attributes."""
        named = [
            name
            for name, tensor in _named(model)
            if name not in self.tensors or not same_bytes(tensor, self.tensors[name])
        ]
        now = Snapshot.of(model).loose
        loose = [
            name for name in now if name not in self.loose or not same_bytes(now[name], self.loose[name])
        ]
        return named, loose


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same elements, NaN being equal to NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not (left.is_floating_point() or left.is_complex()):
        return torch.equal(left, right)
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _named(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    found = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return [(name, tensor) for name, tensor in found if not torch.nn.parameter.is_lazy(tensor)]


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    """Attributes of a module's own, without torch's bookkeeping."""
    return {name: value for name, value in vars(module).items() if name not in _BOOKKEEPING}


_BOOKKEEPING = frozenset(vars(torch.nn.Module())) - {"training"}
