"""One call between the marks that a counting profiler waits for, in a worker that nobody judges."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from .failures import describe
from .inputs import draw
from .protocol import Failure
from .session import Session
from .tree import arguments

WARM_UP = 2
"""Calls before the one that is counted, in which kernels are built and libraries choose theirs."""


def handle_count(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Call the candidate on inputs that the reference, which was loaded before it, draws here.

    Message: `seed`. Reply: {}.

    Raises:
        Failure: the inputs cannot be drawn, or forward raised.
    """
    leaves, tree = draw(session, int(message["seed"]))
    args, kwargs = arguments(tree, leaves)
    call = session.callable()
    marked = torch.cuda.profiler.profile() if session.device == "cuda" else contextlib.nullcontext()
    try:
        with torch.no_grad():
            for _ in range(WARM_UP):
                call(*args, **kwargs)
            session.settle()
            with marked:
                call(*args, **kwargs)
                session.settle()
    except BaseException as error:  # noqa: BLE001  untrusted code may raise anything, SystemExit included
        told = describe(error, session)
        raise Failure(told["status"], told["detail"], told["hint"]) from None
    return {}
