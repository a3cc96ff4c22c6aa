"""Temporary folders that name their process, so that what a killed one left behind can be told and removed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

_NAME = re.compile(r"kernelskill-[a-z]+-(\d+)-\w+")


def prefix(purpose: str) -> str:
    """Beginning of a temporary folder's name, for `tempfile`.

    Args:
        purpose: a word of small letters.
    """
    return f"kernelskill-{purpose}-{os.getpid()}-"


def sweep() -> None:
    """Remove the folders of processes that are gone."""
    for path in Path(tempfile.gettempdir()).glob("kernelskill-*"):
        found = _NAME.fullmatch(path.name)
        if not found or Path(f"/proc/{found[1]}").exists():
            continue
        with contextlib.suppress(FileNotFoundError):  # another process sweeps as well
            # Root gives each worker's folder to a user of its own.
            if os.getuid() in (0, path.lstat().st_uid):
                shutil.rmtree(path, ignore_errors=True)
