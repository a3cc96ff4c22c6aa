"""Small models as programs: exported by torch, fused, compiled together, and run node by node."""

from __future__ import annotations

import copy
import ctypes
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from graph_arguments import argument
from torch import nn

from kernelskill.program import fusion
from kernelskill.program.cpp import source
from kernelskill.program.program import Kernel, Program
from kernelskill.records import Graph, GraphInput, GraphState, Node, NonFinite, Ref, TensorSpec

FLAGS = ["-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi",
         "-Wno-maybe-uninitialized", "-Wno-uninitialized"]  # fmt: skip
ORDER: tuple[fusion.Kind, ...] = ("softmax", "rows", "reduction", "elementwise")


class Computes(nn.Module):
    """A function (of the modules it holds, and inputs) as a module."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.held = nn.ModuleList(modules)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*self.held, *inputs)


def layout(value: Any) -> TensorSpec | None:
    if not isinstance(value, torch.Tensor):
        return None
    return TensorSpec(shape=tuple(value.shape), dtype=str(value.dtype)[6:], stride=tuple(value.stride()))


def export(model: nn.Module, inputs: list[torch.Tensor]) -> Graph:
    """What torch.export sees of a model in train mode."""
    table = {k: v for k, v in torch.export.default_decompositions().items() if "nll_loss" not in str(k)}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.export warns about its own internals
        exported = torch.export.export(model, tuple(inputs), strict=False).run_decompositions(table)
    values: dict[str, Ref] = {}

    def argument(item: Any) -> Any:
        if isinstance(item, torch.fx.Node):
            return values[item.name]
        if isinstance(item, (list, tuple)):
            return tuple(map(argument, item))
        if isinstance(item, float) and (item != item or item in (float("inf"), -float("inf"))):
            return NonFinite(number=str(item))  # type: ignore[arg-type]
        return (
            item
            if isinstance(item, (int, float, bool, str, type(None)))
            else str(item).removeprefix("torch.")
        )

    signature = exported.graph_signature
    of = {item.arg.name: item for item in signature.input_specs}
    read: list[GraphInput] = []
    state: list[GraphState] = []
    nodes: list[Node] = []
    results: list[Any] = []
    for node in exported.graph.nodes:
        values[node.name] = Ref(node=node.name)
        if node.op == "placeholder":
            spec = layout(node.meta["val"])
            assert spec is not None
            if of[node.name].kind.name == "USER_INPUT":
                read.append(GraphInput(name=node.name, spec=spec, leaf=len(read)))
            else:
                kind = "parameter" if of[node.name].kind.name == "PARAMETER" else "buffer"
                path = of[node.name].target or node.name
                constant = exported.constants.get(path)
                value = constant.tolist() if of[node.name].kind.name == "CONSTANT_TENSOR" else None
                kind = "constant" if value is not None else kind
                state.append(GraphState(name=node.name, path=path, spec=spec, kind=kind, value=value))  # type: ignore[arg-type]
        elif node.op == "call_function" and node.target.__name__ == "getitem":
            values[node.name] = Ref(node=node.args[0].name, output=node.args[1])
        elif node.op == "call_function":
            if "val" not in node.meta:
                continue
            given = node.meta["val"]
            given = given if isinstance(given, (list, tuple)) else [given]
            nodes.append(
                Node(
                    name=node.name, op=str(node.target), args=tuple(map(argument, node.args)),
                    kwargs={key: argument(item) for key, item in node.kwargs.items()},
                    outputs=tuple(map(layout, given)),
                )
            )  # fmt: skip
        elif node.op == "output":
            results = [argument(item) for item in node.args[0]]
    kinds = [item.kind.name for item in signature.output_specs]
    outputs = [item for item, kind in zip(results, kinds, strict=True) if kind == "USER_OUTPUT"]
    targets = [item.target for item in signature.output_specs]
    return Graph(
        inputs=tuple(read), state=tuple(state), nodes=tuple(nodes), outputs=tuple(outputs),
        outputs_tree={"tuple": [{"tensor": k} for k in range(len(outputs))]} if len(outputs) > 1 else {"tensor": 0},
        updates={t: r for t, r, k in zip(targets, results, kinds, strict=True) if k == "BUFFER_MUTATION"},
    )  # fmt: skip


@dataclass
class Case:
    """A model with an example of its inputs, and the program made of it."""

    name: str
    model: nn.Module
    inputs: list[torch.Tensor]
    order: tuple[fusion.Kind, ...] = ORDER
    schedule: dict[str, Any] = field(default_factory=dict)
    threads: int = 2
    program: Program = field(init=False)

    def fuse(self, graph: Graph | None = None) -> None:
        program = Program.from_graph(graph or export(self.model.train(), self.inputs))
        for kind in self.order:
            for site in fusion.sites(program, kind):
                title = f"{self.name}_{len(program.kernels)}"
                program = fusion.fuse(program, site, name=title, skill=f"fuse-{kind}")
        for kernel in program.kernels:
            schedule = kernel.schedule.model_copy(update=self.schedule)
            program = program.with_kernel(kernel.model_copy(update={"schedule": schedule}))
        self.program = program

    @property
    def left(self) -> list[str]:
        """Operators that stay outside kernels."""
        return [node.op for node in self.program.graph.nodes if not node.op.startswith("kernel:")]


def flat(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Several(nn.Module):
    """Many models side by side: one export of all is much quicker than an export of each."""

    def __init__(self, cases: list[Case]) -> None:
        super().__init__()
        self.models = nn.ModuleList([case.model for case in cases])
        self.counts = [len(case.inputs) for case in cases]
        with torch.no_grad():
            self.results = [len(flat(copy.deepcopy(case.model)(*case.inputs))) for case in cases]

    def first_input(self, number: int) -> int:
        return sum(self.counts[:number])

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs: list[torch.Tensor] = []
        for number, model in enumerate(self.models):
            first = self.first_input(number)
            outputs += flat(model(*inputs[first : first + self.counts[number]]))
        return tuple(outputs)


def part_of(graph: Graph, several: Several, number: int) -> Graph:
    """The graph of one of several models."""
    first, prefix = several.first_input(number), f"models.{number}."
    at = sum(several.results[:number])
    outputs = graph.outputs[at : at + several.results[number]]
    updates = {
        path.removeprefix(prefix): ref for path, ref in graph.updates.items() if path.startswith(prefix)
    }
    needed = {ref.node for ref in (*outputs, *updates.values()) if isinstance(ref, Ref)}
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed |= {ref.node for ref in node.refs()}
    inputs = graph.inputs[first : first + several.counts[number]]
    return graph.model_copy(
        update={
            "inputs": tuple(item.model_copy(update={"leaf": item.leaf - first}) for item in inputs),
            "state": tuple(
                item.model_copy(update={"path": item.path.removeprefix(prefix)})
                for item in graph.state
                if item.name in needed or item.path.startswith(prefix)
            ),
            "nodes": tuple(node for node in graph.nodes if node.name in needed),
            "outputs": outputs,
            "outputs_tree": None,
            "updates": updates,
        }
    )


def compiled(cases: list[Case], folder: Path) -> dict[str, tuple[Case, ctypes.CDLL]]:
    """All kernels of all cases in one library."""
    several = Several(cases)
    graph = export(several.train(), [tensor for case in cases for tensor in case.inputs])
    for number, case in enumerate(cases):
        case.fuse(part_of(graph, several, number))
    library = build([kernel for case in cases for kernel in case.program.kernels], folder)
    return {case.name: (case, library) for case in cases}


def build(kernels: list[Kernel], folder: Path) -> ctypes.CDLL:
    text = folder / "kernels.cpp"
    text.write_text(source(tuple(kernels)))
    command = [
        "g++",
        *FLAGS,
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        str(text),
        "-o",
        str(folder / "kernels.so"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return ctypes.CDLL(str(folder / "kernels.so"))


def run(case: Case, library: ctypes.CDLL) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Outputs, and new values of buffers."""
    graph = case.program.graph
    values: dict[str, list[Any]] = {}
    for read, tensor in zip(graph.inputs, case.inputs, strict=True):
        values[read.name] = [tensor]
    held = dict(case.model.named_parameters()) | dict(case.model.named_buffers())
    for item in graph.state:
        constant = item.kind == "constant"
        value = (
            torch.tensor(item.value, dtype=getattr(torch, item.spec.dtype)) if constant else held[item.path]
        )
        values[item.name] = [value.detach()]

    given = partial(argument, values=values)
    for node in graph.nodes:
        if node.op.startswith("kernel:"):
            reads = [given(arg) for arg in node.args]
            results = [poisoned(spec) for spec in node.outputs if spec is not None]
            pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (*reads, *results)]
            getattr(library, node.op.removeprefix("kernel:"))(*pointers, case.threads)
            values[node.name] = results
        else:
            _, name, overload = node.op.split(".")
            operator = getattr(getattr(torch.ops.aten, name), overload)
            with torch.no_grad():
                result = operator(*map(given, node.args), **{k: given(v) for k, v in node.kwargs.items()})
            values[node.name] = list(result) if isinstance(result, (tuple, list)) else [result]
    return [given(ref) for ref in graph.outputs], {path: given(ref) for path, ref in graph.updates.items()}


