"""Candidates whose kernels hold rows in clusters of blocks: captured, fused, printed and loaded."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch

from kernelskill.evaluation.worker.capture import capture
from kernelskill.program import Program, fusion, write
from kernelskill.program.cuda.clusters import fitting
from kernelskill.program.triton.printer import TRITON
from kernelskill.records import Reference, Task, TensorSpec, Workload

ORDER: tuple[fusion.Kind, ...] = ("softmax", "rows", "reduction", "elementwise")
HEAD = "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"


def forward(parameters: str, result: str) -> str:
    """Text of a model without state."""
    return f"{HEAD}    def forward(self, {parameters}):\n        return {result}\n"


def layer(text: str) -> str:
    """Text of a model of one layer."""
    return (
        f"{HEAD}    def __init__(self):\n        super().__init__()\n        self.layer = {text}\n\n"
        "    def forward(self, x):\n        return self.layer(x)\n"
    )


SOFTMAX = forward("x", "torch.softmax(x, -1)")
LOG_SOFTMAX = forward("x", "torch.log_softmax(x * 0.5 + 1, -1)")
RMS = forward("x", "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)")
SCALED = forward(
    "x", "(x - x.amin(-1, keepdim=True)) / (x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True))"
)
MASKED = forward("x, m", "torch.where(m, x, 0.0) / x.abs().mean(1, keepdim=True)")


def spec(tensor: torch.Tensor) -> TensorSpec:
    """Layout of a tensor."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(shape=tuple(tensor.shape), dtype=dtype, stride=tuple(tensor.stride()))


def traced(source: str, inputs: list[torch.Tensor]) -> tuple[Program, Task, Workload]:
    """The fused program of a text's `Model`, which must be one kernel. Tensors may be on `meta`."""
    names: dict[str, Any] = {}
    exec(source, names)
    with torch.device("meta"):
        model = names["Model"]()
    shapes = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for x in inputs]
    graph = capture(model, tuple(shapes), {})
    graph["outputs_tree"] = {"tensor": 0}
    program = Program.model_validate({"graph": graph})
    for kind in ORDER:
        for site in fusion.sites(program, kind):
            program = fusion.fuse(program, site, name=f"rows_{len(program.kernels)}", skill=f"fuse-{kind}")
    assert len(program.kernels) == 1, program.graph.nodes
    (out,) = program.kernels[0].outputs
    reference = Reference(loader="source", kind="module", entry="Model", source=source)
    task = Task(name="rows", hash="0" * 64, origin="rows", reference=reference)
    workload = Workload(
        inputs=tuple(map(spec, inputs)), inputs_tree={"list": [{"tensor": i} for i in range(len(inputs))]},
        outputs=(out,), outputs_tree={"tensor": 0}, state=(), eager_ms=1.0, init_args={"list": []},
    )  # fmt: skip
    return program, task, workload


def in_clusters(program: Program, parts: int | None = None, **gpu: Any) -> Program:
    """The program with its kernel in clusters of a size that fits (the best guess, if None)."""
    (kernel,) = program.kernels
    chosen = {"cluster": parts or fitting(kernel)[0], **gpu}
    schedule = kernel.schedule.model_copy(update={"gpu": kernel.schedule.gpu.model_copy(update=chosen)})
    return program.with_kernel(kernel.model_copy(update={"schedule": schedule}))


def candidate(
    source: str, inputs: list[torch.Tensor], folder: Path, parts: int | None = None
) -> dict[str, Any]:
    """Names of a candidate's file; its reference must not be called."""
    program, task, workload = traced(source, inputs)
    return imported(write(in_clusters(program, parts), task, workload, TRITON), folder)


def imported(text: str, folder: Path) -> dict[str, Any]:
    """Names of a file; Triton reads its functions' text from there."""
    path = folder / "candidate.py"
    path.write_text(text)
    found = importlib.util.spec_from_file_location("candidate_in_test", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return vars(module)
