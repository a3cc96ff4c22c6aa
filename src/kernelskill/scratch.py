"""Temporary folders that name their process, so that what a killed one left behind can be told and removed."""

from __future__ import annotations

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
        if found and not Path(f"/proc/{found[1]}").exists() and path.lstat().st_uid == os.getuid():
            shutil.rmtree(path, ignore_errors=True)
