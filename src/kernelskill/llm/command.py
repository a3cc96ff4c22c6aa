"""A model behind any program: the prompt on its standard input, the answer on its standard output.

That is how a subscription's command line, a script or a person plays.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence

from kernelskill.errors import ConfigError, ModelError
from kernelskill.llm.model import Ask, Transient
from kernelskill.records.model import Finish, Message, Reply

TOLD = 500
"""Characters of a failing program's standard error that are told."""


class CommandModel:
    """Implements `Model`. The program gets all messages as one text, and is killed with its children on time-out."""

    def __init__(self, command: str) -> None:
        self.name = f"command:{command}"
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"model {self.name}: the command line cannot be read: {error}") from error

    def complete(self, messages: Sequence[Message], ask: Ask) -> Reply:
        """Run the program once.

        Raises:
            Transient: it did not answer in time.
            ModelError: it cannot be started, or failed.
        """
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, encoding="utf-8", errors="replace", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ModelError(f"{self.name}: cannot be started: {error.strerror}") from error
        try:
            output, complaint = process.communicate(spoken(messages), timeout=ask.timeout_s)
        except subprocess.TimeoutExpired:
            raise Transient(f"{self.name}: no answer in {ask.timeout_s:.0f} s", may_be_billed=True) from None
        finally:
            _end(process)
        if process.returncode:
            raise ModelError(
                f"{self.name}: ended with code {process.returncode}: {complaint.strip()[-TOLD:]}"
            )
        return Reply(
            text=output,
            finish=Finish.STOP if output.strip() else Finish.EMPTY,
            model=self.name,
            seconds=time.monotonic() - began,
        )


def spoken(messages: Sequence[Message]) -> str:
    """All messages as one text; who speaks is told where it is more than instructions and one question."""
    if [message.role for message in messages] in (["user"], ["system", "user"]):
        return "\n\n".join(message.text for message in messages) + "\n"
    titles = {"system": "Instructions", "user": "Question", "assistant": "Your answer"}
    return "\n\n".join(f"## {titles[message.role]}\n\n{message.text}" for message in messages) + "\n"


def _end(process: subprocess.Popen[str]) -> None:
    """Leave nothing of it behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
