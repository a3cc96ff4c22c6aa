"""Counters of a candidate, asked for until an answer is final: names are replaced, refusals remembered."""

from __future__ import annotations

from collections.abc import Mapping

from kernelskill.errors import KernelSkillError
from kernelskill.profiling import counters, ncu
from kernelskill.protocols import Evaluator
from kernelskill.records import Candidate, Json

TRIES = 4
"""Runs for one candidate; each takes a process, and each that fails by a name has learned about names."""
FAILURES = 2
"""Runs in a row without a table after which no more are made."""
PERMISSION = "see https://developer.nvidia.com/ERR_NVGPUCTRPERM"


class Counting:
    """Asks an evaluator for counters, and learns what this machine has.

    Args:
        evaluator: whose `count` is asked.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._passed_over: dict[str, int] = {}
        self._given_up = ""
        self._failures = 0
        self._kept: tuple[str, tuple[ncu.Launch, ...], str] | None = None

    def of(self, candidate: Candidate) -> tuple[tuple[ncu.Launch, ...], str]:
        """Launches of one call with their counters; without any, the reason. A base that stays is counted once."""
        if self._kept is not None and self._kept[0] == candidate.source:
            return self._kept[1:]
        launches, note = self._ask(candidate)
        if launches:
            self._kept = (candidate.source, launches, note)
        return launches, note

    def _ask(self, candidate: Candidate) -> tuple[tuple[ncu.Launch, ...], str]:
        if self._given_up:
            return (), self._given_up
        for _ in range(TRIES):
            asked = counters.wanted(self._passed_over)
            log, error = self._log(candidate, asked)
            counted = ncu.read_log(log, asked)
            if counted.fault is None:
                self._failures = 0
                self._pass_over(counted.uncounted, only_for_another=True)
                return counted.launches, _partly(counted.uncounted)
            if counted.fault.kind == "permission":
                self._given_up = f"no counters: {counted.fault.reason}; {PERMISSION}"
                return (), self._given_up
            if counted.fault.kind == "unknown-metric" and self._pass_over(counted.fault.metrics):
                continue
            return (), self._failed(f"no counters: {error or counted.fault.reason}")
        return (), self._failed(f"no counters: ncu still knows not all names after {TRIES} runs")

    def _log(self, candidate: Candidate, asked: tuple[str, ...]) -> tuple[str, str]:
        """What ncu printed, and what went wrong beside it."""
        try:
            reply: Json = self._evaluator.count(candidate, asked)
        except KernelSkillError as error:
            return "", str(error)
        if not isinstance(reply, Mapping):
            return "", "the reply is not understood"
        log, why = reply.get("log"), reply.get("error")
        return log if isinstance(log, str) else "", why if isinstance(why, str) else ""

    def _pass_over(self, metrics: tuple[str, ...], *, only_for_another: bool = False) -> bool:
        """From now on take the next name of the counters that some metrics belong to; whether any changed.

        Args:
            metrics: what is not known here, or has no value.
            only_for_another: keep a last name, as its next launch may have a value.
        """
        found = [
            counter
            for counter in counters.counters_of(metrics)
            if not only_for_another or self._passed_over.get(counter.name, 0) + 1 < len(counter.metrics)
        ]
        for counter in found:
            self._passed_over[counter.name] = self._passed_over.get(counter.name, 0) + 1
        return bool(found)

    def _failed(self, reason: str) -> str:
        """Note a run without a table; after `FAILURES` in a row none is made any more."""
        self._failures += 1
        if self._failures >= FAILURES:
            self._given_up = reason
        return reason


def _partly(uncounted: tuple[str, ...]) -> str:
    return f"not counted here: {', '.join(uncounted)}" if uncounted else ""
