"""What a run may still spend. Each call holds its worst price before it is made, so no limit is ever passed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kernelskill.errors import BudgetError
from kernelskill.llm.prices import Price
from kernelskill.records.model import Limits, Message, Spent, Usage

FRAME_TOKENS = 32
"""More than any chat format spends on the frame of one message."""
SHORTEST_CALL_S = 1.0
"""A call is not begun with less time than this left."""


class Ledger:
    """Accounts of one run; every change is made under one lock."""

    def __init__(self, limits: Limits, spent: Spent | None = None) -> None:
        self._limits = limits
        self._spent = spent or Spent()
        self._held = Spent()
        self._lock = threading.Lock()

    @property
    def spent(self) -> Spent:
        """Settled so far; calls on their way are not in it."""
        return self._spent

    def hold(self, worst: Spent) -> Spent:
        """Set the worst price of a call aside; its seconds are cut to what is left.

        Raises:
            BudgetError: it could pass a limit; nothing is set aside.
        """
        limits = self._limits
        with self._lock:
            used = self._spent + self._held
            for what, limit, had, wanted in (
                ("dollars", limits.usd, used.usd, worst.usd),
                ("tokens", limits.tokens, used.tokens, worst.tokens),
                ("calls", limits.calls, used.calls, worst.calls),
            ):
                if limit is not None and had + wanted > limit:
                    raise BudgetError(
                        f"the next call could take {wanted:.6g} {what}; {had:.6g} of {limit:.6g} are spent or held"
                    )
            if limits.seconds is not None:
                left = limits.seconds - used.seconds
                if left < SHORTEST_CALL_S:
                    raise BudgetError(f"{used.seconds:.0f} s of {limits.seconds:.0f} s for models are used")
                worst = worst.model_copy(update={"seconds": min(worst.seconds, left)})
            self._held += worst
        return worst

    def settle(self, held: Spent, actual: Spent) -> None:
        """Replace what was set aside by what was spent; more than was held cannot be, and is charged all the same."""
        with self._lock:
            self._held += Spent(usd=-held.usd, tokens=-held.tokens, calls=-held.calls, seconds=-held.seconds)
            self._spent += actual


def worst_usage(messages: Sequence[Message], max_tokens: int) -> Usage:
    """The most tokens that a call can take: a token is at least a byte of the prompt."""
    sent = sum(len(message.text.encode()) + FRAME_TOKENS for message in messages)
    return Usage(input_tokens=sent, output_tokens=max_tokens)


def spent_on(usage: Usage, price: Price | None, seconds: float) -> Spent:
    """What a call of that size costs; no dollars where the price is not known."""
    return Spent(
        usd=0.0 if price is None else price.usd(usage),
        tokens=usage.input_tokens + usage.output_tokens,
        calls=1,
        seconds=seconds,
    )
