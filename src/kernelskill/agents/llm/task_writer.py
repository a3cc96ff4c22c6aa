"""A description turned into a reference task: one file with the model, its inputs, and tests of its own."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable

from kernelskill.agents.llm.conversation import Conversation
from kernelskill.agents.llm.prompts import Section, assemble, render
from kernelskill.agents.llm.reading import UnusableReply, source_of
from kernelskill.protocols import LanguageModel
from kernelskill.records.model import ModelSettings

LEAST_TESTS = 3
NEEDED = ("Model", "get_inputs", "get_init_inputs")
CHECKS = "Checks"
"""Class that runs the tests of a file when it is called."""


def write_task(
    model: LanguageModel,
    settings: ModelSettings,
    description: str,
    target: str,
    prove: Callable[[str], str],
) -> str:
    """The text of the task's file.

    Args:
        model: who is asked.
        settings: tries and caps.
        description: what a person wants computed, in words.
        target: device that it is for.
        prove: runs the file and its tests, confined; gives what went wrong, or "".

    Raises:
        ModelError: no usable answer, no model, or no budget.
    """

    def proven(text: str) -> str:
        source = source_of(text, "Model")
        fault = _fault_of(source) or prove(source)
        if fault:
            raise UnusableReply(fault)
        return source

    instructions = render("task_writer", target=target)
    prompt = assemble(instructions, [Section("The description", description)], settings.prompt_chars)
    return Conversation(model, settings).ask("task-writer", "task", prompt, proven)


def tests_of(source: str) -> tuple[str, ...]:
    """Names of the tests in a file."""
    return tuple(
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def with_checks(source: str) -> str:
    """The file with a module whose forward runs all its tests and names the first that fails."""
    names = ", ".join(f'("{name}", {name})' for name in tests_of(source))
    return f"""{source.rstrip()}


class {CHECKS}(torch.nn.Module):
    def forward(self, x):
        for name, test in ({names},):
            try:
                test()
            except Exception as error:  # whatever a test raises, it fails by name
                raise AssertionError(f"{{name}} fails: {{type(error).__name__}}: {{error}}") from error
        return x + 1
"""


def _fault_of(source: str) -> str:
    """What the text alone shows to be missing; "" if nothing."""
    tree = ast.parse(source)
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    missing = [name for name in NEEDED if name not in defined]
    if missing:
        return f"The file does not define {', '.join(missing)}."
    if len(tests_of(source)) < LEAST_TESTS:
        return f"The file has {len(tests_of(source))} tests; {LEAST_TESTS} are needed at least."
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for name in names:
            root = name.split(".")[0]
            if root != "torch" and root not in sys.stdlib_module_names:
                return f"The file imports {root}; only torch and the standard library may be used."
    return ""
