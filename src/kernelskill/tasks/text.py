"""What a module's text says about itself, read without running it."""

from __future__ import annotations

import ast
import importlib.util
import sys

from kernelskill.errors import TaskError
from kernelskill.records import Reference


def reference_of(source: str, where: str, entry: str, inputs: str, init: str) -> Reference:
    """The reference that a module's text defines.

    Args:
        source: text of the module.
        where: what to call it in messages.
        entry: class or function asked for; "" finds KernelBench's `Model`, or the only module class.
        inputs: expression that gives the inputs; "" uses `get_inputs`.
        init: expression that gives the constructor's arguments; "" uses `get_init_inputs`, if there is one.

    Raises:
        TaskError: one clear line.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise TaskError(f"{where}: line {error.lineno}: {error.msg}") from error
    check_imports(tree, where)
    for name, expression in (("--inputs", inputs), ("--init", init)):
        _check_expression(name, expression)
    top = {name: node for node in tree.body for name in _names(node)}
    entry = entry or _default_entry(top, where)
    if entry not in top:
        known = [name for name, node in top.items() if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        raise TaskError(f"{where} defines no {entry}; it defines {', '.join(known) or 'nothing'}")
    if not inputs and "get_inputs" not in top:
        raise TaskError(
            f"{where} gives no inputs: add a function get_inputs(), or pass --inputs '[torch.randn(64, 128)]'"
        )
    is_function = isinstance(top[entry], ast.FunctionDef)
    return Reference(
        loader="source",
        kind="function" if is_function else "module",
        entry=entry,
        source=source,
        init_entry="get_init_inputs" if "get_init_inputs" in top and not init and not is_function else "",
        init_expression=init,
        inputs_entry="" if inputs else "get_inputs",
        inputs_expression=inputs,
    )


def check_imports(tree: ast.Module, where: str) -> None:
    """Name the first package that is not installed.

    Raises:
        TaskError: "missing dependency NAME (pip install NAME)".
    """
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
        for name in names:
            root = name.split(".")[0]
            if root in sys.stdlib_module_names or root == "torch":
                continue
            if importlib.util.find_spec(root) is None and not _beside(root, where):
                raise TaskError(f"{where}: missing dependency {root} (pip install {root})")


def _beside(root: str, where: str) -> bool:
    """Whether the name is a file or package in the folder of the task's file."""
    from pathlib import Path

    folder = Path(where).resolve().parent
    return (folder / f"{root}.py").exists() or (folder / root).is_dir()


def _check_expression(name: str, expression: str) -> None:
    if expression:
        try:
            ast.parse(expression, mode="eval")
        except SyntaxError as error:
            raise TaskError(f"{name} is not a Python expression: {error.msg}: {expression}") from error


def _default_entry(top: dict[str, ast.stmt], where: str) -> str:
    if isinstance(top.get("Model"), ast.ClassDef):
        return "Model"
    classes = [name for name, node in top.items() if isinstance(node, ast.ClassDef) and _is_module(node)]
    if len(classes) == 1:
        return classes[0]
    if classes:
        raise TaskError(
            f"{where} defines several modules; say which: {', '.join(f'{where}:{c}' for c in classes)}"
        )
    functions = [
        name
        for name, node in top.items()
        if isinstance(node, ast.FunctionDef) and not name.startswith("get_")
    ]
    if len(functions) == 1:
        return functions[0]
    raise TaskError(f"{where} defines no class Model; name a class or function, as in {where}:NAME")


def _is_module(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split(".")[-1] == "Module" for base in node.bases)


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.ImportFrom | ast.Import):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return []
