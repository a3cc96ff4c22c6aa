"""Facts from the PTX of one compiled function: what the code has, not how often it runs.

PTX is what the compiler hands to the assembler, so registers and spills are not in it; those come with the binary.
Instruction names: "PTX ISA", NVIDIA.
"""

from __future__ import annotations

import re

from kernelskill.records import Scalar

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STATEMENT = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)", re.M)
_GLOBAL = re.compile(r"^(?:ld|st)\.(?:[\w:]+\.)*?global(?:\.[\w:]+)*$")
_VECTOR = re.compile(r"\.v(\d+)(?=\.|$)")
_WIDTH = re.compile(r"\.[bfus](\d+)$")
_COPY = re.compile(r"^cp\.async\.(?:ca|cg|bulk(?:\.tensor\.\dd|\.prefetch)?)\.(?!.*group)")
_MATRIX = re.compile(r"^(?:mma|wmma\.mma|wgmma\.mma_async|tcgen05\.mma)\b")
_ATOMIC = re.compile(r"^(?:atom|red)\.")
_BARRIER = re.compile(r"^(?:bar|barrier)(?:\.cta|\.cluster)?\.(?:sync|red|arrive|wait)")
_LOCAL = re.compile(r"^(?:ld|st)\.(?:[\w:]+\.)*?local\b")
_LINE = re.compile(r"^\s*(?:(?P<label>[\w$]+):|(?:@!?%\w+\s+)?bra(?:\.uni)?\s+(?P<target>[\w$]+))", re.M)
_SPECIAL = re.compile(r"^(?:ex2|lg2|sin|cos|tanh|rsqrt|sqrt\.approx|rcp\.approx|div\.(?:full|approx))\b")


def code_facts(ptx: str) -> dict[str, Scalar]:
    """Facts of a function's text.

    Returns:
        `access_bits` (widest access of global memory by one thread; absent without any), `global_accesses`,
        `async_copies`, `matrix_instructions`, `atomics`, `barriers`, `local_accesses`, `special_functions`: numbers of
        instructions; `instructions`: all of them; `loops`: branches back, without which none runs twice in a thread;
        `stored_bytes`: what the stores to global memory write for a thread, each taken once.
    """
    text = _COMMENT.sub("", ptx)
    names = _STATEMENT.findall(text)
    accesses = [name for name in names if _GLOBAL.match(name)]
    found: dict[str, Scalar] = {
        "global_accesses": len(accesses),
        "async_copies": _count(names, _COPY),
        "matrix_instructions": _count(names, _MATRIX),
        "atomics": _count(names, _ATOMIC),
        "barriers": _count(names, _BARRIER),
        "local_accesses": _count(names, _LOCAL),
        "special_functions": _count(names, _SPECIAL),
        "instructions": len(names),
        "loops": _loops(text),
        "stored_bytes": sum(map(_bits, (name for name in accesses if name.startswith("st.")))) // 8,
    }
    widths = [bits for bits in map(_bits, accesses) if bits]
    if widths:
        found["access_bits"] = max(widths)
    return found


def _count(names: list[str], pattern: re.Pattern[str]) -> int:
    return sum(bool(pattern.match(name)) for name in names)


def _loops(text: str) -> int:
    """Branches to a label that stands before them."""
    passed: set[str] = set()
    found = 0
    for line in _LINE.finditer(text):
        if line["label"]:
            passed.add(line["label"])
        else:
            found += line["target"] in passed
    return found


def _bits(name: str) -> int:
    """Bits that one access moves for a thread; 0 where the name does not say."""
    width, vector = _WIDTH.search(name), _VECTOR.search(name)
    return int(width[1]) * (int(vector[1]) if vector else 1) if width else 0