def poisoned(spec: TensorSpec) -> torch.Tensor:
    return torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype)).fill_(77)


def exact(case: Case) -> tuple[list[torch.Tensor], dict[str, torch.Tensor], list[torch.Tensor]]:
    """What float64 gives (outputs, buffers), and what eager gives."""

    with torch.no_grad():
        eager = flat(copy.deepcopy(case.model)(*case.inputs))
        precise = copy.deepcopy(case.model).double()
        outputs = flat(precise(*(x.double() if x.is_floating_point() else x for x in case.inputs)))
    return outputs, dict(precise.named_buffers()), eager


def rms(value: torch.Tensor) -> float:
    return float(value.double().square().mean().sqrt()) if value.numel() else 0.0


def check(case: Case, library: ctypes.CDLL, slack: float = 2.0) -> None:
    """Run a case's kernels and compare what they give."""
    compare(case, *run(case, library), slack=slack)


def compare(
    case: Case,
    outputs: Any,
    updates: dict[str, torch.Tensor],
    slack: float,
    units: float = 0.5,
    buffer: float = 1e-6,
) -> None:
    """Every output as accurate as eager's (within `slack` in root mean square) and with its non-finite pattern.

    `units`: roundings that are allowed on top; `buffer`: relative error of buffers.
    """
    wanted, buffers, eager = exact(case)
    assert len(outputs) == len(wanted)
    for ours, true, stock in zip(outputs, wanted, eager, strict=True):
        assert ours.shape == true.shape
        assert ours.dtype == stock.dtype
        if not ours.dtype.is_floating_point:
            assert torch.equal(ours, stock)
            continue
        assert torch.equal(ours.isnan(), stock.isnan())
        assert torch.equal(ours.isposinf(), stock.isposinf())
        assert torch.equal(ours.isneginf(), stock.isneginf())
        finite = stock.isfinite()
        scale = rms(true[finite])
        error, own = rms(ours[finite].double() - true[finite]), rms(stock[finite].double() - true[finite])
        unit = torch.finfo(ours.dtype).eps
        floor = (
            units if ours.numel() > 16 else 4.0
        ) * unit * scale + 1e-40  # a few numbers make no statistic
        assert error <= slack * own + floor, f"{case.name}: {error / scale:.2e} against {own / scale:.2e}"
    for path, value in updates.items():
        assert torch.allclose(value.double(), buffers[path].double(), rtol=buffer, atol=buffer / 10), path
