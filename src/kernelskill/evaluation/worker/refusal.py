"""Why a reference cannot be used here, in one line."""

from __future__ import annotations

import traceback

from .failures import describe
from .protocol import Failure
from .session import Session

NEEDS_CUDA = "the task needs cuda; this is the cpu target"


def refused(error: BaseException, session: Session, doing: str) -> Failure:
    """What the reference raised, as a failure whose first line says all.

    Args:
        error: anything.
        session: of this worker.
        doing: what it was asked for ("loading the reference").
    """
    if isinstance(error, Failure):
        return error
    if session.device == "cpu" and needs_cuda(error):
        return Failure(
            "runtime-error", NEEDS_CUDA, "remove .cuda() and device='cuda', or use the file's CPU form"
        )
    if isinstance(error, ModuleNotFoundError) and error.name:
        root = error.name.split(".", 1)[0]
        return Failure("build-error", f"missing dependency {root} (pip install {root})")
    told = describe(error, session)
    first = str(error).strip().splitlines()
    line = f"{doing}: {type(error).__name__}" + (f": {first[0]}" if first else "")
    if told["status"] == "out-of-memory":
        line = f"{doing}: not enough memory; use smaller inputs"
    return Failure(told["status"], f"{line}\n{told['detail']}", told["hint"])


def needs_cuda(error: BaseException) -> bool:
    """Whether the error comes from asking for a GPU; an assert without words is judged by its line."""
    text = str(error).lower()
    if "cuda" in text or "nvidia" in text:
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, AssertionError) and bool(frames) and "cuda" in (frames[-1].line or "").lower()
