"""Equal kernels are printed once, and only equal ones are."""

from __future__ import annotations

import ast

import torch
from small_programs import Case, Computes, build, check
from test_writer import loaded
from torch import nn

from kernelskill.evaluation.worker.capture import capture
from kernelskill.program import Program, write
from kernelskill.program.cpp import source
from kernelskill.program.equal_kernels import other_names, printed_as
from kernelskill.records import Graph, Reference, Task, Workload


def blocks(first, second, third, x, y):
    """Three products, each with work behind it that is the same but for a factor of the last; and two softmaxes."""
    a = torch.tanh(first(x)) * y
    b = torch.tanh(second(a)) * y
    c = torch.tanh(third(b)) * y * 0.5
    return first(c), x.softmax(1), y.softmax(1)


def fused() -> Case:
    case = Case(
        "k",
        Computes(blocks, *(nn.Linear(24, 24) for _ in range(3))),
        [torch.randn(9, 24), torch.randn(9, 24)],
    )
    case.fuse()
    return case


def test_kernels_that_differ_in_names_only_are_one(tmp_path):
    case = fused()
    kernels = case.program.kernels
    printed = printed_as(kernels)
    names = [kernel.name for kernel in kernels]
    assert len(names) == 5
    assert len(set(printed.values())) == 3, "two maps, and one softmax"
    once = [kernel for kernel in kernels if kernel.name in printed.values()]
    library = build(once, tmp_path)
    for name, first in printed.items():
        setattr(library, name, getattr(library, first))
    check(case, library)


def test_another_schedule_type_or_order_is_another_kernel():
    program = fused().program
    first = next(kernel for kernel in program.kernels if kernel.region and len(kernel.region.inputs) == 2)
    wide = first.model_copy(
        update={"schedule": first.schedule.model_copy(update={"vector_bits": 512}), "name": "w"}
    )
    region = first.region
    assert region is not None
    swapped = first.model_copy(
        update={"name": "s", "body": region.model_copy(update={"inputs": region.inputs[::-1]})}
    )
    named = first.model_copy(update={"name": "n", "skills": ("other",), "computes": "other words"})
    assert printed_as((first, wide, swapped, named)) == {
        first.name: first.name, "w": "w", "s": "s", "n": first.name,
    }  # fmt: skip
    assert source(program.kernels).count('extern "C"') == len(program.kernels), (
        "whoever asks for all gets all"
    )


def test_a_file_has_one_function_and_its_further_names(tmp_path):
    case = fused()
    model, x, y = case.model, *case.inputs
    graph = Graph.model_validate(capture(model, (x, y), {}))
    task = Task(
        name="blocks", hash="0" * 64, origin="blocks.py",
        reference=Reference(loader="pickle", kind="module", entry="Model"),
    )  # fmt: skip
    workload = Workload(
        inputs=tuple(item.spec for item in graph.inputs), inputs_tree={"list": [{"tensor": 0}, {"tensor": 1}]},
        outputs=(), outputs_tree={"tuple": [{"tensor": index} for index in range(3)]}, state=(), eager_ms=1.0, graph=graph,
    )  # fmt: skip
    program = case.program.model_copy(
        update={"graph": case.program.graph.model_copy(update={"outputs_tree": workload.outputs_tree})}
    )
    text = write(program, task, workload)
    assert text.count('extern "C"') == 3
    for kernel in program.kernels:
        assert f"{kernel.name}(" in text.partition("class ModelNew")[2], "each place has its own name"
    functions = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert len(functions & {kernel.name for kernel in program.kernels}) == 3
    module = loaded(text, tmp_path)
    for name, first in printed_as(program.kernels).items():
        assert getattr(module, name) is getattr(module, first)


def test_a_long_list_of_names_is_broken():
    (first, *_) = fused().program.kernels
    many = [first.model_copy(update={"name": f"a_rather_long_name_of_a_step_{index}"}) for index in range(12)]
    text = other_names(many)
    assert all(len(line) <= 110 for line in text.splitlines())
    module: dict[str, object] = {many[0].name: "function"}
    exec(compile(text, "names", "exec"), module)
    assert {module[kernel.name] for kernel in many} == {"function"}
    assert other_names(many[:1]) == ""
    assert Program.from_graph(fused().program.graph).kernels == ()
