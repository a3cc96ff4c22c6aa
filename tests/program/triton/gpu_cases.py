"""Programs printed in Triton, run in its interpreter or compiled ahead of time, all cases of a file in one process."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from small_programs import Case, Several, compare, export, part_of

from kernelskill.program.triton.source import IMPORTS, sections

WORKER = Path(__file__).with_name("triton_worker.py")


def fused(cases: list[Case], gpu: dict[str, dict[str, Any]] | None = None) -> None:
    """Fuse every case; `gpu` gives schedules by name."""
    several = Several(cases)
    graph = export(several.train(), [tensor for case in cases for tensor in case.inputs])
    for number, case in enumerate(cases):
        case.fuse(part_of(graph, several, number))
        for kernel in case.program.kernels:
            chosen = kernel.schedule.gpu.model_copy(update=(gpu or {}).get(case.name, {}))
            schedule = kernel.schedule.model_copy(update={"gpu": chosen})
            case.program = case.program.with_kernel(kernel.model_copy(update={"schedule": schedule}))


def job(case: Case) -> dict[str, Any]:
    """What the worker needs of a case."""
    graph = case.program.graph
    values = {read.name: [tensor] for read, tensor in zip(graph.inputs, case.inputs, strict=True)}
    held = dict(case.model.named_parameters()) | dict(case.model.named_buffers())
    for item in graph.state:
        constant = item.kind == "constant"
        value = (
            torch.tensor(item.value, dtype=getattr(torch, item.spec.dtype)) if constant else held[item.path]
        )
        values[item.name] = [value.detach().clone()]
    source = "\n\n\n".join([IMPORTS, *sections(case.program.kernels)])
    return {"name": case.name, "graph": graph, "values": values, "source": source}


def worked(kind: str, jobs: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """What the worker gives for these jobs."""
    torch.save(jobs, folder / "jobs")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(WORKER.parents[1])
    environment.pop("TRITON_INTERPRET", None)
    if kind == "interpret":
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, str(WORKER), kind, str(folder / "jobs"), str(folder / "results")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, Any] = torch.load(folder / "results", weights_only=False)
    return results


def unused(source: str) -> list[str]:
    """Names that a function of a source assigns and never reads, and loops of one pass."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        found += [f"{function.name}: {node.id}" for node in names if node.id not in read | {"_"}]
        found += [
            f"{function.name}: {argument.arg}" for argument in function.args.args if argument.arg not in read
        ]
        loops = [node for node in ast.walk(function) if isinstance(node, ast.For)]
        found += [
            f"{function.name}: {ast.unparse(loop.iter)}"
            for loop in loops
            if "range(1)" in ast.unparse(loop.iter)
        ]
    return found


def check(case: Case, result: Any, slack: float = 2.0) -> None:
    """What the worker gave, compared as the CPU's kernels are; devices round special functions a little more."""
    assert not isinstance(result, str), result
    compare(case, *result, slack=slack, units=2.0, buffer=1e-5)
