"""The seam to a language model: messages in, one reply out. What may go wrong has two names of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelskill.errors import ModelError
from kernelskill.records.model import Message, Reply


@dataclass(frozen=True)
class Ask:
    """How one reply is asked for."""

    max_tokens: int
    """Cap on the reply, reasoning included."""
    timeout_s: float
    temperature: float | None = None


class Model(Protocol):
    """One language model, by whatever way it is reached. Safe to call from several threads."""

    name: str
    """PROVIDER:NAME, as it was asked for."""

    def complete(self, messages: Sequence[Message], ask: Ask) -> Reply:
        """One reply. Never retries: whoever calls decides that.

        Raises:
            Transient: asking again may help.
            SettingRefused: the server takes no temperature.
            ModelError: asking again the same way cannot help (wrong key, unknown model, prompt too long).
        """
        ...


class Transient(ModelError):
    """The server is busy, broken or silent; asking again may help."""

    def __init__(self, message: str, retry_after_s: float | None = None, may_be_billed: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """Seconds that the server asked to wait; None where it didn't say."""
        self.may_be_billed = may_be_billed
        """Whether the server may have done the work though no reply arrived (a time-out)."""


class SettingRefused(ModelError):
    """The server refuses the sampling temperature; the call can be made without it."""
