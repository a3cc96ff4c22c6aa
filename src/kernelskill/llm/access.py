"""Access to models: budget first, record before and after, one paid call for each place in the run.

1. A reply that is on disk for this place is given again: a resumed run pays nothing twice.
2. Under replay the reply comes from the run that is replayed (of the same place, else the role's next one), and nothing
   is asked or paid.
3. Else the call's worst price is held, its record written, the model asked (with bounded retries), and the actual
   price settled. A call without a reply counts at its worst where the server may have charged for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kernelskill.errors import ConfigError, ModelError
from kernelskill.llm.calls import CallFolder
from kernelskill.llm.ledger import Ledger, spent_on, worst_usage
from kernelskill.llm.model import Ask, Model
from kernelskill.llm.prices import Price
from kernelskill.llm.retry import Unanswered, answered
from kernelskill.llm.secrets import blotted
from kernelskill.records.model import Message, ModelCall, ModelSettings, Reply, Role, Spent, Usage

Reached = Callable[[Model, Sequence[Message], Ask], Reply]
PAID_TRIES = 2
"""Times that one model is asked when it falls silent; each is set aside, and charged, as a call of its own."""
CHARS_A_TOKEN = 3.5
"""Of code and English, about; prices that are held to a limit count every byte as a token."""
USUAL_SHARE = 0.25
"""Of the cap, that a reply takes before there was one."""


@dataclass(frozen=True)
class Priced:
    """A model and its price."""

    model: Model
    price: Price | None


class ModelAccess:
    """Implements `protocols.LanguageModel`; safe to use from several threads.

    Args:
        models: by role, in the order in which they are asked; a later one only when an earlier one is unreachable.
        settings: limits, time-outs, temperature.
        calls: the run's record.
        replay: record of the run whose replies are used instead of models.
        reach: asks one model, with retries.
    """

    def __init__(
        self,
        models: Mapping[Role, Sequence[Priced]],
        settings: ModelSettings,
        calls: CallFolder,
        replay: CallFolder | None = None,
        reach: Reached = answered,
    ) -> None:
        self._models = models
        self._settings = settings
        self._calls = calls
        self._replay = replay
        self._reach = reach
        self._replaying = threading.Lock()
        self._ledger = Ledger(settings.limits, calls.spent())
        priced = settings.limits.usd is not None or settings.percent_usd is not None
        if priced and replay is None:
            _refuse_unpriced(models)

    def reply(self, role: Role, key: str, messages: Sequence[Message], max_tokens: int) -> Reply:
        """The reply at one place of the run.

        Raises:
            BudgetError: asking could pass a limit.
            ModelError: no model could be reached, or the replayed run has no reply left.
        """
        known = self._calls.find(key)
        if known is not None and known.reply is not None:
            return known.reply
        if self._replay is not None:
            return self._replayed(role, key, messages, max_tokens)
        lost = known.spent + known.lost if known is not None else Spent()
        failures: list[str] = []
        for priced in self._models[role]:
            for _ in range(PAID_TRIES):
                draft = ModelCall(
                    key=key, role=role, model=priced.model.name, at=_now(), messages=tuple(messages),
                    max_tokens=max_tokens, lost=lost, priced=priced.price is not None,
                    price_source=priced.price.source if priced.price else "",
                )  # fmt: skip
                try:
                    return self._paid(draft, priced, tuple(failures))
                except Unanswered as error:
                    failures.append(blotted(str(error)))
                    written = self._calls.find(key)
                    lost = written.spent + written.lost if written else lost
                    if not error.may_be_billed:
                        break
        raise ModelError("; then ".join(failures))

    def author(self, role: Role) -> str:
        """Name of the model that plays a role."""
        return self._models[role][0].model.name

    def expected_usd(self, role: Role, prompt_chars: int, max_tokens: int) -> float | None:
        """About what a call would cost, its reply as long as the role's replies so far; None without a price."""
        price = self._models[role][0].price
        if price is None:
            return None
        replies = [call.reply for call in self._calls.all() if call.role == role and call.reply is not None]
        told = [reply.usage.output_tokens for reply in replies if reply.usage is not None]
        usual = sum(told) / len(told) if told else max_tokens * USUAL_SHARE
        return price.usd(Usage(input_tokens=int(prompt_chars / CHARS_A_TOKEN), output_tokens=int(usual)))

    def _paid(self, draft: ModelCall, priced: Priced, failures: tuple[str, ...]) -> Reply:
        """Ask one model under the budget and leave its record."""
        usage = worst_usage(draft.messages, draft.max_tokens)
        held = self._ledger.hold(spent_on(usage, priced.price, self._settings.timeout_s))
        self._calls.keep(draft.model_copy(update={"spent": held}))
        ask = Ask(draft.max_tokens, held.seconds, self._settings.temperature)
        try:
            reply = self._reach(priced.model, draft.messages, ask)
        except Unanswered as error:
            seconds = (datetime.now(UTC) - datetime.fromisoformat(draft.at)).total_seconds()
            billed = error.may_be_billed
            spent = spent_on(usage, priced.price, seconds) if billed else Spent(seconds=seconds)
            self._ledger.settle(held, spent)
            self._calls.keep(draft.model_copy(update={"spent": spent}))
            raise
        spent = spent_on(reply.usage or usage, priced.price, reply.seconds)
        self._ledger.settle(held, spent)
        notes = tuple(blotted(note) for note in (*failures, *reply.notes))
        reply = reply.model_copy(update={"text": blotted(reply.text), "notes": notes})
        self._calls.keep(draft.model_copy(update={"reply": reply, "spent": spent}))
        return reply

    def _replayed(self, role: Role, key: str, messages: Sequence[Message], max_tokens: int) -> Reply:
        """The reply of the same place, or the role's next one: times differ, and with them the course of a run."""
        assert self._replay is not None
        with self._replaying:
            given = {call.replayed_from for call in self._calls.all()}
            left = [call for call in self._replay.all() if call.reply is not None and call.key not in given]
            same = [call for call in left if call.key == key]
            found = next(iter(same or [call for call in left if call.role == role]), None)
            if found is None or found.reply is None:
                raise ModelError(f"the replayed run has no reply of the {role} left for {key}")
            call = found.model_copy(
                update={
                    "key": key, "role": role, "at": _now(), "messages": tuple(messages), "max_tokens": max_tokens,
                    "spent": Spent(), "lost": Spent(), "replayed": True, "replayed_from": found.key,
                }
            )  # fmt: skip
            self._calls.keep(call)
        return found.reply


def _refuse_unpriced(models: Mapping[Role, Sequence[Priced]]) -> None:
    unpriced = {item.model.name for chain in models.values() for item in chain if item.price is None}
    if unpriced:
        raise ConfigError(
            f"no price is known of {', '.join(sorted(unpriced))}, so a limit in dollars cannot be held, nor can "
            "a gain be set against a cost: give one in a price file, or limit calls or tokens instead"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
