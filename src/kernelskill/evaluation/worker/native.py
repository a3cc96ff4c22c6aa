"""Machine code that a candidate has built and loaded: which files, what they export and ask for, and how to silence it.

Reads the process's own mappings and the dynamic symbol tables of 64-bit little-endian ELF files (System V ABI, gABI 4).
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

DYNSYM, FUNCTION = 11, 2
HEADER, SECTION, SYMBOL = (
    struct.Struct("<16xHHIQQQIHHHHHH"),
    struct.Struct("<IIQQQQIIQQ"),
    struct.Struct("<IBBHQQ"),
)
RETURN_ZERO = {"x86_64": b"\x31\xc0\xc3", "aarch64": b"\x00\x00\x80\x52\xc0\x03\x5f\xd6"}
"""Machine code of a function that returns 0."""
READ_WRITE_EXECUTE = 7
GIVEN = tuple(f"{folder}/" for folder in (sys.prefix, sys.base_prefix, Path(torch.__file__).parents[1]))
"""Folders of Python and its packages, which may lie below a scratch folder's path (a project in /tmp)."""
COMPILED = "/inductor/"
"""Folder in which torch.compile's own code lies."""
LIBRARY = re.compile(r"cblas_|^[sdcz]gemm_|^mkl_|dnnl_|cublas|cudnn|cufft|cusparse|2at[0-9]|_ZN2at|_ZNK2at")
"""Names by which libraries of the field are called; `at` is PyTorch's own."""


@dataclass(frozen=True)
class Own:
    """One loaded file of the candidate's."""

    path: str
    base: int
    """Address that it is loaded at."""
    functions: dict[str, int]
    """Exported function -> address in this process."""
    asked: tuple[str, ...]
    """Names of libraries' functions that it links to."""


def own_code(scratch: Path) -> list[Own]:
    """Files with machine code that are mapped from a place that the candidate can write to."""
    bases: dict[str, int] = {}
    executable: set[str] = set()
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 6 or not _is_own(words[5], scratch):
            continue
        start, offset = int(words[0].split("-")[0], 16), int(words[2], 16)
        bases[words[5]] = min(bases.get(words[5], start), start - offset if offset else start)
        if "x" in words[1]:
            executable.add(words[5])
    found = []
    for path in sorted(executable):
        try:
            symbols = list(_symbols(Path(path).read_bytes()))
        except (
            OSError,
            struct.error,
            ValueError,
            IndexError,
        ):  # deleted, or no file of the form that is read here
            symbols = []
        functions = {name: bases[path] + value for name, value, defined in symbols if defined}
        asked = tuple(sorted(name for name, _, defined in symbols if not defined and LIBRARY.search(name)))
        found.append(Own(path, bases[path], functions, asked))
    return found


def silence(owned: list[Own]) -> int:
    """Make every exported function return 0 at once; how many were. There is no way back."""
    code = RETURN_ZERO.get(platform.machine())
    if code is None:
        return 0
    libc, page, done = ctypes.CDLL(None), os.sysconf("SC_PAGE_SIZE"), 0
    for item in owned:
        for name, address in item.functions.items():
            if name in ("_init", "_fini"):
                continue
            start = address & -page
            length = (address + len(code) - start + page - 1) & -page
            if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(length), READ_WRITE_EXECUTE) == 0:
                ctypes.memmove(address, code, len(code))
                done += 1
    return done


def _is_own(path: str, scratch: Path) -> bool:
    return (
        path.startswith((f"{scratch}/", "/dev/shm/", "/memfd:"))
        and not path.startswith(GIVEN)
        and COMPILED not in path
        and "slot" not in path
    )


def _symbols(data: bytes) -> Iterator[tuple[str, int, bool]]:
    """Dynamic function symbols: name, value, whether it is defined here."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    fields = HEADER.unpack_from(data)
    table, size, count = fields[5], fields[10], fields[11]
    sections = [SECTION.unpack_from(data, table + size * k) for k in range(count)]
    for section in sections:
        if section[1] != DYNSYM:
            continue
        names = sections[section[6]]
        for at in range(section[4], section[4] + section[5], SYMBOL.size):
            name, info, _, place, value, _ = SYMBOL.unpack_from(data, at)
            start = names[4] + name
            text = data[start : data.index(b"\0", start)].decode("ascii", "replace")
            if text and (info & 0xF == FUNCTION or place == 0):
                yield text, value, place != 0
