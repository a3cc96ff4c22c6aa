"""What a module's text says about itself, read without running it."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

from kernelskill.errors import TaskError
from kernelskill.records import Reference

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def reference_of(
    source: str, where: str, entry: str, inputs: str, init: str, folders: tuple[Path, ...] = ()
) -> Reference:
    """The reference that a module's text defines.

    Args:
        source: text of the module.
        where: what to call it in messages.
        entry: class or function asked for; "" finds KernelBench's `Model`, or the only module class.
        inputs: expression that gives the inputs; "" uses `get_inputs`.
        init: expression that gives the constructor's arguments; "" uses `get_init_inputs`, if there is one.
        folders: where its imports may lie, beside what is installed.

    Raises:
        TaskError: one clear line.
    """
    tree = parsed(source, where)
    for name, expression in (("--inputs", inputs), ("--init", init)):
        _check_expression(name, expression)
    check_imports(tree, where, folders)
    top = {name: node for node in statements(tree) for name in names_of(node)}
    entry = entry or _default_entry(top, where)
    if entry not in top:
        known = [name for name, node in top.items() if isinstance(node, Definition)]
        raise TaskError(
            f"{where} defines no {entry}; it defines {', '.join(known) or 'no class or function'}"
        )
    if not inputs and "get_inputs" not in top:
        raise TaskError(
            f"{where} gives no inputs: add a function get_inputs(), or pass --inputs '[torch.randn(64, 128)]'"
        )
    if isinstance(top[entry], ast.AsyncFunctionDef):
        raise TaskError(f"{where}: {entry} is an async function, which cannot be a task")
    is_function = isinstance(top[entry], ast.FunctionDef)
    has_init = "get_init_inputs" in top and not init and not is_function
    return Reference(
        loader="source",
        kind="function" if is_function else "module",
        entry=entry,
        source=source,
        init_entry="get_init_inputs" if has_init else "",
        init_expression=init,
        inputs_entry="" if inputs else "get_inputs",
        inputs_expression=inputs,
    )


def parsed(source: str, where: str) -> ast.Module:
    """The syntax tree.

    Raises:
        TaskError: the line that is not Python.
    """
    try:
        return ast.parse(source)
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        raise TaskError(f"{where}: {line}{error.msg}") from error


def check_imports(tree: ast.Module, where: str, folders: tuple[Path, ...]) -> None:
    """Name the first package that is not installed; imports inside try, if or functions are optional.

    Raises:
        TaskError: "missing dependency NAME (pip install NAME)".
    """
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
        for root in (name.split(".")[0] for name in names):
            if root in sys.stdlib_module_names or root == "torch" or _beside(root, folders):
                continue
            if not _installed(root):
                raise TaskError(f"{where}: missing dependency {root} (pip install {root})")


def statements(tree: ast.Module) -> list[ast.stmt]:
    """Statements that run when the module is imported, those under if, try and with included."""
    found: list[ast.stmt] = []
    queue = list(tree.body)
    while queue:
        node = queue.pop(0)
        found.append(node)
        if isinstance(node, ast.If | ast.Try | ast.With) and not _is_main_guard(node):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            inner += [item for handler in getattr(node, "handlers", []) for item in handler.body]
            queue = inner + queue
    return found


def names_of(node: ast.stmt) -> list[str]:
    """Names that a statement binds."""
    if isinstance(node, Definition):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [item.id for target in node.targets for item in ast.walk(target) if isinstance(item, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return [node.target.id]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return []


def _installed(root: str) -> bool:
    try:
        return importlib.util.find_spec(root) is not None
    except ValueError:  # a module without a spec, as __main__ has none
        return root in sys.modules


def _beside(root: str, folders: tuple[Path, ...]) -> bool:
    """Whether the name is a file or package in one of the folders."""
    return any((folder / f"{root}.py").exists() or (folder / root).is_dir() for folder in folders)


def _check_expression(name: str, expression: str) -> None:
    if expression:
        try:
            ast.parse(expression, mode="eval")
        except SyntaxError as error:
            raise TaskError(f"{name} is not a Python expression: {error.msg}: {expression}") from error


def _default_entry(top: dict[str, ast.stmt], where: str) -> str:
    if "Model" in top:
        return "Model"
    modules = [name for name, node in top.items() if isinstance(node, ast.ClassDef) and _is_module(node, top)]
    functions = [
        name
        for name, node in top.items()
        if isinstance(node, ast.FunctionDef) and not name.startswith("get_")
    ]
    found = modules or functions
    if len(found) == 1:
        return found[0]
    if found:
        kind = "modules" if modules else "functions"
        raise TaskError(
            f"{where} defines several {kind}; say which: {', '.join(f'{where}:{c}' for c in found)}"
        )
    raise TaskError(f"{where} defines no class Model; name a class or function, as in {where}:NAME")


def _is_module(node: ast.ClassDef, top: dict[str, ast.stmt]) -> bool:
    """Whether a class derives from something called Module, directly or through a class of the file."""
    for base in node.bases:
        name = ast.unparse(base).split(".")[-1]
        parent = top.get(name)
        if name == "Module" or (
            isinstance(parent, ast.ClassDef) and parent is not node and _is_module(parent, top)
        ):
            return True
    return False


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
