"""Facts of a version that has no program behind it: measured and parsed ones first, judged ones for what is left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from kernelskill.agents.llm import sections
from kernelskill.agents.llm.answers import FactsAnswer
from kernelskill.agents.llm.conversation import UnusableAnswers
from kernelskill.agents.llm.reading import UnusableReply, answer_of
from kernelskill.agents.llm.scene import Scene
from kernelskill.features.catalog import CATALOG
from kernelskill.features.kernel_facts import Load, measured_facts
from kernelskill.protocols import FeatureReader
from kernelskill.records import (
    Baselines,
    Candidate,
    Evaluation,
    Fact,
    Facts,
    Floor,
    Profile,
    Scalar,
    StepProfile,
    Workload,
)
from kernelskill.records.operators import family

JUDGED = (
    "kernel_kind", "rows", "row_length", "inner_length", "passes", "bytes", "transcendentals", "flops",
)  # fmt: skip
"""What a kernel computes: the printers know it of theirs, a text has to be read for it."""
COUNTED = ("elementwise", "reduction", "softmax", "norm", "scan", "pool", "conv", "matmul")
COMPILED = re.compile(r"\btorch\.compile\(|\.compile\(\)")
NONTEMPORAL = re.compile(r"_mm\d*_stream_|__builtin_nontemporal_store|#pragma vector nontemporal")


class ModelFeatureReader:
    """Implements `protocols.FeatureReader`.

    Args:
        scene: of the run.
        base: reads what was measured, and everything about versions that have a program.
    """

    def __init__(self, scene: Scene, base: FeatureReader) -> None:
        self._scene = scene
        self._base = base
        self.graph: Facts | None = None
        """Facts of the captured reference, once they were read."""

    def read(
        self,
        candidate: Candidate,
        profile: Profile | None,
        floor: Floor,
        *,
        evaluation: Evaluation | None = None,
        baselines: Baselines | None = None,
    ) -> Facts:
        """Facts of one candidate, each with its origin.

        Raises:
            ModelError: no model could be reached, or the budget is spent.
        """
        found = self._base.read(candidate, profile, floor, evaluation=evaluation, baselines=baselines)
        found = Facts(facts=(*found.facts, *_bar(floor, baselines), *_hot(profile)))
        if candidate.program is not None:
            return found
        steps = [
            step for step in (profile.steps if profile else ()) if step.kind == "kernel" and step.time_us > 0
        ]
        known = {(fact.name, fact.subject) for fact in found.facts}
        added = [*_operators(candidate, profile), *_parsed(candidate, steps)]
        if steps:
            added += self._judged(candidate, steps, profile)
        fresh = [fact for fact in added if (fact.name, fact.subject) not in known]
        return Facts(facts=(*found.facts, *fresh))

    def read_graph(self, workload: Workload, floor: Floor, *, baselines: Baselines | None = None) -> Facts:
        """Facts of the captured reference: nothing in it is left to judge."""
        found = self._base.read_graph(workload, floor, baselines=baselines)
        self.graph = Facts(facts=(*found.facts, *_bar(floor, baselines)))
        return self.graph

    def _judged(
        self, candidate: Candidate, steps: list[StepProfile], profile: Profile | None
    ) -> Iterator[Fact]:
        """What the model reads from the text, and what follows from it and the clock."""
        names = [step.name for step in steps]
        parts = (*self._scene.setting(), sections.source_section(candidate, "The implementation"))
        try:
            values = self._scene.ask(
                "feature-reader",
                candidate.id,
                parts,
                lambda text: _checked(answer_of(text, FactsAnswer), names),
                kernels=names,
                facts=[CATALOG[name] for name in JUDGED],
            )
        except UnusableAnswers:
            return
        for step in steps:
            mine = {name: value for (name, subject), value in values.items() if subject == step.name}
            for name, value in mine.items():
                yield _fact(name, value, step.name)
            load = _load(mine)
            if load is not None and profile is not None:
                ceilings = self._scene.ceilings
                overhead = ceilings.call_us + ceilings.operator_us + ceilings.parallel_us
                is_map = mine.get("kernel_kind") == "map"
                derived = measured_facts(step, load, overhead, ceilings, profile.total_us, is_map=is_map)
                for name, value in derived.items():
                    if value is not None:
                        yield _fact(name, value, step.name)


def _bar(floor: Floor, baselines: Baselines | None) -> Iterator[Fact]:
    """What there is to beat, and what the least time is made of. Told to the model only: no gate reads these."""
    for timing in baselines.timings if baselines else ():
        yield Fact(name=f"stock_{timing.arm}_ms", value=timing.median_ms, origin="measured", unit="ms")
    for name, value, unit in (
        ("floor_bytes", floor.bytes_min, "bytes"), ("floor_flops", floor.flops, ""),
        ("floor_transcendentals", floor.transcendentals, ""), ("floor_memory_ms", floor.memory_ms, "ms"),
        ("floor_compute_ms", floor.compute_ms, "ms"), ("eager_operators", floor.launches, ""),
    ):  # fmt: skip
        yield Fact(name=name, value=value, origin="parsed", unit=unit)


def _hot(profile: Profile | None) -> Iterator[Fact]:
    """What is left of a call when inputs lie in cache and memory is not fresh: only that can a loop make less."""
    if profile is not None and profile.total_us is not None:
        yield Fact(name="hot_ms", value=profile.total_us / 1e3, origin="measured", unit="ms")


def _checked(answer: FactsAnswer, kernels: list[str]) -> dict[tuple[str, str], Scalar]:
    """Facts by name and kernel.

    Raises:
        UnusableReply: a fact was not asked for, is of another kernel, or has a value that it cannot have.
    """
    found: dict[tuple[str, str], Scalar] = {}
    for item in answer.facts:
        if item.name not in JUDGED:
            raise UnusableReply(f"{item.name!r} is not one of the facts asked for: {', '.join(JUDGED)}.")
        if item.subject not in kernels:
            raise UnusableReply(f"{item.subject!r} is not one of the kernels: {', '.join(kernels)}.")
        if item.value is None:
            continue
        try:
            CATALOG[item.name].check(item.value)
        except ValueError as error:
            raise UnusableReply(f"{item.subject}.{item.name}: {error}") from error
        found[item.name, item.subject] = item.value
    return found


def _load(values: Mapping[str, Scalar]) -> Load | None:
    """What a call moves and computes, where all of it was told; reads and writes are not told apart."""
    counts = [values.get(name) for name in ("bytes", "transcendentals", "flops")]
    if not all(isinstance(count, int) for count in counts):
        return None
    moved, transcendentals, flops = (int(count) for count in counts if isinstance(count, int))
    return Load(
        read_bytes=moved - moved // 2, written_bytes=moved // 2, transcendentals=transcendentals, flops=flops
    )


def _operators(candidate: Candidate, profile: Profile | None) -> Iterator[Fact]:
    """Library operators that the version still runs, from its profile."""
    if profile is None or profile.total_us is None:
        return
    steps = [step for step in profile.steps if step.kind == "operator" and step.time_us > 0]
    for step in steps:
        yield _fact("op", step.name, step.name, "parsed")
        yield _fact("time_us", step.time_us, step.name, "measured")
        yield _fact("share_ratio", min(1.0, step.time_us / profile.total_us), step.name, "measured")
    yield _fact("operators_left", len(steps), "", "measured")
    families = Counter(family(step.name) for step in steps)
    for name in COUNTED:
        yield _fact(f"count_{name}", families.get(name, 0), "", "parsed")  # type: ignore[call-overload]


def _parsed(candidate: Candidate, steps: list[StepProfile]) -> Iterator[Fact]:
    """What the text tells without being understood."""
    yield _fact("kernels", len(steps), "", "parsed")
    yield _fact("wrapper", "compile" if COMPILED.search(candidate.source) else "", "", "parsed")
    for step in steps:
        yield _fact("schedule_nontemporal", bool(NONTEMPORAL.search(candidate.source)), step.name, "parsed")


def _fact(name: str, value: Scalar, subject: str, origin: str = "judged") -> Fact:
    return Fact(name=name, value=value, origin=origin, unit=CATALOG[name].unit, subject=subject)  # type: ignore[arg-type]
