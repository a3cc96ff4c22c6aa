"""What was looked at on a machine."""

from __future__ import annotations

from kernelskill.records.base import Record


class Check(Record):
    """One thing looked at."""

    name: str
    ok: bool
    needed: bool
    """Whether nothing works without it."""
    found: str
    remedy: str = ""
