"""The parts of a question: task, machine, facts, skills, history, sources, failures. Pure functions of records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kernelskill.agents.llm.fact_lines import fact_lines
from kernelskill.agents.llm.prompts import Section
from kernelskill.records import (
    Attempt,
    Candidate,
    Ceilings,
    Evaluation,
    Facts,
    GateDecision,
    Outcome,
    Plan,
    Retrieval,
    Scalar,
    Status,
    Task,
    TensorSpec,
    Workload,
)
from kernelskill.skills import Card

DETAIL = 3_000
"""Characters of an error that are shown: its end, where compilers and Python say what is wrong."""
CARD_PARTS = ("Mechanism", "Steps", "Worked example", "When not to")
GRAPH_CODE = re.compile(
    r"```python\n(?:(?!```).)*\b(?:calls|fused|grouped|propose|edited)\((?:(?!```).)*```\n?", re.DOTALL
)
"""Worked code of recipes: it builds and edits our graphs, which nobody writes by hand."""


NUMBER = re.compile(r"\d+")
LEAST_REPEATED = 3
"""Lines of a paragraph, less one, from which on its repetition is left out."""
AS_ABOVE = "[... as above, with other numbers]"
MEASURED = re.compile(r" \([^()']*=[^()']*\)")
"""The value beside a condition that failed: "(share_ratio=0.06 measured)"."""
OTHER_DEVICE = re.compile(r"fails: target in \(")
"""A refusal that says nothing: the skill is of another device."""


def task_section(task: Task, workload: Workload) -> Section:
    """What must be computed: the reference's text, and the shapes that the judge fixed."""
    source = task.reference.source or workload.class_source
    lines = [f"task {task.name}, sha256 {task.hash[:16]}, precision owed: {task.precision.value}"]
    lines += [f"input {place}: {_shape(spec)}" for place, spec in enumerate(workload.inputs)]
    lines += [f"output {place}: {_shape(spec)}" for place, spec in enumerate(workload.outputs)]
    lines += [f"{state.kind} {state.path}: {_shape(state.spec)}" for state in workload.state]
    if workload.updated_state:
        lines.append(f"forward rewrites: {', '.join(workload.updated_state)} (compared as outputs are)")
    lines += [f"noticed: {finding.message}" for finding in workload.findings]
    entry = task.reference.entry or "the object given"
    lines += [f"The reference is {entry}:", "```python", source.strip(), "```"]
    return Section("The reference", "\n".join(lines))


def machine_section(ceilings: Ceilings, machine: Mapping[str, Scalar]) -> Section:
    """What this machine can do, measured, and what it is."""
    lines = [
        f"{name}: {value}"
        for name, value in machine.items()
        if value not in (None, "") and not name.endswith("_uuid")
    ]
    bandwidth = ", ".join(
        f"{rate:.3g} GB/s at {_bytes(float(size))}" for size, rate in ceilings.bandwidth_gb_per_s.items()
    )
    lines += [
        f"threads of every arm: {ceilings.threads}",
        f"bandwidth (read + write) by footprint: {bandwidth}",
        *_rates(ceilings),
    ]
    return Section("The machine (measured)", "\n".join(lines))


def _rates(ceilings: Ceilings) -> tuple[str, str]:
    """Arithmetic and what a call costs. A GPU's products may run on tensor cores, faster than its plain units."""
    exponentials = f"exponentials: {ceilings.exp_gops:.3g} per ns"
    if ceilings.compute_capability is None:
        return (
            f"fp32 fused multiply-add: {ceilings.fp32_gflops:.4g} GFLOP/s; {exponentials}",
            f"opening a parallel region costs {ceilings.parallel_us:.3g} us, calling a compiled kernel "
            f"{ceilings.call_us:.3g} us, dispatching a library operator {ceilings.operator_us:.3g} us",
        )
    rounded = f", of TF32 ones {ceilings.tf32_gflops:.4g} GFLOP/s" if ceilings.tf32_gflops else ""
    return (
        f"products of float32 accuracy, by the library or as three of TF32: {ceilings.fp32_gflops:.4g} GFLOP/s"
        f"{rounded}; {exponentials}",
        f"an empty kernel within a graph takes the device {ceilings.call_us:.3g} us; dispatching a library operator "
        f"takes the host {ceilings.operator_us:.3g} us",
    )


