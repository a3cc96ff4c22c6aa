"""Commands that have to do with the worker itself."""

from __future__ import annotations

from typing import Any

from .session import Session


def handle_ping(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Say that the worker is up."""
    return {"role": session.role}


def handle_slot(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Map a slot; its descriptor came with the message."""
    session.slots.add(
        message["slot"], message["kind"], message["fds"][0], message["nbytes"], writable=message["writable"]
    )
    return {}


def handle_drop(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Forget a slot."""
    session.slots.drop(message["slot"])
    return {}
