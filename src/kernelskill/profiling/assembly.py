"""Facts from the assembly of one C++ file (x86-64, AT&T syntax as g++ -S writes it).

What counts is the loop bodies: a wide register in a prologue or a libm call once per row says nothing about speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kernelskill.records import Scalar

_LABEL = re.compile(r"^([\w.$]+):")
_JUMP = re.compile(r"^j\w+$")
_SYMBOL = re.compile(r"^([A-Za-z_][\w.$]*)(?:@PLT)?$")
_LIBM = re.compile(
    r"^(?:exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|tanh|sinh|cosh|tan|sin|cos|asin|acos|atan|atan2|erf|erfc|"
    r"cbrt|hypot|fmod|lgamma|tgamma)[fl]?$"
)
_ARITHMETIC = re.compile(
    r"^v?(?:add|sub|mul|div|max|min|sqrt|rsqrt|rcp|cmp|andn?|or|xor|scalef|rndscale|round|fn?m(?:add|sub)\d*)\w*?"
    r"(ps|pd|ph|ss|sd|sh)$"
)
_MOVE = re.compile(r"^v?mov[auhnt]*(ps|pd|ss|sd|dqa\d*|dqu\d*)$")
_STACK_SLOT = re.compile(r"(?<![\w,(])-?\d*\(%r[sb]p\)")
_WIDTHS = {"zmm": 512, "ymm": 256, "xmm": 128}
_SCALAR_BITS = {"ss": 32, "sd": 64, "sh": 16}


class Instruction(NamedTuple):
    """One line of assembly."""

    mnemonic: str
    operands: str


class Function(NamedTuple):
    """One symbol: its instructions, and where its labels stand among them."""

    name: str
    code: tuple[Instruction, ...]
    labels: dict[str, int]

    def loops(self) -> tuple[range, ...]:
        """Ranges of instructions between a label and a jump back to it; of those to one label, the longest."""
        found: dict[int, int] = {}
        for index, item in enumerate(self.code):
            start = self.labels.get(item.operands) if _JUMP.match(item.mnemonic) else None
            if start is not None and start <= index:
                found[start] = max(found.get(start, 0), index)
        return tuple(range(start, end + 1) for start, end in sorted(found.items()))

    def innermost(self) -> tuple[range, ...]:
        """Loops without a loop in them."""
        loops = self.loops()
        return tuple(
            loop
            for loop in loops
            if not any(
                other != loop and loop.start <= other.start and other.stop <= loop.stop for other in loops
            )
        )


def functions(assembly: str) -> dict[str, Function]:
    """All functions of a file, by symbol."""
    found: dict[str, Function] = {}
    declared = set(re.findall(r"^\s*\.type\s+([\w.$]+),\s*@function", assembly, re.M))
    name, code, labels = "", list[Instruction](), dict[str, int]()
    for raw in assembly.splitlines():
        line = raw.partition("#")[0].strip()
        label = _LABEL.match(line)
        if label:
            if label[1] in declared:
                if name:
                    found[name] = Function(name, tuple(code), labels)
                name, code, labels = label[1], [], {}
            else:
                labels[label[1]] = len(code)
        elif line and not line.startswith(".") and name:
            mnemonic, _, operands = line.partition("\t")
            code.append(Instruction(mnemonic, operands.strip()))
    if name:
        found[name] = Function(name, tuple(code), labels)
    return found


def kernel_facts(assembly: str, kernels: Sequence[str]) -> dict[str, dict[str, Scalar]]:
    """Facts of each kernel that the file defines.

    Returns:
        kernel -> `vector_bits_used` (widest register that loops compute with, or else move; None without
        floating-point code),
        `libm_calls` (call sites in innermost loops), `spills` (vector moves to or from stack slots in loops),
        `gathers` (indexed vector loads in loops), `loop_instructions` (instructions of all innermost loops).
    """
    every = functions(assembly)
    return {kernel: _facts(_reached(kernel, every)) for kernel in kernels if kernel in every}


def _reached(kernel: str, every: dict[str, Function]) -> list[Function]:
    """A kernel's function, the parts that the compiler split off (`kernel._omp_fn.0`), and what they call here."""
    waiting = [name for name in every if name == kernel or name.startswith(f"{kernel}.")]
    seen: dict[str, Function] = {}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen[name] = every[name]
        waiting += [target for target in _targets(every[name].code) if target in every]
    return list(seen.values())


def _targets(code: Iterable[Instruction]) -> list[str]:
    """Symbols that are called or jumped to."""
    symbols = (
        _SYMBOL.match(item.operands) for item in code if item.mnemonic == "call" or _JUMP.match(item.mnemonic)
    )
    return [symbol[1] for symbol in symbols if symbol]


def _facts(parts: list[Function]) -> dict[str, Scalar]:
    loops = [item for part in parts for item in _within(part, part.loops())]
    inner = [item for part in parts for item in _within(part, part.innermost())]
    body = loops or [item for part in parts for item in part.code]
    return {
        "vector_bits_used": _widest(body, _ARITHMETIC) or _widest(body, _MOVE),
        "libm_calls": sum(bool(_LIBM.match(target)) for target in _targets(inner)),
        "spills": sum(_is_spill(item) for item in loops),
        "gathers": sum(item.mnemonic.startswith(("vgather", "vpgather")) for item in loops),
        "loop_instructions": len(inner),
    }


def _within(part: Function, loops: tuple[range, ...]) -> list[Instruction]:
    """Instructions in any of the loops, each once."""
    return [part.code[index] for index in sorted({index for loop in loops for index in loop})]


def _widest(body: list[Instruction], pattern: re.Pattern[str]) -> int | None:
    """Bits of the widest operand of the instructions that match; None if none does."""
    return max((bits for item in body if (bits := _bits(item, pattern))), default=None)


def _bits(item: Instruction, pattern: re.Pattern[str]) -> int | None:
    kind = pattern.match(item.mnemonic)
    if kind is None:
        return None
    if kind[1] in _SCALAR_BITS:
        return _SCALAR_BITS[kind[1]]
    return max((bits for name, bits in _WIDTHS.items() if f"%{name}" in item.operands), default=None)


def _is_spill(item: Instruction) -> bool:
    moves = item.mnemonic.startswith(("vmov", "mov"))
    return (
        moves
        and any(f"%{name}" in item.operands for name in _WIDTHS)
        and bool(_STACK_SLOT.search(item.operands))
    )
