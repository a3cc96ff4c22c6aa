"""What a role needs from a reply: one JSON object, or one Python file. What is wrong is said to the model."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

A = TypeVar("A", bound=BaseModel)

FENCE = re.compile(r"^```[ \t]*([\w+-]*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
OPEN_FENCE = re.compile(r"^```[ \t]*(?:python|py)[^\n]*\n", re.MULTILINE)
THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
PYTHON = frozenset({"python", "py", "python3"})


class UnusableReply(Exception):
    """The reply cannot be used; the message is written for the model that gave it."""


def answer_of(text: str, kind: type[A]) -> A:
    """The JSON object of a reply, checked.

    Raises:
        UnusableReply: there is none, or a field breaks a rule.
    """
    found = _objects(THOUGHT.sub("", text))
    if not found:
        raise UnusableReply("The answer holds no JSON object. Give one, in a ```json block.")
    try:
        return kind.model_validate(found[-1])
    except ValidationError as error:
        faults = [
            f"{'.'.join(str(part) for part in fault['loc']) or 'the object'}: {fault['msg']}"
            for fault in error.errors()[:8]
        ]
        raise UnusableReply("The JSON object breaks these rules: " + "; ".join(faults)) from error


def source_of(text: str, entry: str = "ModelNew") -> str:
    """The Python file of a reply: the fenced block that defines the entry, else the whole text if it is Python.

    Raises:
        UnusableReply: there is none, it is cut off, is not Python, or defines no such class.
    """
    text = THOUGHT.sub("", text)
    blocks = [(language.lower(), body) for language, body in FENCE.findall(text)]
    code: list[str] = [body for language, body in blocks if language in PYTHON]
    code = code or [body for language, body in blocks if not language]
    if not code:
        if OPEN_FENCE.search(text):
            raise UnusableReply(
                "The block of Python is never closed: the file is cut off. Give the whole file."
            )
        if _defined(text, entry) is not True:
            raise UnusableReply("The answer holds no ```python block. Give the whole file in one.")
        code = [text]
    whole = next((body for body in reversed(code) if _defined(body, entry) is True), None)
    if whole is not None:
        return whole.strip("\n") + "\n"
    fault = _defined(code[-1], entry)
    raise UnusableReply(
        fault
        if isinstance(fault, str)
        else f"The file defines no class {entry}. Give the whole file, not a part."
    )


def meaning_of(source: str) -> str:
    """Hash of a file by meaning: comments, docstrings and layout of its Python don't count, kernels' text does."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1:
                node.body = node.body[1:]
    return "source:" + hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _defined(source: str, entry: str) -> bool | str:
    """Whether the file defines the entry; a message where it is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return f"The file is not Python: {f'line {line}: ' if line else ''}{getattr(error, 'msg', error)}"
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= {
                item.id for target in node.targets for item in ast.walk(target) if isinstance(item, ast.Name)
            }
    return entry in names


def _objects(text: str) -> list[dict[str, object]]:
    """JSON objects of a text in order: those in ```json blocks if there are any, else all that stand in it."""
    fenced = [body for language, body in FENCE.findall(text) if language.lower() in {"json", ""}]
    found: list[dict[str, object]] = []
    decoder = json.JSONDecoder()
    for part in fenced or [text]:
        place = part.find("{")
        while place >= 0:
            try:
                value, end = decoder.raw_decode(part, place)
            except json.JSONDecodeError:
                place = part.find("{", place + 1)
                continue
            if isinstance(value, dict):
                found.append(value)
            place = part.find("{", end)
    return found
