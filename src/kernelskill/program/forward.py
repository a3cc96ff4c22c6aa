"""The rewritten graph as the body of `forward`: one readable statement a node, kernels by their names."""

from __future__ import annotations

import keyword
import re

from kernelskill.program.arguments import attribute, bound_arguments, spelled, tensor_paths
from kernelskill.program.program import Program
from kernelskill.records import Arg, GraphState, Json, Node, NonFinite, Ref, Workload

INFIX = {"add.Tensor": "+", "sub.Tensor": "-", "mul.Tensor": "*", "div.Tensor": "/", "add.Scalar": "+",
         "sub.Scalar": "-", "mul.Scalar": "*", "div.Scalar": "/"}  # fmt: skip
FUNCTIONS = {
    "mm.default": "torch.mm", "bmm.default": "torch.bmm", "addmm.default": "torch.addmm", "relu.default": "torch.relu",
    "cat.default": "torch.cat", "permute.default": "torch.permute", "tanh.default": "torch.tanh",
    "sigmoid.default": "torch.sigmoid", "exp.default": "torch.exp", "flip.default": "torch.flip",
    "unsqueeze.default": "torch.unsqueeze", "squeeze.dim": "torch.squeeze", "cumsum.default": "torch.cumsum",
}  # fmt: skip
"""Overloads with a familiar spelling that takes the same arguments in the same order."""
METHODS = {"view.default": "view", "expand.default": "expand", "clone.default": "clone"}


