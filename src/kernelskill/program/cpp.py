"""Kernels -> one C++ source: only the types and functions that are used, then a function a kernel."""

from __future__ import annotations

import re
import textwrap

from kernelskill.program.memory_access import memory_functions
from kernelskill.program.nests import TYPES, MapNest
from kernelskill.program.program import Kernel
from kernelskill.program.region import Region
from kernelskill.program.rows import RowNest
from kernelskill.program.schedule import Schedule
from kernelskill.program.strided import StridedNest
from kernelskill.program.template import CppFunction, print_template
from kernelskill.program.vector_math import PIECES, needed, vector_type

WIDTH = 110


def kernel_function(kernel: Kernel) -> CppFunction:
    """The body of one kernel and what it calls."""
    region = kernel.region
    if region is None:
        return print_template(kernel)
    return CppFunction(
        body=_nest(region, kernel.schedule).body(),
        inputs=tuple((operand.name, operand.dtype) for operand in region.inputs),
        outputs=tuple((operand.name, operand.dtype) for operand in region.outputs),
    )


def _nest(region: Region, schedule: Schedule) -> MapNest | RowNest | StridedNest:
    if region.is_map:
        return MapNest(region, schedule)
    return StridedNest(region, schedule) if region.is_strided else RowNest(region, schedule)


def signature(kernel: Kernel, printed: CppFunction) -> str:
    """The C declaration of a kernel: pointers read, pointers written, threads."""
    reads = [f"const {TYPES[dtype]}* __restrict {name}" for name, dtype in printed.inputs]
    writes = [f"{TYPES[dtype]}* __restrict {name}" for name, dtype in printed.outputs]
    return f'extern "C" void {kernel.name}({", ".join([*reads, *writes, "int threads"])})'


def _declared(kernel: Kernel, printed: CppFunction) -> str:
    """The declaration, over several lines where it is long."""
    text = signature(kernel, printed)
    if len(text) <= WIDTH:
        return text
    opening = text.index("(")
    # A parameter is never parted: its spaces are not where lines may end.
    given = text[opening + 1 :].replace(" ", "\0").replace(",\0", ", ")
    return "\n    ".join([text[: opening + 1], *textwrap.wrap(given, WIDTH - 4)]).replace("\0", " ")


HEADERS = {
    "algorithm": r"std::(min|max|fill|fill_n)\b",
    "cmath": r"std::(abs|ceil|cos|erf|exp|expm1|fabs|floor|log|log1p|nearbyint|pow|sin|sqrt|tan|tanh|trunc)\b",
    "cstdint": r"\bu?int(\d+|ptr)_t\b",
    "cstring": r"std::mem\w+",
    "type_traits": r"std::integral_constant\b",
    "utility": r"std::swap\b",
    "vector": r"std::vector\b",
}
"""Header -> what needs it."""


def headers(text: str) -> str:
    """Includes for what a text uses."""
    return "\n".join(f"#include <{name}>" for name, pattern in HEADERS.items() if re.search(pattern, text))


def _of_widths(text: str, widths: list[int]) -> str:
    """A function without its instructions for registers that no kernel uses.

    Args:
        text: in which such an instruction has a line of its own, `if constexpr (sizeof(F) == 64) ...`.
        widths: lanes of the registers that are used.
    """
    sizes = {str(4 * lanes) for lanes in widths}
    lines = text.splitlines(keepends=True)
    found = ((re.search(r"if constexpr \(sizeof\(F\) == (\d+)\)", line), line) for line in lines)
    return "".join(line for match, line in found if match is None or match[1] in sizes)


def source(kernels: tuple[Kernel, ...]) -> str:
    """One C++ file with all kernels of a program."""
    printed = {kernel.name: kernel_function(kernel) for kernel in kernels}
    bodies = "\n".join(function.body for function in printed.values())
    dtypes = {name: dict((*function.inputs, *function.outputs)) for name, function in printed.items()}
    stored = {dtype for operands in dtypes.values() for dtype in operands.values()}
    widths = sorted({int(lanes) for lanes in re.findall(r"\bfloats(\d+)\b", bodies)})
    called = needed(set(re.findall(r"\b(\w+?)_\(", bodies)))
    mathematics = "".join(_of_widths(PIECES[name][1], widths) for name in called)
    memory = [
        _of_widths(text, widths)
        for text in memory_functions((printed[name].body, operands) for name, operands in dtypes.items())
    ]
    parts = [headers("".join([bodies, mathematics, *memory, *(TYPES[dtype] for dtype in stored)]))]
    if "stream(" in bodies or "_mm" in mathematics:
        parts[0] += "\n#ifdef __x86_64__\n#include <immintrin.h>\n#endif"
    parts.append("".join(vector_type(width) for width in widths).rstrip())
    if memory:
        parts.append("".join(memory).rstrip())
    if mathematics:
        parts.append(mathematics.rstrip())
    for kernel in kernels:
        skills = f"// {kernel.name}: {', '.join(kernel.skills)}\n" if kernel.skills else ""
        function = printed[kernel.name]
        parts.append(f"{skills}{_declared(kernel, function)} {{\n{function.body}\n}}")
    return "\n\n".join(parts) + "\n"
