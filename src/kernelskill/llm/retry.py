"""Asking until there is an answer: bounded in number and time, as patient as the server asks for, never longer.

A request that may have been charged is never repeated here: whoever pays has to set its price aside again first.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from kernelskill.errors import ModelError
from kernelskill.llm.model import Ask, Model, SettingRefused, Transient
from kernelskill.records.model import Message, Reply

REQUESTS = 6
"""Requests for one reply at most."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
"""Longest wait that we choose; a server may ask for a longer one, within the deadline."""


class Unanswered(ModelError):
    """No reply; where the last request fell silent, it may have been charged for all the same."""

    def __init__(self, message: str, may_be_billed: bool = False) -> None:
        super().__init__(message)
        self.may_be_billed = may_be_billed


def answered(
    model: Model, messages: Sequence[Message], ask: Ask, sleep: Callable[[float], None] = time.sleep
) -> Reply:
    """A reply within `ask.timeout_s`.

    Raises:
        Unanswered: none came, or asking again cannot help.
    """
    began = time.monotonic()
    notes: list[str] = []
    for request in range(REQUESTS):
        left = ask.timeout_s - (time.monotonic() - began)
        try:
            reply = model.complete(messages, replace(ask, timeout_s=max(left, 0.01)))
        except SettingRefused as error:
            if ask.temperature is None:
                raise Unanswered(str(error)) from error
            ask = replace(ask, temperature=None)
            notes.append("temperature left out: refused")
            continue
        except Transient as error:
            notes.append(str(error))
            if error.may_be_billed:
                raise Unanswered("; then ".join(notes), may_be_billed=True) from error
            wait = error.retry_after_s if error.retry_after_s is not None else _backoff(request)
            left = ask.timeout_s - (time.monotonic() - began)
            if request + 1 == REQUESTS or wait >= left:
                raise Unanswered(_given_up(notes, wait, left)) from error
            sleep(wait)
            continue
        except ModelError as error:
            raise Unanswered("; then ".join([*notes, str(error)])) from error
        seconds = time.monotonic() - began
        return reply.model_copy(update={"seconds": seconds, "notes": (*reply.notes, *notes)})
    raise Unanswered("; then ".join(notes))


def _backoff(request: int) -> float:
    """Doubling, with a quarter of chance so that parallel calls don't return together."""
    wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**request)
    return wait * random.uniform(0.75, 1.0)


def _given_up(notes: list[str], wait: float, left: float) -> str:
    asked = f"{len(notes)} request{'s' if len(notes) > 1 else ''}"
    why = (
        f"the next wait of {wait:.0f} s would pass the deadline in {max(left, 0):.0f} s"
        if wait >= left
        else ""
    )
    return f"no reply in {asked}: {'; then '.join(notes)}{f'; {why}' if why else ''}"
