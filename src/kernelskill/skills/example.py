"""Worked examples that run: the ```python blocks of a card, with these names at hand.

    calls(("a", "div.Tensor", ("x", 3.0)), ("b", "exp.default", ("a",)))   a program of ATen calls on an input x
    fused(program)          every site of a kind ("elementwise", "reduction", "rows", "softmax") made a kernel
    propose(program, facts) what this card's recipe offers
    apply(program, edit)    the program after it
    edited(program, facts)  the program after the first offer
    known(k1={"rows": 4})                 facts of kernels by name; `whole={...}`: of the program
    grouped(program, {"a"}, {"b", "c"})   one kernel for each set of nodes
    joined(program)         kernels that read a tensor in common made one (skill fuse-siblings)
    cpp(program), gpu(program)            its kernels as C++, as Triton
    bank_ways(source, name) lanes that meet in one bank of shared memory in a kernel in CUDA C++
    math                    the module

A block passes if it ends; it asserts what it shows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from kernelskill.errors import SkillError
from kernelskill.features.shared_memory import bank_ways
from kernelskill.program import cpp as cpp_printer
from kernelskill.program import triton
from kernelskill.program.fusion import Kind, fuse, sites
from kernelskill.program.program import Program
from kernelskill.records import (
    Edit,
    Fact,
    Facts,
    Graph,
    GraphInput,
    GraphState,
    Node,
    Ref,
    Scalar,
    TensorSpec,
)
from kernelskill.skills.card import Card

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
Shape = tuple[int, ...]


def blocks(card: Card) -> tuple[str, ...]:
    """The blocks of Python of a card's worked example."""
    return tuple(_BLOCK.findall(card.section("Worked example") + "\n"))


def run_examples(card: Card, recipe: Any) -> None:
    """Run all blocks of a card.

    Args:
        card: whose examples.
        recipe: its loaded recipe, or None.

    Raises:
        SkillError: a block raised; the message has its line.
    """
    for number, text in enumerate(blocks(card), 1):
        try:
            exec(compile(text, f"example {number}", "exec"), names_of(recipe))
        except Exception as error:  # an example may fail in any way; its card is named
            line = _line_of(error, f"example {number}")
            shown = text.splitlines()[line - 1].strip() if line else "?"
            told = f": {error}" if str(error) else ""
            raise SkillError(f"block {number}, line {line}: {shown}: {type(error).__name__}{told}") from error


def names_of(recipe: Any) -> dict[str, Any]:
    """What a block can use."""

    def edited(program: Program, facts: Facts | None = None) -> Program:
        first: Edit = recipe.propose(program, facts or Facts())[0]
        after: Program = recipe.apply(program, first)
        return after

    at_hand: dict[str, Callable[..., Any]] = {
        "calls": calls, "fused": fused, "grouped": grouped, "joined": joined, "known": known, "cpp": cpp, "gpu": gpu,
        "bank_ways": bank_ways,
    }  # fmt: skip
    if recipe is not None:
        at_hand |= {"propose": recipe.propose, "apply": recipe.apply, "edited": edited}
    return {**at_hand, "math": math}


def calls(
    *nodes: tuple[Any, ...], shape: Shape = (64, 256), state: dict[str, Shape] | None = None
) -> Program:
    """A program of ATen calls.

    Args:
        nodes: (name, overload, arguments) or (name, overload, arguments, shape of the result); strings among the
            arguments that name an input, state or earlier node are that value. The last node is the result.
        shape: of the input `x`, and of every result without a shape of its own.
        state: parameters by name.
    """
    parameters = state or {}
    values = {"x", *parameters, *(node[0] for node in nodes)}

    def argument(item: Any) -> Any:
        if isinstance(item, str) and item in values:
            return Ref(node=item)
        return tuple(map(argument, item)) if isinstance(item, tuple) else item

    graph = Graph(
        inputs=(GraphInput(name="x", spec=TensorSpec.contiguous(shape), leaf=0),),
        state=tuple(
            GraphState(name=name, path=name, spec=TensorSpec.contiguous(size), kind="parameter")
            for name, size in parameters.items()
        ),
        nodes=tuple(
            Node(
                name=name,
                op=f"aten.{op}",
                args=tuple(map(argument, args)),
                outputs=(TensorSpec.contiguous(result[0] if result else shape),),
            )
            for name, op, args, *result in nodes
        ),
        outputs=(Ref(node=nodes[-1][0]),),
        outputs_tree={"tensor": 0},
    )
    return Program.from_graph(graph)


def fused(program: Program, *kinds: Kind) -> Program:
    """The program with every site of these kinds as a kernel; by default of all kinds, rows first."""
    for kind in kinds or ("softmax", "rows", "reduction", "elementwise"):
        while found := sites(program, kind):
            program = fuse(program, found[0])
    return program


def grouped(program: Program, *groups: set[str]) -> Program:
    """The program with one kernel for each set of nodes, named after its last one."""
    for group in groups:
        program = fuse(program, group, name=f"kernel_{'_'.join(sorted(group))}")
    return program


def joined(program: Program) -> Program:
    """The program with the first pair of kernels that share an operand as one kernel of two results."""
    from kernelskill.skills.library import load_recipe
    from kernelskill.skills.sources import BUNDLED

    recipe = load_recipe(BUNDLED / "fuse_siblings" / "recipe.py")
    after: Program = recipe.apply(program, recipe.propose(program, Facts())[0])
    return after


def known(*, whole: dict[str, Scalar] | None = None, **kernels: dict[str, Scalar]) -> Facts:
    """Facts of the whole program and of kernels by name."""
    groups = {"": whole or {}, **kernels}
    return Facts(
        facts=tuple(
            Fact(name=name, value=value, origin="judged", subject=subject)
            for subject, values in groups.items()
            for name, value in values.items()
        )
    )


def cpp(program: Program) -> str:
    """The program's kernels in C++."""
    return cpp_printer.source(program.kernels)


def gpu(program: Program) -> str:
    """The program's kernels in Triton."""
    return "\n".join(
        launch.function() for kernel in program.kernels for launch in triton.kernel_function(kernel).launches
    )


def _line_of(error: BaseException, file: str) -> int:
    """The block's line that was running when the error was raised; 0 if it never ran."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
