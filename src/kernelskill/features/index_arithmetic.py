"""Divisions and remainders that a printed kernel spends on places in memory, counted in its text.

A place that is one line needs none. Where the index of a space has to be parted into those of its axes, each part is a
division or a remainder: three to five instructions by a constant, for every element whose lane does it.
"""

from __future__ import annotations

import ast
import re

from kernelskill.errors import ProgramError
from kernelskill.program import Kernel, cpp, triton

_POINTER = re.compile(r"^\s*(?:const )?\w+\* \w+ = \w+ \+ ([^;]+);$", re.MULTILINE)
_PARTED = re.compile(r"[/%] \d")
_LANES = "arange"
"""What gives each lane an index of its own."""


def index_divisions(kernel: Kernel, target: str) -> float | None:
    """Divisions and remainders for an element; None for what is no loop nest printed for that target.

    Args:
        kernel: Whose text.
        target: Device that it is printed for, "cpu" or "cuda".
    """
    region = kernel.region
    if region is None or kernel.schedule.gpu.cluster:
        return None
    try:
        if target == "cpu":
            # A row's place is found once, and the innermost axis walked along from there.
            places = _POINTER.findall(cpp.kernel_function(kernel).body)
            return sum(len(_PARTED.findall(place)) for place in places) / region.axes[-1].size
        launches = triton.kernel_function(kernel).launches
        return float(sum(_parted_by_lanes(launch.function()) for launch in launches))
    except ProgramError:  # it is not printed for this target, so there is no text to count in
        return None


def told_divisions(source: str, kernel: str) -> float | None:
    """The same of a kernel that came as text; None for what is no function of Triton there.

    Args:
        source: Python text of a candidate.
        kernel: Name of a function in it.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == kernel]
    text = ast.unparse(functions[-1]) if functions else ""
    return float(_parted_by_lanes(text)) if _LANES in text else None


def _parted_by_lanes(function: str) -> int:
    """Integer divisions and remainders of a Triton function that differ from lane to lane."""
    lanes = {_LANES}
    found = 0
    statements = [node for node in ast.walk(ast.parse(function)) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda item: item.lineno):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
            divisions = [item for item in ast.walk(node) if _is_parting(item)]
            found += sum(bool(_words(item) & lanes) for item in divisions)
            if isinstance(node, ast.Assign) and _words(node.value) & lanes:
                lanes |= {name for target in node.targets for name in _words(target)}
    return found


def _is_parting(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod)


def _words(node: ast.AST) -> set[str]:
    """Names and attributes below a node."""
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)} | {
        item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)
    }
