"""Exceptions of untrusted code, told shortly."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

from .session import Session

LONGEST = 4000
"""Characters of a detail; the middle is cut."""
OWN_FOLDER = str(Path(__file__).parent)
MEMORY = re.compile(
    r"bad_alloc|out of memory|can't allocate memory|cannot allocate memory|DefaultCPUAllocator", re.I
)
HINTS: dict[str, str] = {
    "out-of-memory": "allocate less: reuse buffers, or work in blocks",
    "build-error": "read the compiler's or interpreter's message; the source must import on its own",
}


def describe(error: BaseException, session: Session, *, status: str = "runtime-error") -> dict[str, Any]:
    """The error as the reply carries it: {status, detail, hint}.

    Args:
        error: whatever was raised.
        session: tells which files are the candidate's.
        status: what it is unless it is a lack of memory.
    """
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | OSError) and MEMORY.search(str(error))
    ):
        status = "out-of-memory"
    return {"status": status, "detail": text_of(error, session), "hint": hint_of(error, status)}


def text_of(error: BaseException, session: Session) -> str:
    """Message and the frames that the reader can do something about."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _shown(frame.filename, session)]
    head = "".join(traceback.format_exception_only(error)).strip()
    lines = traceback.format_list(frames[-6:])
    text = head if not lines else f"{head}\n{''.join(lines).rstrip()}"
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n[...]\n{text[-LONGEST // 2 :]}"
    return text


def hint_of(error: BaseException, status: str) -> str:
    """What usually causes such an error."""
    if isinstance(error, NameError) and error.name:
        return f"the name {error.name!r} is not defined in the source; import or define it"
    if isinstance(error, ModuleNotFoundError):
        return (
            "workers see the standard library, torch and what is installed beside it; nothing of your folder"
        )
    if isinstance(error, SystemExit):
        return "the source must not end the process"
    return HINTS.get(status, "")


def _shown(filename: str, session: Session) -> bool:
    if session.candidate_files:
        return filename in session.candidate_files
    return not filename.startswith((OWN_FOLDER, "<frozen"))
