"""What one judged attempt taught: a row of evidence, and the context in which it holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from kernelskill.errors import StoreError
from kernelskill.records import Attempt, Facts, Interval, Json, Record, Scalar, Status
from kernelskill.skills.gate import Situation, assess

CLASSES = ("conv", "matmul", "softmax", "norm", "scan", "pool", "reduction", "elementwise")
"""Operator classes of a program, heaviest first; the first that occurs names the program."""
BLAMED = frozenset(
    {
        Status.BUILD_ERROR, Status.RUNTIME_ERROR, Status.WRONG_SHAPE, Status.WRONG_DTYPE, Status.WRONG_VALUES,
        Status.WRONG_STATE, Status.TIMEOUT, Status.CRASHED, Status.OUT_OF_MEMORY, Status.INTEGRITY,
    }
)  # fmt: skip
"""Verdicts that speak against a skill. Not allowed and untestable say something about the run, not about the skill."""


class Context(Record):
    """Where an experience was made, or is asked for."""

    device: str
    kernel_kind: str = ""
    """Kind of the kernel changed; "" for an edit of the whole program."""
    bound: str = ""
    """What bounds that kernel, or the program's floor."""
    op_class: str = ""

    def similarity(self, other: Context) -> float:
        """1 for the same context, less for each difference.

        Another machine or another loop structure says little; another bound or operator class still half.
        """
        like = 1.0 if self.device == other.device else 0.25
        like *= 1.0 if self.kernel_kind == other.kernel_kind else 0.3
        like *= 1.0 if self.bound == other.bound else 0.5
        return like * (1.0 if self.op_class == other.op_class else 0.5)


class Evidence(Record):
    """One judged attempt. `run` and `attempt` are its key."""

    run: str
    attempt: int
    task: str = ""
    skill: str
    subject: str = ""
    """Kernel or operator that was changed; "" for the whole program."""
    action: str = ""
    parameters: Json = None
    sole: bool = True
    """Whether this skill alone made the change; shared credit is kept, but counted for nobody."""
    context: Context
    shapes: str = ""
    tier: str = ""
    """Accuracy tier of the verdict."""
    headroom: str = ""
    bottleneck: str = ""
    """The heaviest one of the base."""
    compared_to: str = ""
    """Arm that the speedup is over: `base`, or `eager` for a first version."""
    speedup: Interval | None = None
    verdict: Status
    torch: str = ""
    driver: str = ""
    """Version of the GPU's driver; "" on a processor, or where the system does not tell."""
    program: str = ""
    """Version of this program."""
    date: str = ""

    @property
    def verified(self) -> bool:
        """Whether it counts as a gain or a loss: judged correct, timed against what it changed."""
        return self.sole and self.verdict is Status.PASSED and self.speedup is not None

    @property
    def rejected(self) -> bool:
        """Whether it counts as a "don't"."""
        return self.sole and self.verdict in BLAMED


def context_of(situation: Situation, subject: str, device: str) -> Context:
    """The context of one subject of a base ("" = the whole program); a kernel that was not run is as it is expected."""

    def text(name: str, where: str) -> str:
        fact = situation.index.find(name, where)
        return str(fact.value) if fact else ""

    counts = {name: situation.index.find(f"count_{name}", "") for name in CLASSES}
    present = [name for name, fact in counts.items() if fact and fact.value]
    inside = subject in situation.kernels
    bound = text("kernel_bound", subject) or text("expected_bound", subject)
    return Context(
        device=device,
        kernel_kind=text("kernel_kind", subject) if inside else "",
        bound=bound if inside else text("floor_bound", ""),
        op_class=present[0] if present else "",
    )


def evidence_of(attempt: Attempt, facts: Facts, device: str, context: Json) -> Evidence | None:
    """The row that an attempt on a base with these facts adds; None if nothing was judged.

    `context` is the loop's `{"run": id, "task": id}`, optionally with `shapes`.

    Raises:
        StoreError: the context names no run.
    """
    evaluation, plan = attempt.evaluation, attempt.plan
    if evaluation is None:
        return None
    if not isinstance(context, dict) or not context.get("run"):
        raise StoreError(f"evidence needs the id of its run: {{'run': ..., 'task': ...}}, got {context!r}")
    situation = assess(facts)
    sites = [site.strip() for edit in plan.edits for site in edit.site.split(",")]
    subject = next((site for site in sites if site in situation.kernels + situation.operators), "")
    arm = "eager" if attempt.round == 0 else "base"
    speedup = evaluation.speedup(arm)
    return Evidence(
        run=str(context["run"]),
        attempt=attempt.index,
        task=str(context.get("task", "")),
        skill=plan.skill,
        subject=subject,
        action="+".join(dict.fromkeys(edit.action for edit in plan.edits)),
        parameters=_parameters(attempt),
        # What a model wrote by hand says nothing about the recipe of that name.
        sole=plan.intent is None and all(edit.skill == plan.skill for edit in plan.edits),
        context=context_of(situation, subject, device),
        shapes=str(context.get("shapes", "")) or _shapes(situation, subject),
        tier=evaluation.tier,
        headroom=situation.headroom,
        bottleneck=situation.bottlenecks[0].name if situation.bottlenecks else "",
        compared_to=arm if speedup else "",
        speedup=speedup,
        verdict=evaluation.status,
        torch=_version("torch"),
        driver=driver_version() if _on_gpu(situation) else "",
        program=_version("kernelskill"),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _on_gpu(situation: Situation) -> bool:
    target = situation.index.find("target", "")
    return target is not None and target.value == "cuda"


def _parameters(attempt: Attempt) -> Json:
    """Parameters of the only edit, or one set per edit."""
    sets: list[dict[str, Scalar]] = [edit.parameters for edit in attempt.plan.edits]
    return sets[0] if len(sets) == 1 else sets


def _shapes(situation: Situation, subject: str) -> str:
    """`rows x row_length x inner_length` of a kernel, as far as they are known."""
    if subject not in situation.kernels:
        return ""
    found = [situation.index.find(name, subject) for name in ("rows", "row_length", "inner_length")]
    return "x".join(str(fact.value) for fact in found if fact)


def driver_version() -> str:
    """Version of the NVIDIA driver, as its module tells it; "" where there is none."""
    try:
        told = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", told)
    return found[0] if found else ""


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
