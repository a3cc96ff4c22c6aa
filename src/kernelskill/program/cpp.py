"""Kernels -> one C++ source: only the types and functions that are used, then a function a kernel."""

from __future__ import annotations

import re
import textwrap

from kernelskill.program.memory_access import memory_functions
from kernelskill.program.nests import TYPES, Nest
from kernelskill.program.program import Kernel
from kernelskill.program.strided import StridedNest
from kernelskill.program.template import CppFunction, functions_of, print_template
from kernelskill.program.vector_math import PIECES, needed, vector_type

WIDTH = 110


def kernel_function(kernel: Kernel) -> CppFunction:
    """The body of one kernel and what it calls."""
    region = kernel.region
    if region is None:
        return print_template(kernel)
    nest = (StridedNest if region.is_strided else Nest)(region, kernel.schedule)
    operands = (*region.inputs, *region.outputs)
    return CppFunction(
        body=nest.body(),
        functions=functions_of(region),
        dtypes=frozenset(operand.dtype for operand in operands),
        inputs=tuple((operand.name, operand.dtype) for operand in region.inputs),
        outputs=tuple((operand.name, operand.dtype) for operand in region.outputs),
    )


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
    inside = textwrap.wrap(text[opening + 1 :], WIDTH - 4)
    return "\n    ".join([text[: opening + 1], *inside])


HEADERS = {
    "algorithm": r"std::(min|max|fill|fill_n)\b",
    "cmath": r"std::(abs|ceil|cos|erf|exp|expm1|fabs|floor|log|log1p|nearbyint|pow|sin|sqrt|tan|tanh|trunc)\b",
    "cstdint": r"\bu?int\d+_t\b",
    "cstring": r"std::mem\w+",
}
"""Header -> what needs it."""


def headers(text: str) -> str:
    """Includes for what a text uses."""
    return "\n".join(f"#include <{name}>" for name, pattern in HEADERS.items() if re.search(pattern, text))


def source(kernels: tuple[Kernel, ...]) -> str:
    """One C++ file with all kernels of a program."""
    printed = {kernel.name: kernel_function(kernel) for kernel in kernels}
    bodies = "\n".join(function.body for function in printed.values())
    functions = {name for function in printed.values() for name in function.functions}
    dtypes = {dtype for function in printed.values() for dtype in function.dtypes}
    widths = sorted({kernel.schedule.lanes for kernel in kernels})
    mathematics = "".join(PIECES[name][1] for name in needed(functions))
    memory = memory_functions(bodies, dtypes)
    parts = [headers("".join([bodies, mathematics, *memory, *(TYPES[dtype] for dtype in dtypes)]))]
    if "stream(" in bodies or "_mm512" in mathematics:
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
