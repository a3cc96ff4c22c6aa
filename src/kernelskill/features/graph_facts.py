"""Facts that are read off a graph: how much of each structure is left, and what need not be there."""

from __future__ import annotations

import math
from collections import Counter

from kernelskill.errors import ProgramError
from kernelskill.features.dataflow import Dataflow
from kernelskill.features.operator_facts import layouts
from kernelskill.features.patterns import find_patterns
from kernelskill.program.rewrite import dead_nodes, remove_dead, simplify
from kernelskill.records import Graph, Node, Scalar, TensorSpec
from kernelskill.records.operators import family

_NO_WORK = frozenset({"view", "creation", "check", "kernel"})
"""Families that are no operator left to fuse."""

_WALKS = {"norm": 2, "softmax": 2}
"""Times that a library operator of a family reads its first operand, where it is more than once."""


def operators_left(graph: Graph) -> tuple[Node, ...]:
    """Live operators that compute or move data, in order."""
    return tuple(node for node in remove_dead(graph).nodes if family(node.op) not in _NO_WORK)


def graph_facts(graph: Graph) -> dict[str, Scalar]:
    """Structure of a whole program; kernels count as kernels, whatever is in them."""
    live = remove_dead(graph)
    left = operators_left(graph)
    counts = Counter(family(node.op) for node in left)
    patterns = find_patterns(live)
    loose = sum(family(node.op) == "reduction" and node.name not in patterns.members for node in left)
    return {
        "operators_left": len(left),
        "count_elementwise": counts["elementwise"],
        "count_reduction": loose,
        "count_softmax": counts["softmax"] + counts["attention"] + patterns.softmax,
        "count_norm": counts["norm"] + patterns.norm,
        "count_scan": counts["scan"],
        "count_pool": counts["pool"],
        "count_conv": counts["conv"],
        "count_matmul": counts["matmul"] + counts["attention"] + counts["recurrent"],
        **_simplification(live),
        "count_dead": len(dead_nodes(graph)),
        **_dataflow_facts(live),
        "is_training": graph.training,
        "has_state_updates": bool(graph.updates),
    }


def traffic_bytes(graph: Graph) -> int:
    """Bytes that operators and kernels read and write if each runs alone."""
    live = remove_dead(graph)
    specs = layouts(live)
    total = 0
    for node in live.nodes:
        if family(node.op) in _NO_WORK - {"kernel"}:
            continue
        read = [specs[ref] for ref in dict.fromkeys(node.refs()) if ref in specs]
        moved = read + read[:1] * (_WALKS.get(family(node.op), 1) - 1)
        results = node.outputs if family(node.op) == "kernel" else node.outputs[:1]
        moved += [spec for spec in results if spec is not None]
        total += sum(_occupied(spec) for spec in moved)
    return total


def _occupied(spec: TensorSpec) -> int:
    """Bytes of memory that a tensor occupies: an expanded axis counts once."""
    sizes = (size for size, step in zip(spec.shape, spec.stride, strict=True) if step)
    return math.prod(sizes) * spec.itemsize


def _dataflow_facts(live: Graph) -> dict[str, Scalar]:
    flow = Dataflow(live)
    return {
        "count_epilogue": len(flow.followed()),
        "count_batch_norm": len(flow.batch_norms()),
        "count_attention": len(flow.attentions()),
        "count_recurrent": len(flow.recurrences()),
        "count_linear_fold": len(flow.commuting_folds()),
        "count_masked_product": len(flow.masked_products()),
        "count_layout_copy": len(flow.layout_copies()),
        "count_slice": len(flow.single_use_slices()),
    }


def _simplification(live: Graph) -> dict[str, Scalar]:
    """Nodes fewer after simplification, and rules that it applies; nothing is known if it does not end."""
    try:
        simple, changes = simplify(live)
    except ProgramError:
        return {}
    return {
        "count_noop": max(0, len(live.nodes) - len(remove_dead(simple).nodes)),
        "count_rewrite": len(changes),
    }
