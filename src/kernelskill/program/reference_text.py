"""The reference's own text inside the candidate: its class under a new name, with all that the class needs.

Copying the text keeps constructor, parameter names and the order in which random numbers are drawn, and the original
forward stays at hand for calls outside what was proven.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelskill.errors import ProgramError


@dataclass(frozen=True)
class ReferenceText:
    """Pieces of the candidate that come from the reference."""

    imports: tuple[str, ...]
    """Import statements that the pieces need."""
    definitions: tuple[str, ...]
    """Helper functions, classes and constants, in their order."""
    entry: str
    """Text of the class or function itself, not renamed."""
    parameters: tuple[str, ...]
    """Names of forward's parameters, without self."""
    signature: str = ""
    """The same as written, with annotations and defaults."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> text of its default."""
    keyword_only: frozenset[str] = frozenset()

    @property
    def passed_on(self) -> str:
        """All parameters as the arguments of a call with the same signature."""
        return ", ".join(f"{name}={name}" if name in self.keyword_only else name for name in self.parameters)


def cut(source: str, entry: str) -> ReferenceText:
    """Cut the entry and what it needs out of a module's text.

    Raises:
        ProgramError: the text does not define the entry.
    """
    tree = ast.parse(source)
    top = {name: node for node in tree.body for name in _defines(node)}
    if entry not in top:
        raise ProgramError(f"the reference's text does not define {entry}")
    needed: set[str] = set()
    queue = [entry]
    while queue:
        name = queue.pop()
        if name in needed or name not in top:
            continue
        needed.add(name)
        queue += [used for used in _uses(top[name]) if used in top]
    nodes = [node for node in tree.body if any(name in needed for name in _defines(node))]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    others = [node for node in nodes if node not in imports and node is not top[entry]]
    args = parameters_of(top[entry])
    return ReferenceText(
        imports=tuple(_text(source, node) for node in imports),
        definitions=tuple(_text(source, node) for node in others),
        entry=_text(source, top[entry]),
        parameters=tuple(item.arg for item in (*args.posonlyargs, *args.args, *args.kwonlyargs)),
        signature=ast.unparse(args),
        defaults=_defaults(args),
        keyword_only=frozenset(item.arg for item in args.kwonlyargs),
    )


def parameters_of(node: ast.stmt) -> ast.arguments:
    """Parameters of a function, or of a class's forward without self.

    Raises:
        ProgramError: there is no forward, or it takes *args or **kwargs.
    """
    function: ast.stmt | None = node
    if isinstance(node, ast.ClassDef):
        function = next(
            (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "forward"), None
        )
    if not isinstance(function, ast.FunctionDef):
        raise ProgramError("the reference's forward is not written in its own class")
    args = copy.deepcopy(function.args)
    if args.vararg or args.kwarg:
        raise ProgramError("forward takes *args or **kwargs; the writer needs names")
    if isinstance(node, ast.ClassDef):
        (args.posonlyargs or args.args).pop(0)
    return args


def _defaults(args: ast.arguments) -> dict[str, str]:
    positional = [*args.posonlyargs, *args.args]
    pairs = [*zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)]
    pairs += [(arg, value) for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value]
    return {arg.arg: ast.unparse(value) for arg, value in pairs}


def renamed(class_text: str, old: str, new: str) -> str:
    """A class's text under a new name, its forward as `_reference_forward`, with plain `super()`."""
    tree = ast.parse(class_text)
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    changes: list[tuple[int, int, int, str]] = []
    line = class_text.splitlines()[definition.lineno - 1]
    start = line.index(old, line.index("class"))
    changes.append((definition.lineno, start, start + len(old), new))
    for node in ast.walk(definition):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and node.args
        ):
            assert node.end_col_offset is not None
            if node.lineno == node.end_lineno:
                changes.append((node.lineno, node.col_offset, node.end_col_offset, "super()"))
        elif isinstance(node, ast.Name) and node.id == old:
            assert node.end_col_offset is not None
            changes.append((node.lineno, node.col_offset, node.end_col_offset, new))
    for item in definition.body:
        if isinstance(item, ast.FunctionDef) and item.name == "forward":
            text = class_text.splitlines()[item.lineno - 1]
            at = text.index("forward", text.index("def"))
            changes.append((item.lineno, at, at + len("forward"), "_reference_forward"))
    lines = class_text.splitlines()
    for number, begin, end, text in sorted(_outermost(changes), reverse=True):
        encoded = lines[number - 1].encode()
        lines[number - 1] = (encoded[:begin] + text.encode() + encoded[end:]).decode()
    return "\n".join(lines)


def _outermost(changes: list[tuple[int, int, int, str]]) -> list[tuple[int, int, int, str]]:
    """Changes that don't lie within another one (the name inside a rewritten super call)."""
    return [
        change
        for change in set(changes)
        if not any(
            other is not change and other[0] == change[0] and other[1] <= change[1] and change[2] <= other[2]
            and other[:3] != change[:3]
            for other in changes
        )
    ]  # fmt: skip


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign):
        return [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _uses(node: ast.stmt) -> set[str]:
    names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    return names - set(dir(builtins))


def _text(source: str, node: ast.stmt) -> str:
    """Source of a top-level statement, decorators included."""
    first = min(
        [node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))],
    )
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
