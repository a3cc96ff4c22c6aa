"""Calls with the candidate's own kernels silenced: what they are worth shows in what is missing then.

The worker is of no use afterwards; nothing is judged in it any more.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import torch

from . import launches
from .failures import describe
from .native import own_code, silence
from .protocol import Failure
from .runner import make_store
from .session import Session

REPEATS = 5


def handle_knocked(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    """Silence every kernel of the candidate's own, call forward on bound calls and store what comes out.

    Own kernels are the exported functions of files with machine code that it built, and what `launches.py` names.

    Message: `order`. Reply: `times_us` (the least of a few repeats, for each call), `flags` ("silenced" if there was
    anything to silence).

    Raises:
        Failure: forward raised without them.
    """
    silenced, launched = silence(own_code(session.scratch)), launches.silence()
    call, store = session.callable(), make_store(session.outputs_tree, session.outputs_spec, session.device)
    times = []
    try:
        with torch.no_grad():
            for index in message["order"]:
                item = session.bound[index]
                spent = []
                for _ in range(REPEATS):
                    began = perf_counter()
                    result = call(*item.args, **item.kwargs)
                    session.settle()
                    spent.append(perf_counter() - began)
                store(result, item.outputs)
                times.append(1e6 * min(spent))
        session.settle()
        session.slots.push(session.bound_slots)
    except Failure:
        raise
    except BaseException as error:  # noqa: BLE001  untrusted code may raise anything, SystemExit included
        told = describe(error, session)
        raise Failure(told["status"], told["detail"], told["hint"]) from None
    return {"times_us": times, "flags": ["silenced"] if silenced or launched else []}
