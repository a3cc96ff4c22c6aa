"""Joining kernels that share an input, and cutting one with several results, compute what torch computes."""

import pytest
import torch

from kernelskill.errors import ProgramError
from kernelskill.evaluation.worker.capture import capture
from kernelskill.program import Program, program_hash, write
from kernelskill.program.fusion import fuse
from kernelskill.records import Edit, Facts, Reference, Task, TensorSpec, Workload
from kernelskill.skills.library import load_recipe
from kernelskill.skills.sources import BUNDLED

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.cat([torch.tanh(x) * y, torch.exp(x) + 1, torch.sigmoid(y)])
"""
JOIN = load_recipe(BUNDLED / "fuse_siblings" / "recipe.py")
CUT = load_recipe(BUNDLED / "loop_fission" / "recipe.py")
X, Y = torch.randn(24, 40), torch.randn(24, 40)


def spec(tensor):
    return TensorSpec.contiguous(tuple(tensor.shape))


@pytest.fixture(scope="module")
def apart():
    """Three kernels: two read x, two read y."""
    names = {}
    exec(SOURCE, names)
    graph = capture(names["Model"](), (X, Y), {})
    graph["outputs_tree"] = {"tensor": 0}
    program = Program.model_validate({"graph": graph})
    ops = {node.op.split(".")[1]: node.name for node in program.graph.nodes}
    for group, name in (({"tanh", "mul"}, "left"), ({"exp", "add"}, "middle"), ({"sigmoid"}, "right")):
        program = fuse(program, {ops[item] for item in group}, name=name)
    return program


def ran(program):
    task = Task(
        name="t", hash="0" * 64, origin="t",
        reference=Reference(loader="source", kind="module", entry="Model", source=SOURCE),
    )  # fmt: skip
    workload = Workload(
        inputs=(spec(X), spec(Y)), inputs_tree={"list": [{"tensor": 0}, {"tensor": 1}]},
        outputs=(TensorSpec.contiguous((72, 40)),), outputs_tree={"tensor": 0}, state=(), eager_ms=1.0,
    )  # fmt: skip
    written = {}
    exec(write(program, task, workload), written)
    with torch.no_grad():
        return written["ModelNew"]()(X, Y)


def wanted():
    return torch.cat([torch.tanh(X) * Y, torch.exp(X) + 1, torch.sigmoid(Y)])


def test_kernels_that_share_an_input_become_one_that_reads_it_once(apart):
    edits = JOIN.propose(apart, Facts())
    pairs = {frozenset(edit.site.split(",")): edit for edit in edits}
    assert set(pairs) == {frozenset({"left", "middle"}), frozenset({"left", "right"})}
    joined = JOIN.apply(apart, pairs[frozenset({"left", "middle"})])
    (kernel,) = [item for item in joined.kernels if len(item.outputs) == 2]
    assert len(kernel.region.inputs) == 2, "x once, and y"
    assert sum(op.fn == "load" for op in kernel.region.stages[0].ops) == 2
    torch.testing.assert_close(ran(joined), wanted(), rtol=1e-5, atol=1e-6)
    again = JOIN.apply(joined, JOIN.propose(joined, Facts())[0])
    assert len(again.kernels) == 1
    torch.testing.assert_close(ran(again), wanted(), rtol=1e-5, atol=1e-6)


def test_a_kernel_of_several_results_is_cut_wherever_its_space_says(apart):
    whole = JOIN.apply(apart, JOIN.propose(apart, Facts())[0])
    whole = JOIN.apply(whole, JOIN.propose(whole, Facts())[0])
    (edit,) = CUT.propose(whole, Facts())
    assert set(edit.space["after"]) == {1, 2}
    for after in edit.space["after"]:
        cut = CUT.apply(whole, edit.model_copy(update={"parameters": {"after": after}}))
        assert sorted(len(kernel.outputs) for kernel in cut.kernels) == [1, 2]
        assert program_hash(cut) != program_hash(whole)
        torch.testing.assert_close(ran(cut), wanted(), rtol=1e-5, atol=1e-6)


def test_what_does_not_fit_is_refused(apart):
    assert CUT.propose(apart, Facts()) == [], "one result each"
    for recipe, edit in (
        (JOIN, Edit(skill="fuse-siblings", site="middle,right", action="join")),
        (JOIN, Edit(skill="fuse-siblings", site="left,gone", action="join")),
        (CUT, Edit(skill="loop-fission", site="gone", action="split", parameters={"after": 1})),
        (CUT, Edit(skill="loop-fission", site="left", action="split", parameters={"after": 1})),
    ):
        with pytest.raises(ProgramError):
            recipe.apply(apart, edit)


def test_a_pair_of_which_one_reads_the_other_is_left_alone():
    class Chain(torch.nn.Module):
        def forward(self, x):
            return torch.exp(torch.tanh(x)) + x

    graph = capture(Chain(), (X,), {})
    graph["outputs_tree"] = {"tensor": 0}
    program = Program.model_validate({"graph": graph})
    ops = {node.op.split(".")[1]: node.name for node in program.graph.nodes}
    program = fuse(fuse(program, {ops["tanh"]}, name="first"), {ops["exp"], ops["add"]}, name="second")
    assert JOIN.propose(program, Facts()) == []
