"""Whether a task fits into memory, known before any of it is allocated.

Both figures are lower bounds, so that no task is refused that would fit: the sets of inputs that are held at once, and
the tensors around the most demanding operator.
"""

from __future__ import annotations

import resource
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .inputs import encoded, evaluated, no_other_seed, seed_all
from .protocol import Failure
from .session import Session
from .slots import storage_elements
from .snapshot import attributes_of, put_back
from .tree import arguments

SETS = 6
"""Sets of inputs that the audit, and later the judge, hold at once."""


def refuse_too_big(session: Session, model: torch.nn.Module) -> None:
    """Estimate one call of the reference.

    Raises:
        Failure: out-of-memory, one line: what it needs at least, and what is free.
    """
    free = free_bytes() if session.device == "cpu" else torch.cuda.mem_get_info()[0]
    leaves, tree = _shapes(session)
    if leaves is None:
        return
    needed = SETS * sum(_nbytes(leaf) for leaf in leaves)
    if needed < free:
        needed = max(needed, _largest_step(model, leaves, tree, session.device))
    if needed > free:
        line = f"too big: judging needs at least {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
        raise Failure("out-of-memory", f"{line}; use smaller inputs")


def free_bytes() -> int:
    """Memory that this process may still take."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    known = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123  plain stdlib
            known += [1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable:")]
    except OSError:
        pass
    return min(known, default=1 << 62)


def _shapes(session: Session) -> tuple[list[torch.Tensor] | None, Any]:
    """The task's inputs without their memory; None where its code does not work that way."""
    reference = session.extra["reference"]
    if reference["laws"]:
        leaves = [
            torch.empty_strided(
                law["spec"]["shape"],
                law["spec"]["stride"],
                dtype=getattr(torch, law["spec"]["dtype"]),
                device="meta",
            )
            for law in reference["laws"]
        ]
        return leaves, reference["inputs_tree"]
    try:
        seed_all(0)
        with torch.device("meta"), no_other_seed():
            value = evaluated(session)
        return encoded(value, session.model, device="meta")
    except Exception:  # noqa: BLE001  the task's code may read values, which are not there
        return None, None


class _Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the bytes of the operator that touches most."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nbytes: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        storages = {
            leaf.untyped_storage()._cdata: _nbytes(leaf)
            for leaf in tree_leaves((args, kwargs, result))
            if isinstance(leaf, torch.Tensor)
        }
        self.nbytes = max(self.nbytes, sum(storages.values()))
        return result


def _largest_step(model: torch.nn.Module, leaves: list[torch.Tensor], tree: Any, device: str) -> int:
    """Bytes that the inputs and the results of the most demanding operator span; 0 if it cannot be told."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = attributes_of(model)
    try:
        with torch.no_grad(), FakeTensorMode() as fake:
            state: dict[str, torch.Tensor] = {
                name: fake.from_tensor(tensor.detach())
                for name, tensor in (*model.named_parameters(), *model.named_buffers())
            }
            real = [
                torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=device)
                for leaf in leaves
            ]
            args, kwargs = arguments(tree, real)
            with _Largest() as largest:
                torch.func.functional_call(model, state, tuple(args), kwargs)
            nbytes: int = largest.nbytes
            return nbytes
    except Exception:  # noqa: BLE001  what depends on values cannot run without them
        return 0
    finally:
        put_back(model, before)


def _nbytes(tensor: torch.Tensor) -> int:
    return storage_elements(list(tensor.shape), list(tensor.stride())) * tensor.element_size()