class Forward:
    """Names values and spells statements."""

    def __init__(
        self,
        program: Program,
        workload: Workload,
        parameters: list[str],
        indexed: bool = True,
        on_gpu: bool = False,
    ) -> None:
        self.indexed = indexed
        self.on_gpu = on_gpu
        self.program = program
        self.workload = workload
        self.taken = {*parameters, *(kernel.name for kernel in program.kernels), "self", "torch", "F", "nn"}
        self.names: dict[tuple[str, int], str] = {}
        self.parameters = parameters

    def lines(self) -> list[str]:
        """Statements of the body, the return included."""
        graph = self.program.graph
        uses, counted = self._uses(), self._counted()
        paths = self._input_paths()
        for name, path in paths.items():
            self.names[name, 0] = path
        device = f", device={next(iter(paths.values()))}.device" if self.on_gpu and paths else ""
        for state in graph.state:
            if state.kind != "constant":
                self.names[state.name, 0] = attribute(state.path, self.indexed)
        lines = [
            f"{self._bind(state.name, 0)} = {_constant(state, device)}"
            for state in graph.state
            if state.kind == "constant" and uses.get((state.name, 0))
        ]
        for node in graph.nodes:
            if _is_transposed(node) and uses.get((node.name, 0)) == 1:
                self.names[node.name, 0] = f"{self._arg(node.args[0])}.t()"
            elif node.name not in counted:
                lines.append(self._statement(node, uses))
        lines += [f"{attribute(path, self.indexed)} += {step}" for path, step in counted.values()]
        lines += [
            f"{attribute(path, self.indexed)}.copy_({self._ref(ref)})"
            for path, ref in graph.updates.items()
            if ref.node not in counted
        ]
        result = self._result()
        if lines and lines[-1].startswith(f"{result} = ") and result.isidentifier():
            return [*lines[:-1], f"return {lines[-1].removeprefix(f'{result} = ')}"]
        return [*lines, f"return {result}"]

    def _counted(self) -> dict[str, tuple[str, Arg]]:
        """Nodes that only add a number to a buffer (batches seen), with the buffer's path."""
        graph, uses = self.program.graph, self._uses()
        paths = {state.name: state.path for state in graph.state}
        nodes = {node.name: node for node in graph.nodes if node.op == "aten.add.Tensor" and not node.kwargs}
        found: dict[str, tuple[str, Arg]] = {}
        for path, ref in graph.updates.items():
            node = nodes.get(ref.node)
            if node is None or uses[ref.node, 0] != 1 or isinstance(node.args[1], Ref):
                continue
            buffer = node.args[0]
            if isinstance(buffer, Ref) and paths.get(buffer.node) == path and uses[buffer.node, 0] == 1:
                found[node.name] = (path, node.args[1])
        return found

    def _statement(self, node: Node, uses: dict[tuple[str, int], int]) -> str:
        used = [output for output in range(len(node.outputs)) if uses.get((node.name, output))]
        call = self._call(node)
        if len(node.outputs) == 1:
            return f"{self._bind(node.name, 0)} = {call}" if used else call
        if used == [0] and not node.op.startswith("kernel:"):
            return f"{self._bind(node.name, 0)} = {call}[0]"
        targets = [
            self._bind(node.name, output) if output in used else "_" for output in range(len(node.outputs))
        ]
        return f"{', '.join(targets)} = {call}"

    def _call(self, node: Node) -> str:
        args = [self._arg(arg) for arg in node.args]
        kwargs = [f"{key}={self._keyword(key, arg)}" for key, arg in node.kwargs.items()]
        if node.op.startswith("kernel:"):
            return f"{node.op.removeprefix('kernel:')}({', '.join(args)})"
        overload = node.op.removeprefix("aten.")
        if overload in INFIX and len(args) == 2 and not kwargs:
            return f"{args[0]} {INFIX[overload]} {args[1]}"
        if overload in METHODS:
            return f"{args[0]}.{METHODS[overload]}({', '.join([*args[1:], *kwargs])})"
        if overload == "_to_copy.default" and set(node.kwargs) == {"dtype"}:
            return f"{args[0]}.to({self._keyword('dtype', node.kwargs['dtype'])})"
        spelled = FUNCTIONS.get(overload, f"torch.ops.aten.{overload}")
        return f"{spelled}({', '.join([*args, *kwargs])})"

    def _arg(self, arg: Arg) -> str:
        if isinstance(arg, Ref):
            return self._ref(arg)
        if isinstance(arg, tuple):
            return f"[{', '.join(self._arg(item) for item in arg)}]"
        if isinstance(arg, NonFinite):
            return f'float("{arg.number}")'
        return _torch_name(arg) if isinstance(arg, str) else repr(arg)

    def _keyword(self, key: str, arg: Arg) -> str:
        if key == "device" and isinstance(arg, str):
            return f'"{arg}"'
        return self._arg(arg)

    def _ref(self, ref: Ref) -> str:
        return self.names[ref.node, ref.output]

    def _bind(self, node: str, output: int) -> str:
        base = re.sub(r"\W", "_", node if output == 0 else self._result_name(node, output))
        base = base.removesuffix("_out") if base.removesuffix("_out") not in self.taken else base
        name, number = base, 1
        while name in self.taken or keyword.iskeyword(name):
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        self.names[node, output] = name
        return name

    def _result_name(self, node: str, output: int) -> str:
        """What a further result of a node is called: as the kernel calls it, if it is a kernel's."""
        op = next(item.op for item in self.program.graph.nodes if item.name == node)
        named = {kernel.name: kernel.region for kernel in self.program.kernels}
        region = named.get(op.removeprefix("kernel:"))
        name = region.outputs[output].name if region else ""
        return name if name and not name.startswith("out") else f"{node}_{output}"

    def _uses(self) -> dict[tuple[str, int], int]:
        graph = self.program.graph
        counts: dict[tuple[str, int], int] = {}
        refs = [ref for node in graph.nodes for ref in node.refs()]
        refs += [arg for arg in graph.outputs if isinstance(arg, Ref)]
        refs += list(graph.updates.values())
        for ref in refs:
            counts[ref.node, ref.output] = counts.get((ref.node, ref.output), 0) + 1
        return counts

    def _input_paths(self) -> dict[str, str]:
        """How each tensor input is reached from forward's parameters."""
        given = bound_arguments(self.workload, self.parameters)
        paths = {leaf: path for name, part in given.items() for leaf, path in tensor_paths(part, name)}
        return {item.name: paths[item.leaf] for item in self.program.graph.inputs}

    def _result(self) -> str:
        graph = self.program.graph

        def build(part: Json) -> str:
            if "tensor" in part:
                return self._arg(graph.outputs[part["tensor"]])
            if "value" in part:
                return repr(part["value"])
            if "list" in part:
                return f"[{', '.join(build(item) for item in part['list'])}]"
            if "tuple" in part:
                items = ", ".join(build(item) for item in part["tuple"])
                return f"({items}{',' if len(part['tuple']) == 1 else ''})"
            if "dict" in part:
                return "{" + ", ".join(f"{key!r}: {build(item)}" for key, item in part["dict"].items()) + "}"
            fields = ", ".join(f"{key}={build(item)}" for key, item in part["fields"].items())
            return f"{part['object']}({fields})"

        return build(graph.outputs_tree)


def _constant(state: GraphState, device: str) -> str:
    """A constant's tensor; one number is filled in on a GPU, as copying it there makes the host wait."""
    given = f"dtype=torch.{state.spec.dtype}{device}"
    value = state.value
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if device and not isinstance(value, list):
        return f"torch.full({spelled(state.spec.shape)}, {value!r}, {given})"
    return f"torch.tensor({state.value!r}, {given})"


def _is_transposed(node: Node) -> bool:
    """Whether a node is a matrix's transpose, which reads best where it is used."""
    return node.op == "aten.permute.default" and node.args[1] == (1, 0) and isinstance(node.args[0], Ref)


def _torch_name(text: str) -> str:
    names = {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
             "strided", "channels_last", "channels_last_3d", "contiguous_format", "preserve_format"}  # fmt: skip
    return f"torch.{text}" if text in names else repr(text)
