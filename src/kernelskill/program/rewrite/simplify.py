"""Apply the identities and the algebra until nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from kernelskill.errors import ProgramError
from kernelskill.program.rewrite import algebra, identities
from kernelskill.program.rewrite.editor import RANDOM, Editor, function
from kernelskill.records.graph import Graph, Node, Ref

Level = Literal["exact", "rounding"]
"""exact: bit for bit, but for the sign of zero. rounding: float32 results may move by about an ulp."""

Rule = Callable[[Editor, Node], Node | Ref | None]
_EXACT: tuple[Rule, ...] = (
    identities.copy,
    identities.neutral,
    identities.same_shape,
    identities.inverse_pair,
    identities.size_one,
    identities.logsumexp_of_one,
    identities.within_bounds,
    algebra.nested_clamps,
    algebra.one_sided_clamp,
    algebra.powers,
    algebra.division,
    algebra.doubled,
)
_ROUNDING: tuple[Rule, ...] = (
    algebra.merged_scales,
    algebra.merged_shifts,
    algebra.scaled_residual,
    algebra.exp_of_log_softmax,
    algebra.global_pool,
)


class Change(NamedTuple):
    """One rewrite that was done."""

    rule: str
    node: str
    op: str


def simplify(graph: Graph, level: Level = "rounding") -> tuple[Graph, tuple[Change, ...]]:
    """Simplify a graph; nodes that only fed removed ones go too, code that was dead before stays.

    No rule looks at state, so batch normalisation in training mode and buffer updates are never folded.

    Returns:
        The new graph and what was done, in order.
    """
    editor = Editor(graph)
    rules = _EXACT if level == "exact" else (*_EXACT, *_ROUNDING)
    changes: list[Change] = []
    budget = 20 * len(graph.nodes) + 20
    changed = True
    while changed:
        changed = False
        for name in list(editor.nodes):
            done = _rewrite_node(editor, name, rules)
            if done is not None:
                changes.append(done)
                changed = True
            if len(changes) > budget:
                raise ProgramError(f"rewriting does not end: {changes[-2:]}; two rules undo each other")
        shared = _merge_twins(editor)
        changes += shared
        changed = changed or bool(shared)
    return editor.finish(), tuple(changes)


def _rewrite_node(editor: Editor, name: str, rules: tuple[Rule, ...]) -> Change | None:
    for rule in rules:
        node = editor.nodes.get(name)
        if node is None or len(node.outputs) == 0 or editor.uses(name) == 0:
            return None
        found = rule(editor, node)
        title = rule.__name__.replace("_", " ")
        if isinstance(found, Node) and found != node:
            editor.put(found)
            return Change(title, name, node.op)
        if (
            isinstance(found, Ref)
            and found.node != name
            and _first_only(editor, node)
            and editor.may_replace(node, found)
        ):
            editor.replace(node, found)
            return Change(title, name, node.op)
    return None


def _first_only(editor: Editor, node: Node) -> bool:
    """Whether only the first result of a node is used (the indices of max are not)."""
    return editor.uses(node.name) == editor.uses_of(node.name, 0)


def _merge_twins(editor: Editor) -> list[Change]:
    """Calls of one operator with the same arguments: keep the first."""
    seen: dict[str, str] = {}
    done: list[Change] = []
    for node in list(editor.nodes.values()):
        if node.name not in editor.nodes or not function(node) or function(node) in RANDOM:
            continue
        node = editor.nodes[node.name]
        key = node.model_dump_json(exclude={"name", "origin"})
        first = seen.setdefault(key, node.name)
        if first != node.name and len(node.outputs) == 1 and editor.may_replace(node, Ref(node=first)):
            editor.replace(node, Ref(node=first))
            done.append(Change("same call", node.name, node.op))
    return done
