"""Names that both C++ and Python accept."""

from __future__ import annotations

import keyword
import re

RESERVED = frozenset([
    "n", "j", "i", "r", "k", "row", "block", "begin", "end", "first", "width", "full", "rest", "task", "take",
    "step", "settle", "value", "next", "high0", "high1", "sum0", "sum1", "threads", "F", "from", "auto",
    "double", "float", "int", "long", "short", "char", "bool", "const", "for", "if", "else", "while", "do",
    "return", "new", "delete", "this", "class", "struct", "template", "typename", "using", "namespace",
    "static", "inline", "extern", "switch", "case", "break", "continue", "default", "goto", "union", "enum",
    "signed", "unsigned", "void", "volatile", "register", "operator", "public", "private", "protected",
    "friend", "virtual", "try", "catch", "throw", "true", "false", "and", "or", "not", "xor", "load", "store",
    "keep", "stream", "lanewise", "bits", "exp", "log", "tanh", "erf", "min", "max", "abs", "sin", "cos",
    "pow",
])  # fmt: skip
"""Names that printed functions use for themselves, and keywords of C++."""


def identifier(text: str, taken: set[str]) -> str:
    """A name that C++ and Python accept and that is not taken."""
    base = re.sub(r"\W+", "_", text).strip("_") or "value"
    base = f"v{base}" if base[0].isdigit() else base
    name, number = base, 1
    while name in taken or name in RESERVED or keyword.iskeyword(name):
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name