def facts_section(facts: Facts, rank: int = 0) -> Section:
    """What is known of a version, by subject."""
    return Section("Facts", "\n".join(fact_lines(facts)), rank)


def skills_section(cards: Sequence[Card], retrieval: Retrieval | None, whole: int) -> Section:
    """The skills that may be used: why each was admitted, and for the first `whole` of them what an expert knows."""
    parts = []
    for place, card in enumerate(cards):
        reasons = [
            f"{item.subject or 'the program'}: {item.reason}"
            for item in (retrieval.decisions if retrieval else ())
            if item.admitted and item.skill == card.id
        ]
        lines = [f"## {card.id}: {card.title}", *(f"admitted for {reason}" for reason in reasons)]
        if place < whole:
            told = {name: GRAPH_CODE.sub("", card.section(name)).strip() for name in CARD_PARTS}
            lines += [f"{name}: {text}" for name, text in told.items() if text]
            lines += ["Hazards: " + " ".join(card.hazards)]
        else:
            lines.append(card.description)
        parts.append("\n".join(lines))
    return Section("Skills", "\n\n".join(parts), 3)


def refusals_section(retrieval: Retrieval, most: int = 24) -> Section:
    """What may not be used here, and the fact that decides it; those with a subject first, as they came nearer.

    Refusals of one skill that differ in subject and measured value only are told once.
    """
    refused = [
        item for item in retrieval.decisions if not item.admitted and not OTHER_DEVICE.search(item.reason)
    ]
    refused.sort(key=lambda item: not item.subject)
    groups: dict[tuple[str, str], list[GateDecision]] = {}
    for item in refused:
        reason = re.sub(rf"\b{re.escape(item.subject)}\b", "it", item.reason) if item.subject else item.reason
        groups.setdefault((item.skill, MEASURED.sub("", reason)), []).append(item)
    lines = [
        f"{group[0].skill}{_told_for(group)}: {group[0].reason[:160]}"
        for group in list(groups.values())[:most]
    ]
    return Section("Refused by the gate", "\n".join(lines), 6)


def _told_for(group: Sequence[GateDecision]) -> str:
    first, last = group[0].subject, group[-1].subject
    if len(group) <= 2:
        return f" for {' and '.join(item.subject for item in group)}" if first else ""
    return f" for {first} ... {last} ({len(group)} alike)"


def bottlenecks_section(retrieval: Retrieval) -> Section:
    """What the gate found to hold the base back."""
    found = " > ".join(retrieval.bottlenecks) or "none found"
    return Section(
        "Headroom and bottlenecks", f"headroom: {retrieval.headroom}; bottlenecks, heaviest first: {found}"
    )


def history_section(attempts: Sequence[Attempt], most: int = 16) -> Section:
    """What was tried in this run, newest last, each with its verdict. What failed is not to be tried again."""
    lines = [f"({len(attempts) - most} earlier attempts are not shown)"] if len(attempts) > most else []
    for attempt in attempts[-most:]:
        base = f"on {attempt.plan.base_id}" if attempt.plan.base_id else "from the reference"
        what = "; ".join(attempt.plan.intent.steps) if attempt.plan.intent else ""
        what = what or "; ".join(edit.summary or edit.action for edit in attempt.plan.edits[-4:])
        lines.append(
            f"{attempt.candidate.id} {base}, {attempt.plan.skill}: {what[:400]} -> {verdict(attempt)}"
        )
    return Section("Tried so far", "\n".join(lines), 1)


def verdict(attempt: Attempt) -> str:
    """How one attempt ended, in one line."""
    if attempt.outcome is Outcome.DUPLICATE:
        return f"the same as {attempt.duplicate_of}, not judged again"
    evaluation = attempt.evaluation
    if evaluation is None:
        return "not judged"
    if evaluation.status is not Status.PASSED:
        cause = (
            f" ({attempt.diagnosis.cause}: {attempt.diagnosis.evidence[:200]})" if attempt.diagnosis else ""
        )
        return f"FAILED, {evaluation.status.value}{cause}"
    speedups = ", ".join(
        f"{item.speedup.value:.3g}x [{item.speedup.low:.3g}, {item.speedup.high:.3g}] over {item.arm}"
        for item in evaluation.comparisons
    )
    band = evaluation.noise_band_ratio
    noise = "" if band is None else f"; noise of the machine {band:.1%}"
    flags = "".join(f"; {flag}" for flag in evaluation.labels.flags)
    return f"correct, {attempt.outcome.value}: {speedups}{noise}{flags}"


