"""Asking a role until its answer can be used: bounded, with the fault shown, and with more room where it was cut."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from kernelskill.agents.llm.reading import UnusableReply
from kernelskill.errors import BudgetError, ModelError
from kernelskill.protocols import LanguageModel
from kernelskill.records.model import Finish, Message, ModelSettings, Reply, Role

T = TypeVar("T")

MOST_ROOM = 4
"""Cap of a reply that was cut, in units of the first cap."""
CUT = "Your reply was cut off at its length limit. Answer again, shorter: no repetition, only what is asked for."
NO_ANSWER = "You gave no answer, only thoughts. Answer now, in the form that is asked for."


class UnusableAnswers(ModelError):
    """A role gave no usable answer in all its tries; the message has the last fault."""


class Conversation:
    """One question of one role, and its follow-ups.

    Args:
        model: who is asked.
        settings: tries and caps.
    """

    def __init__(self, model: LanguageModel, settings: ModelSettings) -> None:
        self._model = model
        self._settings = settings

    def ask(self, role: Role, about: str, prompt: tuple[str, str], use: Callable[[str], T]) -> T:
        """The first usable answer.

        Args:
            role: who answers.
            about: place in the run, e.g. "c004".
            prompt: instructions and question.
            use: makes of a reply what is wanted; what it raises as `UnusableReply` is shown to the model.

        Raises:
            UnusableAnswers: none of the tries gave one.
            ModelError: no model could be reached, or the budget is spent.
        """
        messages = [Message(role="system", text=prompt[0]), Message(role="user", text=prompt[1])]
        room = self._settings.max_output_tokens
        fault = ""
        for number in range(1, self._settings.tries + 1):
            key = f"{role}.{re.sub(r'[^A-Za-z0-9-]+', '-', about)}.{number}"
            reply = self._reply(role, key, messages, room)
            fault = _fault_of(reply)
            if fault:
                # Half an answer is no answer: it is neither read nor shown again.
                room = min(2 * room, MOST_ROOM * self._settings.max_output_tokens)
                messages = [*messages[:2], Message(role="user", text=fault)]
                continue
            try:
                return use(reply.text)
            except UnusableReply as error:
                fault = str(error)
                again = f"Your answer cannot be used. {fault}\nAnswer again, in full."
                messages = [
                    *messages[:2],
                    Message(role="assistant", text=reply.text),
                    Message(role="user", text=again),
                ]
        raise UnusableAnswers(
            f"the {role} ({self._model.author(role)}) gave no usable answer in {self._settings.tries} replies: {fault}"
        )

    def _reply(self, role: Role, key: str, messages: list[Message], room: int) -> Reply:
        """The model's reply; that it cannot give a longer one is this question's end, not the model's."""
        try:
            return self._model.reply(role, key, messages, room)
        except BudgetError:
            raise
        except ModelError as error:
            if room > self._settings.max_output_tokens:
                raise UnusableAnswers(
                    f"the {role}'s reply was cut off, and a longer one is refused: {error}"
                ) from error
            raise


def _fault_of(reply: Reply) -> str:
    """What to tell a model whose reply is not an answer at all; "" where it is one."""
    if reply.finish is Finish.LENGTH:
        return CUT
    if reply.finish is Finish.FILTERED:
        return "Your reply was withheld by a filter. Answer with the code or data that is asked for, nothing else."
    if reply.finish is not Finish.STOP or not reply.text.strip():
        return NO_ANSWER
    return ""
