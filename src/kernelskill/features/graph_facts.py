"""Facts that are read off a graph: how much of each structure is left, and what need not be there."""

from __future__ import annotations

from collections import Counter

from kernelskill.errors import ProgramError
from kernelskill.features.patterns import find_patterns
from kernelskill.program.rewrite import dead_nodes, remove_dead, simplify
from kernelskill.records import Graph, Node, Scalar
from kernelskill.records.operators import family

_NO_WORK = frozenset({"view", "creation", "check", "kernel"})
"""Families that are no operator left to fuse."""


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
        "count_noop": _removable(live),
        "count_dead": len(dead_nodes(graph)),
        "is_training": graph.training,
        "has_state_updates": bool(graph.updates),
    }


def _removable(live: Graph) -> int | None:
    """Nodes fewer after simplification; None if that does not end."""
    try:
        simple, _ = simplify(live)
    except ProgramError:
        return None
    return max(0, len(live.nodes) - len(remove_dead(simple).nodes))
