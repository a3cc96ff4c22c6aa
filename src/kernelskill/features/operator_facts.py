"""Facts of one operator that is left in a graph: its kind, its share of the floor, the shape of its work."""

from __future__ import annotations

from collections.abc import Mapping

from kernelskill.records import Arg, Floor, Graph, Node, Ref, Scalar, TensorSpec
from kernelskill.records.operators import family

Layouts = Mapping[Ref, TensorSpec]


def layouts(graph: Graph) -> dict[Ref, TensorSpec]:
    """Layout of every tensor value of a graph."""
    specs = {Ref(node=item.name): item.spec for item in graph.inputs}
    specs |= {Ref(node=item.name): item.spec for item in graph.state}
    for node in graph.nodes:
        specs |= {
            Ref(node=node.name, output=index): spec
            for index, spec in enumerate(node.outputs)
            if spec is not None
        }
    return specs


def operator_facts(node: Node, specs: Layouts) -> dict[str, Scalar]:
    """What can be read off one node; only a product and a convolution have facts of their own."""
    kind = family(node.op)
    facts: dict[str, Scalar] = {"op": node.op, "op_family": kind}
    if kind == "conv" and node.op.startswith("aten.convolution."):
        return facts | _convolution(node, specs)
    if kind == "matmul":
        return facts | _product(node, specs)
    return facts


def expected_shares(nodes: tuple[Node, ...], floor: Floor) -> dict[str, float]:
    """Share of each operator in the time that all need at least if each runs alone; empty where nothing is known.

    A guess at where the time goes before anything was timed: bytes and arithmetic at this machine's ceilings.
    """
    alone = {node.name: floor.per_node.get(node.name, 0.0) for node in nodes}
    total = sum(alone.values())
    return {name: value / total for name, value in alone.items()} if total > 0 else {}


HEAVY = frozenset({"matmul", "conv", "attention", "recurrent"})
"""Families that do much arithmetic for a byte, which fusing their neighbours does not change."""


def fusable_share(nodes: tuple[Node, ...], floor: Floor) -> float | None:
    """Share of what is no product or the like in the time that all need at least; None where nothing is known."""
    shares = expected_shares(nodes, floor)
    return sum(shares[node.name] for node in nodes if family(node.op) not in HEAVY) if shares else None


def _convolution(node: Node, specs: Layouts) -> dict[str, Scalar]:
    """`aten.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)`."""
    if len(node.args) < 9:
        return {}
    weight, stride, transposed, groups = node.args[1], node.args[3], node.args[6], node.args[8]
    shape = _shape(weight, specs)
    if len(shape) < 3 or not isinstance(groups, int):
        return {}
    # The second axis of a weight counts channels of a group; a transposed one has its input channels first.
    channels = shape[0] // groups if transposed else shape[1]
    taps = 1
    for size in shape[2:]:
        taps *= size
    return {
        "conv_transposed": bool(transposed),
        "conv_groups": groups,
        "conv_channels": channels,
        "conv_taps": taps,
        "conv_stride": max((step for step in _numbers(stride)), default=1),
    }


def _product(node: Node, specs: Layouts) -> dict[str, Scalar]:
    """Rows, columns and depth of a matrix product, rows and columns of one matrix of a batch."""
    shapes = [shape for shape in (_shape(item, specs) for item in node.args) if len(shape) >= 2]
    if len(shapes) < 2:
        return {}
    left, right = shapes[-2:]
    return {"product_rows": left[-2], "product_columns": right[-1], "product_depth": left[-1]}


def _shape(value: Arg, specs: Layouts) -> tuple[int, ...]:
    return specs[value].shape if isinstance(value, Ref) and value in specs else ()


def _numbers(value: Arg) -> tuple[int, ...]:
    return tuple(item for item in value if isinstance(item, int)) if isinstance(value, tuple) else ()
