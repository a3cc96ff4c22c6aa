"""What a candidate's kernels look like in machine code: its C++ text is compiled to assembly and read, never run."""

from __future__ import annotations

import ast
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelskill.profiling.assembly import kernel_facts
from kernelskill.records import Scalar
from kernelskill.scratch import prefix

DEFAULT_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp")
_ALLOWED_FLAG = re.compile(
    r"-(std=[\w+]+|O[0-3s]|Ofast|g|march=[\w-]+|mtune=[\w-]+|mprefer-vector-width=\d+|fopenmp(-simd)?|f(no-)?math-errno|"
    r"f(no-)?trapping-math|ffast-math|f(no-)?signed-zeros|fassociative-math|ffinite-math-only|freciprocal-math|"
    r"funroll-loops|ffp-contract=\w+|Wno-[\w-]+|DNDEBUG)"
)
"""Flags of the candidate that are taken over: a plug-in or a file name of its choosing is not."""
_LIMIT_S = 60
_MEMORY_KB = 4_000_000


def read_machine_code(source: str, kernels: Sequence[str]) -> tuple[dict[str, dict[str, Scalar]], str]:
    """Facts from the machine code of a candidate's kernels.

    Returns:
        kernel -> facts as in `assembly.kernel_facts`, and a note ("" = all was read, else what was missing and why).
    """
    if platform.machine() != "x86_64":
        return {}, f"machine code is read on x86-64 only, this is {platform.machine()}"
    compiler = shutil.which("g++")
    if compiler is None:
        return {}, "machine code was not read: no g++ (apt-get install g++)"
    try:
        texts, flags = embedded_cpp(source)
    except SyntaxError as error:
        return {}, f"machine code was not read: the source does not parse ({error.msg})"
    found: dict[str, dict[str, Scalar]] = {}
    notes = [] if texts else ["no C++ text in the source"]
    for text in texts:
        assembly, note = _assemble(compiler, flags, text)
        found |= kernel_facts(assembly, kernels)
        notes += [note] if note else []
    return found, "; ".join(notes)


def embedded_cpp(source: str) -> tuple[list[str], tuple[str, ...]]:
    """C++ texts among the strings of a Python file, and the flags that it hands to its compiler.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(source)
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    texts = [text for text in strings if "#include" in text and "{" in text]
    flags = tuple(dict.fromkeys(flag for flag in _listed(tree) if _ALLOWED_FLAG.fullmatch(flag)))
    return texts, flags or DEFAULT_FLAGS


def _listed(tree: ast.Module) -> Iterator[str]:
    """Strings that are items of a list or tuple, in order."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.List, ast.Tuple)):
            for item in node.elts:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield item.value


def _assemble(compiler: str, flags: tuple[str, ...], text: str) -> tuple[str, str]:
    """The assembly of one C++ text and "", or "" and why there is none."""
    limited = ["/bin/sh", "-c", f'ulimit -v {_MEMORY_KB}; exec "$@"', "sh"]
    with tempfile.TemporaryDirectory(prefix=prefix("assembly")) as folder:
        file = Path(folder) / "kernels.cpp"
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [*limited, compiler, *flags, "-S", "-o", "-", str(file)],
                capture_output=True,
                text=True,
                check=False,
                timeout=_LIMIT_S,
                cwd=folder,
            )
        except subprocess.TimeoutExpired:
            return "", f"compiling to assembly took more than {_LIMIT_S} s"
    if done.returncode:
        message = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
        return "", f"compiling to assembly failed: {message.partition('error: ')[2] or message}"
    return done.stdout, ""