def source_section(candidate: Candidate, title: str, rank: int = 0, repeats: bool = True) -> Section:
    """The text of one candidate; for whoever need not write it again, without what repeats itself."""
    source = candidate.source if repeats else told_once(candidate.source)
    return Section(f"{title} ({candidate.id})", f"```python\n{source.strip()}\n```", rank)


def told_once(source: str) -> str:
    """A text of which paragraphs that differ from an earlier one in numbers only keep their first line.

    The twelve steps of a printed recurrence are twelve kernels alike.
    """
    seen: set[str] = set()
    kept = []
    for paragraph in source.split("\n\n"):
        alike = " ".join(NUMBER.sub("#", paragraph).split())
        if alike in seen and paragraph.count("\n") >= LEAST_REPEATED:
            paragraph = f"{paragraph.lstrip(chr(10)).partition(chr(10))[0]}\n{AS_ABOVE}"
        seen.add(alike)
        kept.append(paragraph)
    return "\n\n".join(kept)


def variants_section(attempts: Sequence[Attempt], base: Candidate, most: int = 2) -> Section:
    """Other correct versions of this run beside the base, with their scores: what differs in text differs in time."""
    others = [
        attempt
        for attempt in attempts
        if attempt.evaluation is not None
        and attempt.evaluation.status is Status.PASSED
        and attempt.candidate.id != base.id
    ]
    parts = [
        f"{attempt.candidate.id}: {verdict(attempt)}\n```python\n{attempt.candidate.source.strip()}\n```"
        for attempt in others[-most:]
    ]
    return Section("Other correct versions", "\n\n".join(parts), 5)


def plan_section(plan: Plan) -> Section:
    """What the planner wants done."""
    intent = plan.intent
    steps = "\n".join(f"{place}. {step}" for place, step in enumerate(intent.steps if intent else (), 1))
    expects = ", ".join(
        f"{change.subject + '.' if change.subject else ''}{change.fact} {change.direction}"
        for change in (intent.expects if intent else ())
    )
    return Section(
        "The plan", f"skill: {plan.skill}\n{steps}\nexpected: {expects or 'not said'}\nrisk: {plan.risk}"
    )


def failure_section(evaluation: Evaluation) -> Section:
    """What the judge saw, in its words: the end of long errors, and every gate that failed."""
    lines = [f"status: {evaluation.status.value}"]
    for item in evaluation.errors:
        if not item.passed:
            lines.append(
                f"{item.family} inputs, {item.output}: relative error {_number(item.rms)}, eager's own "
                f"{_number(item.rms_eager)}, limit {_number(item.limit)}, worst {_number(item.worst_abs)} {item.note}"
            )
    right = sorted({item.family for item in evaluation.errors if item.passed})
    lines += [f"families that passed: {', '.join(right)}"] if right else []
    detail = evaluation.detail.strip()
    lines += [detail if len(detail) <= DETAIL else "[...]\n" + detail[-DETAIL:]]
    lines += [f"hint: {evaluation.hint}"] if evaluation.hint else []
    return Section("How it failed", "\n".join(lines))


def hints_section(hints: Iterable[str]) -> Section:
    """What a person wants tried, numbered."""
    lines = [f"{place}. {hint}" for place, hint in enumerate(hints, 1)]
    return Section("Design hints of a person: follow them", "\n".join(lines))


def hints_of(text: str) -> tuple[str, ...]:
    """The hints of a file: its paragraphs, and the items of its lists."""
    items = re.split(r"\n\s*\n|\n(?=\s*[-*] )", text)
    return tuple(hint for item in items if (hint := " ".join(item.split()).lstrip("-* ")))


def _shape(spec: TensorSpec) -> str:
    contiguous = "contiguous" if spec.is_contiguous else f"strides {tuple(spec.stride)}"
    return f"{tuple(spec.shape)} {spec.dtype}, {contiguous}"


def _bytes(size: float) -> str:
    return f"{size / 2**20:.3g} MiB" if size >= 2**20 else f"{size / 2**10:.3g} KiB"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3g}"
