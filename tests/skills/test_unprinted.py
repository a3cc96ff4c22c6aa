"""An edit of a schedule that leaves the printed text as it is, is no edit."""

import pytest

from kernelskill.errors import ProgramError
from kernelskill.program import cpp, triton
from kernelskill.program.program import Program
from kernelskill.records import Edit
from kernelskill.skills import ExpertLibrary
from kernelskill.skills.example import calls, fused
from kernelskill.skills.unprinted import is_unprinted

LIBRARY = ExpertLibrary(None)
TOP = (("m", "amax.default", ("x", (1,), True), (64, 1)), ("d", "sub.Tensor", ("x", "m")))
PROGRAMS = {
    "map": fused(calls(("a", "exp.default", ("x",)))),
    "row": fused(calls(*TOP)),
    "reduce": fused(calls(("s", "sum.dim_IntList", ("x", (1,)), (64,)))),
    "strided": fused(calls(("s", "sum.dim_IntList", ("x", (1,)), (64, 60)), shape=(64, 56, 60))),
}
VALUES = {
    "vector_bits": 512, "unroll": 4, "accumulators": 4, "block": 512, "nontemporal": True, "split": 4, "threads": 1,
    "gpu_block": 512, "gpu_rows": 2, "gpu_num_warps": 8, "gpu_num_stages": 3, "gpu_split": 4,
}  # fmt: skip


def text(program: Program) -> tuple[str, ...]:
    kernel = program.kernels[0].model_copy(update={"skills": ()})
    launches = triton.kernel_function(kernel).launches
    return (cpp.source((kernel,)), *(f"{item.function()}\n{item.call()}" for item in launches))


def applied(program: Program, name: str, value: int | bool) -> Program | None:
    """The program with one field of its kernel's schedule set by a skill; None where that is no edit."""
    edit = Edit(
        skill="size-gpu-tile",
        site=program.kernels[0].name,
        action=f"schedule.{name}",
        parameters={name: value},
    )
    try:
        return Program.model_validate(LIBRARY.apply(program.model_dump(mode="json"), edit))
    except ProgramError:
        return None


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("name", VALUES)
def test_programs_of_equal_text_are_one(kind, name):
    program = PROGRAMS[kind]
    after = applied(program, name, VALUES[name])
    assert after is None or text(after) != text(program)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("map", "accumulators"), ("map", "gpu_num_stages"), ("reduce", "nontemporal"), ("row", "block")],
)
def test_a_field_that_the_kind_does_not_use_is_refused_and_it_is_said(kind, name):
    program = PROGRAMS[kind]
    edit = Edit(
        skill="size-gpu-tile", site=program.kernels[0].name, action="set", parameters={name: VALUES[name]}
    )
    with pytest.raises(ProgramError, match=r"size-gpu-tile: set at .* changes nothing that is printed"):
        LIBRARY.apply(program.model_dump(mode="json"), edit)


@pytest.mark.parametrize(
    ("kind", "name"), [("map", "unroll"), ("reduce", "accumulators"), ("map", "gpu_block")]
)
def test_a_field_that_is_printed_is_an_edit(kind, name):
    assert applied(PROGRAMS[kind], name, VALUES[name]) is not None


def test_what_else_changes_is_never_called_unprinted():
    program = PROGRAMS["map"]
    assert not is_unprinted(program, program), "nothing changed: that is for others to see"
    assert not is_unprinted(program, program.model_copy(update={"wrapper": "graph"}))
    assert not is_unprinted(program, PROGRAMS["row"])
    assert not is_unprinted(program, Program.from_graph(program.graph))
    kernel = program.kernels[0]
    gpu = kernel.schedule.gpu.model_copy(update={"cluster": 2})
    clustered = kernel.model_copy(update={"schedule": kernel.schedule.model_copy(update={"gpu": gpu})})
    assert not is_unprinted(program, program.with_kernel(clustered)), "it is printed in another language"
