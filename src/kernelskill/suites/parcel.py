"""A task's folder as bytes, so that a machine without the suite run's disk can work on it and send it back."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def packed(folder: Path) -> bytes:
    """All files of a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        archive.add(folder, arcname=".", filter=_plain)
    return buffer.getvalue()


def unpack(parcel: bytes, folder: Path) -> None:
    """Lay the files into a folder, over those of the same name; nothing leaves the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(parcel), mode="r:gz") as archive:
        archive.extractall(folder, filter="data")


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and folders only; owners of this machine mean nothing on another."""
    if not (entry.isfile() or entry.isdir()):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
