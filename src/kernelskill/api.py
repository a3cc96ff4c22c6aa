"""The Python door: `kernelskill.optimize(...)` and `kernelskill.evaluate(...)`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelskill.config import Config, build_evaluator, changed_config, load_config, require_torch
from kernelskill.protocols import Progress
from kernelskill.records import Budget, Candidate, Evaluation, InputLaw, Interval, Precision, Run, Status
from kernelskill.session import BEST, REPORT, begin, carry_on

if TYPE_CHECKING:
    from torch import nn


class Result:
    """What `optimize` gives back.

    Attributes:
        run: the whole record: floor, baselines, attempts, verdicts.
        folder: the run's folder; `report.html` and `best.py` lie in it.
    """

    def __init__(self, run: Run, folder: Path, original: object | None) -> None:
        self.run = run
        self.folder = folder
        self._original = original
        self._module: nn.Module | None = None

    @property
    def source(self) -> str:
        """Text of the answer: one file that defines `ModelNew` (the stock recipe, if that is the answer)."""
        return (self.folder / BEST).read_text(encoding="utf-8")

    @property
    def speedup(self) -> float:
        """Verified speedup over best stock (baseline_ms / ours); 1.0 when best stock is the answer."""
        from kernelskill.report.story import best_speedup

        return best_speedup(self.run) or 1.0

    @property
    def speedups(self) -> dict[str, Interval]:
        """Verified speedup over every baseline arm, with its 95 % interval."""
        promotion = self.run.result.promotion if self.run.result else None
        return {item.arm: item.speedup for item in promotion.comparisons} if promotion else {}

    @property
    def report(self) -> Path:
        """The report, one self-contained HTML file."""
        return self.folder / REPORT

    @property
    def input_laws(self) -> tuple[InputLaw, ...]:
        """Laws that fresh inputs were drawn from, where `inputs=` was an example."""
        return self.run.task.reference.laws

    @property
    def module(self) -> nn.Module:
        """The answer as a module, sharing the original's parameters; the original runs outside its guard."""
        if self._module is None:
            from kernelskill.deliver import deliver

            self._module = deliver(self.run, self.source, self._original)
        return self._module

    def __repr__(self) -> str:
        stop = self.run.result.stop.value if self.run.result else "unfinished"
        return f"<Result of {self.run.task.name}: {self.speedup:.2f}x over best stock, {stop}, {self.folder}>"


def optimize(
    target: object,
    *,
    inputs: object = None,
    init: object = None,
    device: str | None = None,
    budget: Budget | float | None = None,
    precision: Precision | str | None = None,
    config: Config | None = None,
    progress: Progress | None = None,
) -> Result:
    """Make PyTorch code faster, and prove that it computes the same.

    Args:
        target: path of a KernelBench-style file, "file.py:Class", "package.module:Class", an nn.Module, a class
            or a function.
        inputs: example arguments (list or tuple), keyword arguments (dict), one tensor, or a callable that gives
            fresh ones. Not needed for a file that defines `get_inputs`.
        init: constructor arguments, where `target` is a class.
        device: target to write for ("cpu" or "cuda"); default: what the settings say.
        budget: limits (`kernelskill.Budget`), or wall seconds after which no further round begins.
        precision: accuracy owed ("match" = as accurate as eager as the task runs it); default: what the settings say.
        config: all settings at once (see `kernelskill.load_config`); the arguments above win over it.
        progress: what is told while it runs; default: nothing.

    Raises:
        TaskError: the task cannot be read or run.
        ConfigError: a setting is not usable.
        MissingExtraError: PyTorch is not installed.
    """
    require_torch()
    from kernelskill.report import SilentProgress
    from kernelskill.tasks import load_task

    settings = _settled(config or load_config(), device, budget, precision)
    folder = begin(
        settings,
        lambda storage: load_task(
            target,
            inputs=inputs,
            init=init,
            precision=settings.precision,
            weights=settings.weights,
            storage=storage,
        ),
    )
    run = carry_on(folder, progress or SilentProgress())
    return Result(run, folder, target if not isinstance(target, str | Path) else None)


def evaluate(
    reference: object,
    candidate: str | Path,
    *,
    inputs: object = None,
    init: object = None,
    config: Config | None = None,
    quick: bool = False,
    seed: str = "",
    storage: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge a candidate: whether it computes the same, and how fast.

    Args:
        reference: as `target` of `optimize`.
        candidate: path or source text of a file that defines `ModelNew`.
        inputs: as for `optimize`.
        init: as for `optimize`.
        config: settings.
        quick: stop after the screen; otherwise a passing candidate is re-timed in fresh processes.
        seed: that of an earlier evaluation, hexadecimal: its inputs come again, byte for byte.
        storage: folder for a pickled reference; needed for Python objects only.
        progress: called with a line at each step.
    """
    require_torch()
    from kernelskill.tasks import load_task

    settings = config or load_config()
    tell = progress or (lambda _: None)
    task = load_task(
        reference, inputs=inputs, init=init, precision=settings.precision, weights=settings.weights,
        storage=storage,
    )  # fmt: skip
    text = Path(candidate).read_text(encoding="utf-8") if _is_file(candidate) else str(candidate)
    proposal = Candidate(id="candidate", source=text, author="user")
    evaluator = build_evaluator(settings, task)
    if seed:
        from kernelskill.evaluation.judge import Judge

        assert isinstance(evaluator, Judge)
        evaluator.replayed = bytes.fromhex(seed)
    try:
        tell("running the reference once")
        workload = evaluator.describe()
        evaluator.adopt(workload, None)
        tell("timing the baselines")
        evaluator.adopt(workload, evaluator.baselines())
        tell("judging the candidate")
        screened = evaluator.screen(proposal, None)
        if quick or screened.status is not Status.PASSED:
            return screened
        tell("re-timing it in fresh processes")
        return evaluator.promote(proposal)
    finally:
        evaluator.close()


def _settled(
    config: Config, device: str | None, budget: Budget | float | None, precision: Precision | str | None
) -> Config:
    """The settings with what the call says.

    Raises:
        ConfigError: there is no such target or precision.
    """
    changed: dict[str, Any] = {}
    if device:
        changed["target"], _, index = device.partition(":")
        changed |= {"gpu": index} if index else {}
    if precision is not None:
        changed["precision"] = precision
    if budget is not None:
        changed["budget"] = budget if isinstance(budget, Budget) else Budget(seconds=float(budget))
    return changed_config(config, **changed)


def _is_file(candidate: str | Path) -> bool:
    return isinstance(candidate, Path) or ("\n" not in candidate and Path(candidate).is_file())
