"""Rewrites inside kernels: cheaper arithmetic, and a map merged into its reader, compiled and compared with eager."""

from __future__ import annotations

import pytest
import torch
from small_programs import Case, Computes, build, check, export, run
from torch.nn import functional as F

from kernelskill.errors import ProgramError
from kernelskill.program import fusion
from kernelskill.program.program import Program
from kernelskill.program.rewrite.cheaper import RULES
from kernelskill.program.rewrite.merge import Pair, merge, mergeable

draw = torch.randn
WIDE = torch.cat([draw(30, 90), draw(30, 10) * 30], 1)

CHEAPER = {
    "l1": ("reciprocal", lambda x: x / x.abs().sum(1, keepdim=True), WIDE),
    "l2_middle": ("reciprocal", lambda x: x / x.norm(p=2, dim=1, keepdim=True), draw(4, 16, 40)),
    "constant": ("reciprocal", lambda x: (x + 1) / 3, WIDE),
    "twice": ("shared", lambda x: x.exp() / (1 + x.exp()) + x.exp(), draw(30, 100)),
    "gelu": ("one-exponential", lambda x: F.gelu(x, approximate="tanh"), WIDE),
    "mish": ("one-exponential", lambda x: F.mish(x) + 1, WIDE),
}  # fmt: skip


def count(case: Case, *functions: str) -> int:
    """How many operations of these kinds are done for each element."""
    stages = [stage for kernel in case.program.kernels for stage in kernel.region.stages]
    return sum(op.fn in functions for stage in stages if stage.kind != "scalar" for op in stage.ops)


@pytest.fixture(scope="module")
def cheaper(tmp_path_factory):
    found = {}
    for name, (rule, function, x) in CHEAPER.items():
        case, before = Case(f"cheap_{name}", Computes(function), [x]), Case("before", Computes(function), [x])
        case.fuse()
        before.program = case.program
        for kernel in case.program.kernels:
            assert kernel.region is not None
            changed = kernel.model_copy(update={"body": RULES[rule][0](kernel.region)})
            case.program = case.program.with_kernel(changed)
        found[name] = (before, case)
    kernels = [kernel for _, case in found.values() for kernel in case.program.kernels]
    return found, build(kernels, tmp_path_factory.mktemp("cheaper"))


@pytest.mark.parametrize("name", CHEAPER)
def test_cheaper_arithmetic_is_as_accurate(cheaper, name):
    found, library = cheaper
    before, after = found[name]
    dear = {
        "reciprocal": ("div",),
        "shared": ("exp",),
        "one-exponential": ("tanh", "log1p", "exp", "sigmoid"),
    }
    kinds = dear[CHEAPER[name][0]]
    assert count(after, *kinds) < count(before, *kinds) or name == "gelu"
    if name == "gelu":
        assert (count(before, "tanh"), count(after, "tanh"), count(after, "sigmoid")) == (1, 0, 1)
    check(after, library)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_nothing_twice(cheaper, rule):
    for before, _ in cheaper[0].values():
        for kernel in before.program.kernels:
            once = RULES[rule][0](kernel.region)
            assert RULES[rule][0](once) == once


MERGED = {
    "map_map": (lambda x, w: (x * 2 + w).tanh(), ["mul", "add"], (draw(6, 40), draw(40))),
    "map_row": (lambda x, w: torch.softmax(F.relu(x + w), -1), ["add", "relu"], (draw(6, 40), draw(40))),
    "map_sum": (lambda x, y: (x * y).sum(1), ["mul"], (draw(6, 40), draw(6, 40))),
    "map_strided": (lambda x, w: (x * w).amax(1), ["mul"], (draw(4, 9, 40), draw(9, 1))),
    "mask": (lambda x: torch.where(x > 0, x, x * 0.1), ["gt"], (draw(6, 40),)),
}  # fmt: skip


def two_kernels(name: str) -> Case:
    """The first operators in one kernel, the others in another."""
    function, first, inputs = MERGED[name]
    case = Case(f"merge_{name}", Computes(function), list(inputs))
    program = Program.from_graph(export(case.model, case.inputs))
    chosen = {node.name for node in program.graph.nodes if node.op.split(".")[1] in first[: len(first)]}
    rest = {node.name for node in program.graph.nodes} - chosen
    if name == "mask":
        chosen, rest = {"gt"}, rest
    program = fusion.fuse(program, chosen, name=f"{name}_first")
    case.program = fusion.fuse(program, rest, name=f"{name}_second")
    return case


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    cases = {name: two_kernels(name) for name in MERGED}
    for case in cases.values():
        (pair,) = mergeable(case.program)
        case.program = merge(case.program, pair, "merge-kernels")
    library = build(
        [k for case in cases.values() for k in case.program.kernels], tmp_path_factory.mktemp("merged")
    )
    return cases, library


@pytest.mark.parametrize("name", MERGED)
def test_a_map_goes_into_the_kernel_that_reads_it(merged, name):
    cases, library = merged
    (kernel,) = cases[name].program.kernels
    assert kernel.name == f"{name}_second"
    assert "merge-kernels" in kernel.skills
    assert [node.op for node in cases[name].program.graph.nodes] == [f"kernel:{kernel.name}"]
    check(cases[name], library)


def test_a_result_with_two_readers_is_not_merged():
    model = Computes(lambda x: ((x * 2).tanh(), (x * 2).sum(1)))
    program = Program.from_graph(export(model, [draw(6, 40)]))
    mul, tanh, mul_1, total = (node.name for node in program.graph.nodes)
    program = fusion.fuse(fusion.fuse(program, {mul}, name="left"), {tanh}, name="right")
    program = fusion.fuse(program, {mul_1, total}, name="third")
    (pair,) = mergeable(program)
    assert pair == Pair("left", "right")
    with pytest.raises(ProgramError, match="there are no kernels"):
        merge(program, Pair("left", "nowhere"))
    with pytest.raises(ProgramError, match="read by others"):
        merge(program, Pair("left", "third"))


def test_a_value_that_is_read_again_and_again_stays_stored():
    case = Case("again", Computes(lambda x, y: x.exp() * y), [draw(40), draw(6, 40)])
    program = Program.from_graph(export(case.model, case.inputs))
    exp, mul = (node.name for node in program.graph.nodes)
    program = fusion.fuse(fusion.fuse(program, {exp}, name="small"), {mul}, name="large")
    assert mergeable(program) == []
    with pytest.raises(ProgramError, match="better stored"):
        merge(program, Pair("small", "large"))


def test_a_transposed_read_keeps_its_meaning(tmp_path):
    case = Case("turned", Computes(lambda x, w: (x * w).transpose(0, 1).tanh()), [draw(6, 40), draw(40)])
    program = Program.from_graph(export(case.model, case.inputs))
    names = [node.name for node in program.graph.nodes]
    program = fusion.fuse(program, {names[0]}, name="turned_first")
    program = fusion.fuse(program, set(names[1:]), name="turned_second")
    (pair,) = mergeable(program)
    case.program = merge(program, pair)
    library = build(list(case.program.kernels), tmp_path)
    check(case, library)
    assert run(case, library)[0][0].shape == (40, 6)
