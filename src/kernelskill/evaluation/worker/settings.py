"""Global settings of torch that a candidate might turn; what turned is shown, and decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SMALLEST = 5e-324


def snapshot() -> dict[str, str]:
    """Every watched setting, as text."""
    return {
        "num_threads": str(torch.get_num_threads()),
        "default_dtype": str(torch.get_default_dtype()),
        "grad_mode": str(torch.is_grad_enabled()),
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "float32_matmul_precision": _matmul_precision(),
        "mkldnn": str(torch.backends.mkldnn.enabled),
        "flush_denormal": str(float(torch.tensor(SMALLEST, dtype=torch.float64) * 1.0) == 0.0),
    }


def _matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set through another interface, which newer releases refuse to translate
        return "set per backend"


def changes(before: dict[str, str]) -> list[str]:
    """What is different now, one line each ("default_dtype: torch.float32 -> torch.float64")."""
    now = snapshot()
    return [f"{name}: {before[name]} -> {now[name]}" for name in before if before[name] != now[name]]


def prefer(precision: str, device: str) -> None:
    """Set what a tier allows on a GPU; "match" (and "") leaves PyTorch's own defaults.

    Args:
        precision: value of `records.Precision`.
        device: "cpu" changes nothing.
    """
    if device == "cpu" or precision in ("", "match"):
        return
    allowed = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def folding(model: Callable[..., Any]) -> Callable[..., Any]:
    """A model under torch.compile, which in its first call takes parameters for constants and knows those for ever."""
    import torch._inductor.config as inductor

    # As an option it keeps the compiler from taking what it has made for an arm whose weights are free; while tracing,
    # the setting itself is asked.
    compiled = torch.compile(model, options={"freezing": True})
    known: list[bool] = []

    def run(*args: Any, **kwargs: Any) -> Any:
        if known:
            return compiled(*args, **kwargs)
        with inductor.patch(freezing=True):
            result = compiled(*args, **kwargs)
        known.append(True)
        return result

    return run


def thread_count() -> int:
    """Threads of this process."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())
