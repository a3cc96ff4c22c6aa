"""Commands that have to do with the worker itself."""

from __future__ import annotations

from typing import Any

from .session import Session


def handle_ping(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Say that the worker is up."""
    return {"role": session.role}


def handle_slot(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Map a slot; its descriptor (or handle) came with the message."""
    session.slots.add(
        message["slot"],
        message["kind"],
        message["fds"][0] if message["fds"] else -1,
        message["nbytes"],
        writable=message["writable"],
        handle=message.get("handle", ""),
    )
    return {}


def handle_touch(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Add 1 to every byte of a slot, so that the judge sees whether both mean the same memory."""
    slot = session.slots[message["slot"]]
    slot.pull()
    slot.tensor({"shape": [slot.nbytes], "stride": [1], "dtype": "uint8"}, 0).add_(1)
    slot.push()
    session.settle()
    return {}


def handle_trim(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Give device memory that is only kept for later back."""
    session.trim()
    return {}


def handle_drop(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Forget a slot."""
    session.slots.drop(message["slot"])
    return {}
