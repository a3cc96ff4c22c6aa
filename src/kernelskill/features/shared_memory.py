"""Bank conflicts of a CUDA C++ kernel, read off its text: where the lanes of a warp go in arrays of shared memory.

Shared memory has 32 banks of 4 bytes. Lanes of a warp that go to one bank at different words wait for one another. For
each access whose indices follow from `threadIdx.x`, constants and what is the same in all lanes, the 32 words are
worked out; an access that cannot be followed says nothing. A row of a block is taken to be a warp or more.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

BANKS, LANES, WORD = 32, 32, 4
"""Of shared memory, of a warp, and bytes of a bank's word (CUDA C++ programming guide, compute capability 5.0 on)."""
_SIZES = {
    "char": 1,
    "bool": 1,
    "half": 2,
    "__half": 2,
    "short": 2,
    "double": 8,
    "long": 8,
    "float2": 8,
    "float4": 16,
}
"""Bytes of an element; of any other type 4."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONSTANT = re.compile(
    r"#define\s+(\w+)\s+(\d+)\b|\bconst(?:expr)?\s+(?:unsigned\s+)?\w+\s+(\w+)\s*=\s*(\d+)\s*;"
)
_KERNEL = re.compile(r"__global__[^;{]*?\b(\w+)\s*\(([^{;]*)\)\s*\{")
_SHARED = re.compile(r"__shared__\s+(?:__align__\(\d+\)\s+)?(\w+)\s+(\w+)\s*((?:\[[^\]]+\])+)\s*;")
_LOCAL = re.compile(r"\b(?:int|unsigned|long|size_t|uint32_t|auto)\s+(\w+)\s*=\s*([^;{}]+);")
_LOOP = re.compile(r"\bfor\s*\(\s*(?:const\s+)?\w+\s+(\w+)\s*=\s*\d+\s*;")
_EVERYWHERE = re.compile(r"(block|grid|thread)(Idx|Dim)_[xyz]|[A-Z][A-Z0-9_]*")
"""Names that are the same in all lanes wherever they stand; `threadIdx.x` is asked for first."""
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_UNIFORM = (0, 33)
"""Two values of what is the same in all lanes: an access whose conflicts depend on it says nothing."""
DEEPEST = 16
"""Definitions that an index is followed through; one that needs itself has no end."""
Values = Mapping[str, str | int | None]
"""Name -> expression, or number; None for what is the same in all lanes."""


def bank_ways(source: str, kernel: str) -> int | None:
    """Lanes of a warp that meet in one bank at the worst access of a kernel; None where no access can be followed.

    Args:
        source: CUDA C++, or a file that holds it.
        kernel: name of a `__global__` function.
    """
    text = _COMMENT.sub("", source)
    head = next((found for found in _KERNEL.finditer(text) if found[1] == kernel), None)
    if head is None:
        return None
    body = _block(text, head.end())
    known: dict[str, str | int | None] = dict(_LOCAL.findall(body))
    known |= dict.fromkeys((*re.findall(r"(\w+)\s*(?:,|$)", head[2]), *_LOOP.findall(body)))
    for define, number, name, value in _CONSTANT.findall(text):
        known[define or name] = int(number or value)
    uses = _SHARED.sub("", body)
    ways = [
        found
        for kind, name, extents in _SHARED.findall(body)
        for found in _array_ways(uses, name, _BRACKETS.findall(extents), _SIZES.get(kind, WORD), known)
    ]
    return max(ways, default=None)


def _block(text: str, begin: int) -> str:
    """Text from behind an opening brace to its closing one."""
    depth = 1
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin:place]
    return ""


def _array_ways(body: str, name: str, extents: list[str], size: int, known: Values) -> Iterator[int]:
    """Ways of each access of one array that can be followed."""
    for found in re.finditer(rf"\b{name}\s*((?:\[[^\[\]]*\])+)", body):
        indices = _BRACKETS.findall(found[1])
        if len(indices) != len(extents):
            continue
        ways = {_ways(indices, extents, size, known, uniform) for uniform in _UNIFORM}
        if len(ways) == 1 and None not in ways:
            yield from (way for way in ways if way is not None)


def _ways(indices: list[str], extents: list[str], size: int, known: Values, uniform: int) -> int | None:
    """Distinct words in the fullest bank."""
    words: set[int] = set()
    for lane in range(LANES):
        place = 0
        for index, extent in zip(indices, extents, strict=True):
            at, length = (_value(part, lane, known, uniform, 0) for part in (index, extent))
            if at is None or length is None:
                return None
            place = place * length + at
        words |= {place * size // WORD + part for part in range(max(1, size // WORD))}
    return math.ceil(max(Counter(word % BANKS for word in words).values()) / max(1, size // WORD))


def _value(text: str, lane: int, known: Values, uniform: int, depth: int) -> int | None:
    """Number of an expression in one lane; None where it is beyond integer arithmetic."""
    spelled = re.sub(r"\bthreadIdx\.x\b", "threadIdx_x", text)
    spelled = re.sub(r"\b(\w+)\.([xyz])\b", r"\1_\2", spelled)
    spelled = (
        re.sub(r"\((?:int|unsigned|long|size_t)\)|(?<=\d)[uUlL]+\b", "", spelled).replace("/", "//").strip()
    )
    try:
        return _number(ast.parse(spelled, mode="eval").body, lane, known, uniform, depth)
    except (SyntaxError, ZeroDivisionError, ValueError, OverflowError):
        return None


def _number(node: ast.expr, lane: int, known: Values, uniform: int, depth: int) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        if node.id == "threadIdx_x":
            return lane
        value = known.get(node.id, "")
        if value is None or (not value and _EVERYWHERE.fullmatch(node.id)):
            return uniform
        if isinstance(value, int):
            return value
        return _value(value, lane, known, uniform, depth + 1) if value and depth < DEEPEST else None
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = (_number(item, lane, known, uniform, depth) for item in (node.left, node.right))
        return None if left is None or right is None else _ARITHMETIC[type(node.op)](left, right)
    return None
