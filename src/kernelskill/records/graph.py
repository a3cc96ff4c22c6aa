"""The captured reference: a list of ATen calls as plain data, so that no room needs torch to read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from typing_extensions import TypeAliasType

from kernelskill.records.base import Json, Record
from kernelskill.records.tensors import TensorSpec


class Ref(Record):
    """A use of a value: the `output`-th result of the node `node`."""

    node: str
    output: int = 0


class NonFinite(Record):
    """A number that JSON cannot spell (masked_fill with -inf)."""

    number: Literal["inf", "-inf", "nan"]


Arg = TypeAliasType("Arg", "Ref | NonFinite | bool | int | float | str | tuple[Arg, ...] | None")
"""An argument of a node. Dtypes, layouts, devices and memory formats are strings ("float32", "cpu")."""


class Node(Record):
    """One call. `op` is an ATen overload ("aten.mul.Tensor"), or "kernel:<name>" after rewriting."""

    name: str
    """Unique in its graph, a valid Python identifier."""
    op: str
    args: tuple[Arg, ...] = ()
    kwargs: dict[str, Arg] = {}
    outputs: tuple[TensorSpec | None, ...]
    """One entry per result; None for a result that is not a tensor."""
    origin: str = ""
    """Dotted path of the submodule that it came from ("encoder.norm1"), for readable names."""

    def refs(self) -> Iterator[Ref]:
        """All values used, in order, with repeats."""
        yield from _refs(self.args)
        yield from _refs(tuple(self.kwargs.values()))


def _refs(value: Arg) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _refs(item)


class GraphInput(Record):
    """A tensor argument of forward; `leaf` is its position among the flattened inputs."""

    name: str
    spec: TensorSpec
    leaf: int


class GraphState(Record):
    """A parameter, buffer or lifted constant; `path` is its qualified name ("conv.weight")."""

    name: str
    path: str
    spec: TensorSpec
    kind: Literal["parameter", "buffer", "constant"]
    value: Json = None
    """For a constant: nested lists of its elements (only small ones are captured)."""


class Graph(Record):
    """A forward pass in single-assignment form. Names of inputs, state and nodes share one space."""

    inputs: tuple[GraphInput, ...]
    state: tuple[GraphState, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Arg, ...]
    """Flattened results in order of the output tree; tensors are Refs."""
    outputs_tree: Json
    """Nesting of the results: see `records.task` for the encoding."""
    updates: dict[str, Ref] = {}
    """Buffers that forward rewrites: qualified name -> new value (BatchNorm running statistics)."""
    training: bool = True
    """Mode in which the reference was captured (KernelBench never leaves train mode)."""

    def spec(self, ref: Ref) -> TensorSpec:
        """The layout of a value. Raises KeyError for an unknown or non-tensor value."""
        outside: tuple[GraphInput | GraphState, ...] = (*self.inputs, *self.state)
        for value in outside:
            if value.name == ref.node:
                return value.spec
        for node in self.nodes:
            if node.name == ref.node:
                spec = node.outputs[ref.output]
                if spec is not None:
                    return spec
        raise KeyError(f"{ref.node}[{ref.output}]")
