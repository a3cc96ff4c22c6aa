"""What kernels and their operands are called: after what is computed, and as the reference calls its state."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable

from kernelskill.program.identifiers import RESERVED
from kernelskill.program.lowering import CREATE
from kernelskill.program.uses import uses
from kernelskill.program.views import VIEWS
from kernelskill.records import Graph, Node, Ref

ARITHMETIC = frozenset(
    ["add", "sub", "rsub", "mul", "div", "neg", "pow", "square", "where", "clone", "to_copy", "copy", "maximum",
     "minimum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "bitwise_and",
     "bitwise_or", "bitwise_not", "isnan", "isinf", "lift_fresh_copy", "detach"]
)  # fmt: skip
"""Operators that say little of what a kernel is for, where there are others."""
C_LIBRARY = frozenset([
    "acos", "asin", "atan", "cbrt", "ceil", "cosh", "div", "exp2", "expm1", "fabs", "floor", "fmax", "fmin", "fmod",
    "gamma", "hypot", "index", "lgamma", "log10", "log1p", "log2", "logb", "remainder", "rint", "round", "select",
    "sinh", "sqrt", "tan", "trunc",
])  # fmt: skip
"""Functions of C: a kernel of such a name would declare it anew."""
ON_DEVICE = frozenset(
    ["larger", "smaller", "times", "is_larger", "is_smaller", "first_largest", "first_smallest", "exp", "sigmoid",
     "tanh", "expm1", "log1p", "trunc", "round", "pow"]
)  # fmt: skip
"""Functions that kernels in Triton call, with an underscore in front, as a kernel's launches have one."""
MOST_WORDS = 3
GELU_CUBE = 0.044715
"""The coefficient by which GELU's approximation by a hyperbolic tangent is known."""
COMPOSED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("mean_squared_error", ("sub", "pow|square|mul", "mean")),
    ("hinge_loss", ("mul", "sub|rsub", "clamp|clamp_min|relu", "mean")),
    ("rms_norm", ("pow|square|mul", "mean", "add", "sqrt", "div")),
    ("rms_norm", ("pow|square|mul", "mean", "add", "rsqrt", "mul")),
    ("l1_normalize", ("abs", "mean|sum", "div")),
    ("normalize", ("vector_norm", "div")),
    ("kl_divergence", ("log", "mul", "eq", "where", "isnan", "sub", "sum")),
)
"""Name -> the operators that compose it, in the order in which they first appear; alternatives are parted by bars."""


def word(node: Node) -> str:
    """What a node's operator is called."""
    name = node.op.split(".")[1].lstrip("_")
    for prefix in ("native_", "linalg_"):
        name = name.removeprefix(prefix)
    for suffix in ("_legit_functional", "_legit", "_with_indices"):
        name = name.removesuffix(suffix)
    return name


def words(graph: Graph, names: set[str]) -> list[str]:
    """Operators of some nodes that compute something, each once."""
    nodes = uses(graph).sorted(names)
    return list(dict.fromkeys(word(node) for node in nodes if node.op not in VIEWS and node.op not in CREATE))


def kernel_name(graph: Graph, names: set[str]) -> str:
    """A name for the kernel that does what these nodes do."""
    found = words(graph, names)
    name = _composed(graph, names, found)
    if not name:
        telling = [item for item in found if item not in ARITHMETIC] or found
        name = "_".join(telling[:MOST_WORDS]) or "fused"
    clashes = name in RESERVED | C_LIBRARY | ON_DEVICE or hasattr(builtins, name)
    return f"{name}_kernel" if clashes else name


def summary(graph: Graph, names: set[str]) -> str:
    """What these nodes compute, in words."""
    found = words(graph, names)
    if name := _composed(graph, names, found):
        return name.replace("_", " ")
    found = [item.replace("_", " ") for item in found]
    if len(found) > 1:
        return f"{', '.join(found[:-1])} and {found[-1]}"
    return found[0] if found else "a copy"


def operand_names(graph: Graph) -> dict[str, str]:
    """Values -> what a kernel's operand is called: state by its path, views by what they are of."""
    named = {item.name: item.name for item in graph.inputs}
    named |= {item.name: re.sub(r"\W+", "_", item.path) for item in graph.state}
    for node in graph.nodes:
        source = node.args[0] if node.op in VIEWS and node.args else None
        if isinstance(source, Ref) and source.node in named:
            named[node.name] = named[source.node]
    return named


def result_names(graph: Graph, results: Iterable[Ref]) -> list[str]:
    """What a kernel's outputs are called: a buffer's new value after the buffer, the others `out`."""
    buffers = {(ref.node, ref.output): re.sub(r"\W+", "_", path) for path, ref in graph.updates.items()}
    found = [buffers.get((ref.node, ref.output)) for ref in results]
    return [f"new_{name}" if name else "out" for name in found]


def _composed(graph: Graph, names: set[str], found: list[str]) -> str:
    """The name of a well-known composition of operators; "" where they are none."""
    nodes = uses(graph).sorted(names)
    if "tanh" in found and set(found) <= {"tanh", "mul", "add", "pow"}:
        numbers = [arg for node in nodes for arg in node.args if isinstance(arg, float)]
        if any(abs(number - GELU_CUBE) < 1e-6 for number in numbers):
            return "gelu"
    if found == ["sigmoid", "mul"] and len(nodes) == 2:
        gate, product = nodes
        return "silu" if set(product.refs()) == {*gate.refs(), Ref(node=gate.name)} else ""
    unique = {title for title, parts in COMPOSED if _matches(parts, found)}
    return unique.pop() if unique else ""


def _matches(parts: tuple[str, ...], found: list[str]) -> bool:
    return len(parts) == len(found) and all(
        item in part.split("|") for part, item in zip(parts, found, strict=True)
    )
