"""Which accuracy each way of multiplying has by the judge's gates: `python benchmarks/tiers.py FILE` (needs a GPU).

A product and a convolution, sums of 64, 1024 and 8192 terms, uniform, normal and integer inputs. The reference runs in
eager at each tier's flags, its twin in float64. On one family of inputs a way has the strictest tier whose gates it
passes; its tier is the least strict of those, as the judge asks for every family: where all terms are positive, errors
of rounded inputs average away. Writes a results file; exit code 1 if a tier is not the one due.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from tier_kernels import SIDE, WAYS, convolved, multiplied
from torch.nn.functional import conv2d

from kernelskill.config import load_config
from kernelskill.evaluation import families
from kernelskill.evaluation.correctness import Pool, allowance, judge, longest_sum
from kernelskill.records import Graph, GraphInput, Node, Precision, Ref, TensorSpec
from kernelskill.session import describe_machine

TERMS = (64, 1024, 8192)
ROWS = COLUMNS = SIDE * SIDE
TIERS = (Precision.FP32, Precision.TF32, Precision.REDUCED)
"""Strictest first."""
INPUTS = ("uniform", "normal", "integers")
SEED = 20
LIBRARY = "library fp32"
SELDOM = "3xTF32, promoted every 512"
MANY = 4096
"""Terms from which a sum in a tensor core has to be promoted."""


@dataclass(frozen=True)
class Task:
    """What is computed: by our kernel, and by eager at whatever flags and type."""

    name: str
    op: str
    ours: Callable[..., torch.Tensor]
    eager: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    shapes: Callable[[int], tuple[tuple[int, ...], tuple[int, ...]]]
    """Shapes of both inputs, for so many terms."""


TASKS = (
    Task("product", "aten.mm.default", multiplied, lambda a, b: a @ b.t(), lambda k: ((ROWS, k), (COLUMNS, k))),
    Task(
        "convolution", "aten.conv2d.default", convolved, conv2d,
        lambda k: ((1, k // 4, SIDE + 1, SIDE + 1), (COLUMNS, k // 4, 2, 2)),
    ),
)  # fmt: skip


def due(way: str, terms: int) -> frozenset[str]:
    """Tiers that are right.

    Half precision keeps as many bits as TF32: where nothing leaves its range, errors cannot tell them apart.
    """
    # A core cuts digits off at each step: what 512 terms lose is the same however many there are, while what an honest
    # order may lose grows with their number. In between either verdict is right.
    if way in ("3xTF32", SELDOM) and TERMS[0] < terms < MANY:
        return frozenset({"fp32", "tf32"})
    if way == "3xTF32" and terms >= MANY:
        return frozenset({"tf32"})
    if "3xTF32" in way or "fp32" in way:  # Triton's own is promoted after every block
        return frozenset({"fp32"})
    return {"TF32": frozenset({"tf32"}), "fp16": frozenset({"tf32", "reduced"})}.get(
        way, frozenset({"reduced"})
    )


def drawn(task: Task, terms: int, inputs: str, device: str) -> list[torch.Tensor]:
    """Both inputs."""
    rng = torch.Generator(device=device).manual_seed(SEED)
    draw = torch.rand if inputs == "uniform" else torch.randn
    found = [draw(shape, generator=rng, device=device) for shape in task.shapes(terms)]
    if inputs == "integers":
        families.apply(families.INTEGERS, found, (0, 1), rng)
    return found


def at_tier(task: Task, tier: Precision, values: list[torch.Tensor]) -> torch.Tensor:
    """Eager with the flags of a tier, as the judge's workers set them."""
    torch.backends.cuda.matmul.allow_tf32 = tier is not Precision.FP32
    torch.backends.cudnn.allow_tf32 = tier is not Precision.FP32
    return task.eager(*values)


def terms_known(task: Task, values: list[torch.Tensor], result: torch.Tensor) -> int:
    """The longest sum, as the judge reads it from a captured graph."""
    specs = [TensorSpec.contiguous(tuple(value.shape), "float32") for value in (*values, result)]
    inputs = tuple(
        GraphInput(name=name, spec=spec, leaf=k)
        for k, (name, spec) in enumerate(zip("ab", specs, strict=False))
    )
    node = Node(name="y", op=task.op, args=(Ref(node="a"), Ref(node="b")), outputs=(specs[2],))
    graph = Graph(
        inputs=inputs, state=(), nodes=(node,), outputs=(Ref(node="y"),), outputs_tree={"tensor": 0}
    )
    return longest_sum(graph, 0, 0)


def rows(task: Task, terms: int, inputs: str, device: str = "cuda") -> Iterator[dict[str, Any]]:
    """A row for each way."""
    values = drawn(task, terms, inputs, device)
    eager = {tier: at_tier(task, tier, values) for tier in TIERS}
    twin = task.eager(*(value.double() for value in values))
    longest = terms_known(task, values, twin)
    results = {LIBRARY: eager[Precision.FP32].clone()}
    results |= {name: task.ours(*values, way) for name, way in WAYS.items()}
    for name, result in results.items():
        found = [
            judge(
                Pool([result], [eager[tier]], [twin]),
                inputs,
                "output[0]",
                allowance(result.dtype, tier, longest),
            )
            for tier in TIERS
        ]
        tier = next((tier.value for tier, item in zip(TIERS, found, strict=True) if item.passed), "none")
        yield {
            "task": task.name, "terms": terms, "inputs": inputs, "way": name, "tier": tier,
            "rms": found[0].rms, "rms_eager": found[0].rms_eager, "limit": found[0].limit, "note": found[0].note,
        }  # fmt: skip


def verdicts(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The tier of each way over all inputs."""
    order = [*(tier.value for tier in TIERS), "none"]
    kinds = dict.fromkeys((row["task"], row["terms"], row["way"]) for row in found)
    for task, terms, way in kinds:
        mine = [row for row in found if (row["task"], row["terms"], row["way"]) == (task, terms, way)]
        tier = max((row["tier"] for row in mine), key=order.index)
        errors = {row["inputs"]: row["rms"] for row in mine}
        yield {
            "task": task, "terms": terms, "way": way, "tier": tier, "due": sorted(due(way, terms)),
            "rms": errors, "limit": mine[0]["limit"],
        }  # fmt: skip


def main() -> None:
    """Measure and write."""
    began = time.monotonic()
    found = [
        row for task in TASKS for terms in TERMS for inputs in INPUTS for row in rows(task, terms, inputs)
    ]
    told = list(verdicts(found))
    wrong = [item for item in told if item["tier"] not in item["due"]]
    document = {
        "command": "benchmarks/tiers.py",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(load_config(target="cuda")),
        "seconds": round(time.monotonic() - began, 1),
        "not_as_due": len(wrong),
        "tiers": told,
        "rows": found,
    }
    Path(sys.argv[1]).write_text(json.dumps(document, indent=1), encoding="utf-8")
    for item in told:
        errors = " ".join(f"{name} {rms or 0:.1e}" for name, rms in item["rms"].items())
        mark = f"  DUE: {' or '.join(item['due'])}" if item in wrong else ""
        where = f"{item['task']:12}{item['terms']:5} {item['way']:28}"
        print(f"{where}{item['tier']:8}{errors} (limit {item['limit'] or 0:.1e}){mark}")
    print(f"{len(wrong)} of {len(told)} not as due; {document['seconds']} s")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
