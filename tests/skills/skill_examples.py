"""Facts, cards, recipes and attempts that several tests of this room build from."""

from __future__ import annotations

from pathlib import Path

from kernelskill.program.program import Kernel, Program
from kernelskill.program.region import Axis, Op, Operand, Region, Stage, Store
from kernelskill.records import (
    Attempt,
    Candidate,
    Comparison,
    Edit,
    Evaluation,
    Fact,
    Facts,
    Graph,
    Interval,
    Outcome,
    Plan,
    Status,
    TensorSpec,
)

PROGRAM = {
    "target": "cpu", "threads": 2, "in_cache": False, "kernels": 2, "operators_left": 0, "wrapper": "",
    "floor_share_ratio": 0.5, "count_reduction": 1, "floor_bound": "memory",
}  # fmt: skip
KERNEL = {
    "kernel_kind": "map", "rows": 4096, "row_length": 1, "share_ratio": 0.6, "kernel_bound": "memory",
    "parallel_efficiency_ratio": 0.9, "bandwidth_share_ratio": 0.5, "vector_bits_used": 512,
    "schedule_nontemporal": False, "libm_calls": 0, "exp_share_ratio": 0.0, "flops_share_ratio": 0.0,
}  # fmt: skip
PRODUCT = {"op": "aten.mm.default", "share_ratio": 0.4}
MEASURED = {
    "floor_share_ratio", "share_ratio", "kernel_bound", "parallel_efficiency_ratio", "bandwidth_share_ratio",
    "exp_share_ratio", "flops_share_ratio", "time_us", "overhead_share_ratio", "base_ms", "best_stock_ratio",
    "dram_throughput_pct", "achieved_occupancy_pct", "barrier_stall_pct", "memory_stall_pct", "waves", "load_use_pct",
    "store_use_pct", "divergent_branch_pct", "active_lanes",
}  # fmt: skip


def facts_of(program=None, **subjects):
    """Facts of a program and its kernels or operators; a value of None is a fact that is unknown."""
    groups = {"": PROGRAM if program is None else program, **subjects}
    return Facts(
        facts=tuple(
            Fact(
                name=name,
                value=value,
                subject=subject,
                origin="measured" if name in MEASURED else "parsed",
            )
            for subject, values in groups.items()
            for name, value in values.items()
        )
    )


CARD = """---
name: {id}
description: Shows the form of a card in tests, and is long enough to be a description of something.
id: {id}
title: An example
kind: {kind}
applies: {applies}
subject: {subject}
bottlenecks: {bottlenecks}
structures: {structures}
targets: [cpu]
tiers: {tiers}
expected_gain:
  prior_log_speedup: {prior}
  reasoning: Bytes fall to a half, and the kernel is bound by them, so it takes half the time.
hazards: [none that a test could meet]
conflicts: {conflicts}
source: this test
---
## Mechanism
Text.

## Steps
Text.

## Check that it was really done
Text.

## Worked example
Text.

## When not to
Text.
"""
RECIPE = """
from kernelskill.records import Edit


def propose(program, facts):
    return [
        Edit(skill="{id}", site=kernel.name, action="unroll", parameters={{"unroll": kernel.schedule.unroll * 2}})
        for kernel in program.kernels
    ]


def apply(program, edit):
    kernel = program.kernel(edit.site)
    schedule = kernel.schedule.model_copy(update=edit.parameters)
    skills = (*kernel.skills, edit.skill)
    return program.with_kernel(kernel.model_copy(update={{"schedule": schedule, "skills": skills}}))
"""


def write_skill(folder: Path, id: str = "do-it", recipe: str | None = RECIPE, **fields) -> Path:
    """A skill folder under `folder`; returns its SKILL.md."""
    values = {
        "kind": "micro", "applies": "kernel_bound == 'memory'", "subject": "kernel", "structures": "[]",
        "bottlenecks": "[memory-bandwidth]", "tiers": "[high, medium, low]", "conflicts": "[]", "prior": 0.3, **fields,
    }  # fmt: skip
    home = folder / id.replace("-", "_")
    home.mkdir(parents=True)
    path = home / "SKILL.md"
    path.write_text(CARD.format(id=id, **values))
    if recipe is not None:
        (home / "recipe.py").write_text(recipe.format(id=id) if recipe is RECIPE else recipe)
    return path


def program_of(*names: str) -> Program:
    """A program of ReLU kernels over 4096 floats, without a graph around them."""
    region = Region(
        axes=(Axis(size=4096, role="parallel"),),
        inputs=(Operand(name="x", dtype="float32", strides=(1,)),),
        outputs=(Operand(name="y", dtype="float32", strides=(1,)),),
        stages=(
            Stage(
                kind="map",
                ops=(Op(name="a", fn="load", args=("x",)), Op(name="b", fn="max", args=("a", 0.0))),
                stores=(Store(operand="y", value="b"),),
            ),
        ),
    )
    spec = TensorSpec(shape=(4096,), dtype="float32", stride=(1,))
    kernels = tuple(Kernel(name=name, body=region, outputs=(spec,)) for name in names)
    return Program(graph=Graph(inputs=(), state=(), nodes=(), outputs=(), outputs_tree=None), kernels=kernels)


def attempt_of(
    index=3, skill="stream-stores", site="k1", status=Status.PASSED, speedup=(1.1, 1.2, 1.3), round=1
):
    """A judged attempt of one edit."""
    low, value, high = speedup
    interval = Interval(low=low, value=value, high=high)
    arm = "base" if round else "eager"
    compared = Comparison(arm=arm, speedup=interval, rounds=40, sets=2, significant=low > 1)
    edit = Edit(skill=skill, site=site, action="set", parameters={"nontemporal": True})
    candidate = Candidate(id=f"c{index:03d}", source="")
    evaluation = Evaluation(
        candidate_id=candidate.id,
        source_hash=candidate.source_hash,
        stage="screen",
        status=status,
        tier="match" if status is Status.PASSED else "",
        comparisons=(compared,) if status is Status.PASSED else (),
    )
    return Attempt(
        index=index,
        round=round,
        plan=Plan(base_id="c000", edits=(edit,), skill=skill, reason="test"),
        candidate=candidate,
        evaluation=evaluation,
        outcome=Outcome.NOT_FASTER,
    )
