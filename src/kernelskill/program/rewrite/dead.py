"""Dead code: nodes whose results reach neither an output nor a buffer."""

from __future__ import annotations

from kernelskill.program.rewrite.editor import CHECKS, RANDOM, function
from kernelskill.records.graph import Graph, Ref


def dead_nodes(graph: Graph) -> tuple[str, ...]:
    """Names of the nodes that may go, in order.

    A buffer's new value is a result. A random operator stays while another one lives: taking it out would
    shift the numbers that the other one draws. Checks of values at run time stay.
    """
    live = {value.node for value in graph.outputs if isinstance(value, Ref)}
    live |= {ref.node for ref in graph.updates.values()}
    _spread(graph, live)
    if any(node.name in live and function(node) in RANDOM for node in graph.nodes):
        live |= {node.name for node in graph.nodes if function(node) in RANDOM}
    live |= {node.name for node in graph.nodes if function(node) in CHECKS}
    _spread(graph, live)
    return tuple(node.name for node in graph.nodes if node.name not in live)


def _spread(graph: Graph, live: set[str]) -> None:
    for node in reversed(graph.nodes):
        if node.name in live:
            live.update(ref.node for ref in node.refs())


def remove_dead(graph: Graph) -> Graph:
    """The graph without its dead nodes; inputs, state and buffer updates are untouched."""
    dead = set(dead_nodes(graph))
    return graph.model_copy(update={"nodes": tuple(n for n in graph.nodes if n.name not in dead)})
