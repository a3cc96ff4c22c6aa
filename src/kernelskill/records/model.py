"""What is said to a language model and what comes back, what it costs, and the part of a plan that is its words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field

from kernelskill.records.base import Record

Role = Literal["generator", "feature-reader", "planner", "optimizer", "diagnoser", "repairer", "task-writer"]


class Message(Record):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


class Usage(Record):
    """Tokens of one call, as the server counted them."""

    input_tokens: int
    output_tokens: int
    """Reasoning included."""
    cached_tokens: int = 0
    """Part of the input that was read from the server's cache."""
    reasoning_tokens: int = 0


class Finish(StrEnum):
    """Why a reply ended. All but STOP say something about the call, nothing about a kernel."""

    STOP = "stop"
    LENGTH = "length"
    """Cut off at the cap on output tokens."""
    REASONING = "reasoning"
    """The model thought, and answered nothing."""
    EMPTY = "empty"
    FILTERED = "filtered"
    """The provider withheld the answer."""


class Reply(Record):
    """One answer of a model."""

    text: str
    finish: Finish
    model: str
    """As the server names itself; the name asked for, where it does not."""
    usage: Usage | None = None
    """None where the server did not count."""
    seconds: float = 0.0
    """Wall seconds, waiting for retries included."""
    notes: tuple[str, ...] = ()
    """What went wrong on the way: refused settings, errors that were tried again, a fallback model."""


class Spent(Record):
    """What was used up, or is held for a call that is on its way."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            usd=self.usd + other.usd,
            tokens=self.tokens + other.tokens,
            calls=self.calls + other.calls,
            seconds=self.seconds + other.seconds,
        )


class ModelCall(Record):
    """One call: a file in the run's folder `llm/`, written before it is made and again when its reply is there."""

    key: str
    """Place in the run, e.g. "optimizer.c004.2": role, what it is about, which try. No place is paid twice."""
    role: Role
    model: str
    """The model asked for."""
    at: str
    messages: tuple[Message, ...]
    max_tokens: int
    reply: Reply | None = None
    """None: still on its way when the record was written."""
    spent: Spent = Spent()
    """What it cost; without a reply, the worst that it can cost."""
    priced: bool = True
    """False where no price of the model is known; dollars are 0 then."""
    price_source: str = ""
    replayed: bool = False
    """The reply was read from an earlier run."""
    replayed_from: str = ""
    """Its place there; another one where this run took another course."""
    lost: Spent = Spent()
    """Worst cost of earlier calls at this place whose reply never arrived."""

    @property
    def prompt_chars(self) -> int:
        """Size of all that was sent."""
        return sum(len(message.text) for message in self.messages)

    def summary(self) -> CallSummary:
        """The call without its texts."""
        reply = self.reply
        return CallSummary(
            key=self.key,
            role=self.role,
            model=self.model,
            usage=reply.usage if reply else None,
            spent=self.spent + self.lost,
            prompt_chars=self.prompt_chars,
            finish=reply.finish if reply else None,
            priced=self.priced,
            price_source=self.price_source,
            replayed=self.replayed,
            notes=reply.notes if reply else ("no reply",),
        )


class CallSummary(Record):
    """One call without its texts, for the report."""

    key: str
    role: Role
    model: str
    usage: Usage | None
    spent: Spent
    prompt_chars: int
    finish: Finish | None
    """None: no reply came."""
    priced: bool
    price_source: str
    replayed: bool
    notes: tuple[str, ...]


class Limits(Record):
    """What a run may spend on models. None means no limit."""

    usd: float | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    """Input and output together."""
    calls: int | None = Field(default=200, ge=0)
    seconds: float | None = Field(default=None, ge=0)
    """Wall seconds of all calls, added up."""


class ModelSettings(Record):
    """How models are reached and asked."""

    model: str = ""
    """PROVIDER:NAME, e.g. "anthropic:NAME", "openai-compatible:http://localhost:8000/v1#NAME", "command:PROGRAM"."""
    roles: dict[Role, str] = {}
    """Another model for one role."""
    fallback: tuple[str, ...] = ()
    """Models to ask, in order, when one cannot be reached; none unless asked for."""
    temperature: float | None = None
    """None leaves it to the model."""
    max_output_tokens: int = Field(default=16_384, ge=16)
    """First cap on a reply; one that is cut off is asked again with twice as much, twice at most."""
    timeout_s: float = Field(default=600.0, gt=0)
    """For one reply, retries included."""
    tries: int = Field(default=3, ge=1, le=10)
    """Replies in which a role must give a usable answer."""
    prompt_chars: int = Field(default=60_000, ge=4_000)
    """Largest prompt; what matters least is left out first, and that is said in it."""
    limits: Limits = Limits()
    percent_usd: float | None = Field(default=None, ge=0)
    """What one percent less time is worth, dollars: no round is begun that is expected to gain less than it costs."""
    prices: Path | None = None
    """TOML file of prices that go before the table's."""
    replay: Path | None = None
    """Run folder whose recorded replies are used instead of a model."""
    hints: str = ""
    """Design hints of a person."""


class Expectation(Record):
    """A change of one fact that a plan predicts."""

    fact: str
    direction: Literal["up", "down", "same"]
    subject: str = ""
    """Kernel or operator; "" = the whole program."""
    before: float | None = None
    """Value on the base, where it was known."""


class Intent(Record):
    """What a model means to do: the part of a plan that is words, not edits of a program."""

    author: str
    """Model that wrote it."""
    bottleneck: str = ""
    refuted: str = ""
    """A bottleneck that it looked at and excluded, with the fact that excludes it."""
    steps: tuple[str, ...] = ()
    """What to do to the source, in order."""
    expects: tuple[Expectation, ...] = ()
    hints: tuple[str, ...] = ()
    """Hints of a person that the source claims to follow, each with the line of it that shows this."""
    source: str = ""
    """The whole file, where plan and source were written together; "" = the optimizer writes it."""
