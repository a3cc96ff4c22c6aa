"""Rows in clusters of blocks: where they are proposed, and how they are written."""

import sys
from pathlib import Path

import pytest
import torch
from skill_examples import KERNEL, facts_of

from kernelskill.errors import ProgramError
from kernelskill.program import write
from kernelskill.program.triton.printer import TRITON
from kernelskill.records import Edit
from kernelskill.skills.library import ExpertLibrary, load_recipe
from kernelskill.skills.sources import BUNDLED

sys.path.append(str(Path(__file__).parents[1] / "gpu"))
from clustered import SOFTMAX, forward, imported, traced

SKILL = "cuda-cluster-rows"
RECIPE = load_recipe(BUNDLED / "cuda_cluster_rows" / "recipe.py")
LIBRARY = ExpertLibrary(None)
H200 = {"target": "cuda", "compute_capability": 90}
ROW = {**KERNEL, "kernel_kind": "row", "passes": 2, "row_length": 100000}


def rows(length, dtype=torch.float32, source=SOFTMAX):
    return traced(source, [torch.empty(8, length, dtype=dtype, device="meta")])


def offered(length, dtype=torch.float32, source=SOFTMAX, **facts):
    program, *_ = rows(length, dtype, source)
    edits = RECIPE.propose(program, facts_of({**H200, **facts}))
    return [value for edit in edits for value in edit.space["gpu_cluster"]]


@pytest.mark.parametrize(
    ("program", "kernel", "wanted"),
    [
        ({}, {}, True),
        ({"compute_capability": 80}, {}, False),
        ({"compute_capability": None}, {}, False),
        ({"target": "cpu"}, {}, False),
        ({}, {"row_length": 16384}, False),
        ({}, {"passes": 1}, False),
        ({}, {"kernel_kind": "strided"}, False),
    ],
)
def test_the_gate_asks_for_long_rows_and_a_gpu_with_clusters(program, kernel, wanted):
    facts = facts_of({"floor_share_ratio": 0.5, **H200, **program}, k={**ROW, **kernel})
    assert (SKILL in LIBRARY.retrieve(facts).admitted) == wanted


def test_the_smallest_cluster_with_room_for_two_blocks_comes_first():
    assert offered(50000)[:2] == [2, 4]
    assert offered(100000)[0] == 4
    assert offered(393216) == [8, 16], "197 KB each; sixteen blocks of 98 KB are slower"
    assert offered(800000) == [16], "200 KB each"
    assert offered(800000, torch.bfloat16) == [8, 16]


def test_what_no_cluster_helps_is_left_alone():
    assert offered(1_000_000) == [], "no cluster holds so much"
    assert offered(16384) == []
    assert offered(50000, compute_capability=80) == []
    assert offered(50000, source=forward("x", "x.square().mean(-1)")) == [], "walked once"
    assert offered(50000, source=forward("x", "torch.tanh(x)")) == []


def test_the_file_holds_both_forms_and_answers_on_a_processor_as_the_reference(tmp_path):
    program, task, workload = rows(50000)
    (edit,) = RECIPE.propose(program, facts_of(H200))
    changed = RECIPE.apply(program, edit)
    assert changed.kernels[0].schedule.gpu.cluster == 2
    text = write(changed, task, workload, TRITON)
    names = imported(text, tmp_path)
    assert {"_rows_0", "_rows_0_unaligned"} <= set(names)
    assert "cluster=2" in text
    assert "torch/extension.h" not in text
    x = torch.randn(2, 50000)
    torch.testing.assert_close(names["ModelNew"]()(x), torch.softmax(x, -1))
    back = [edit for edit in RECIPE.propose(changed, facts_of(H200)) if 0 in edit.space["gpu_cluster"]]
    assert back, "a cluster may turn out slower than Triton"


def test_a_size_that_does_not_fit_is_an_error_of_the_program():
    program, *_ = rows(800000)
    edit = Edit(skill=SKILL, site=program.kernels[0].name, action="x", parameters={"gpu_cluster": 2})
    with pytest.raises(ProgramError, match="more than fit"):
        RECIPE.apply(program, edit)
    with pytest.raises(ProgramError, match="2, 4, 8, 16"):
        RECIPE.apply(program, edit.model_copy(update={"parameters": {"gpu_cluster": 3}}))
