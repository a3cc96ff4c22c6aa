"""A plan carried out."""

import pytest
from toy_library import TASK, ToyLibrary, candidate, fused, graph, plan, schedule, workload

from kernelskill.agents import ExpertOptimizer
from kernelskill.errors import ProgramError
from kernelskill.records import Candidate, Edit


class Echo:
    """Prints a program as the names of its kernels."""

    def source(self, program, task, workload):
        return f"# {task.name}: {program['wrapper']}{[kernel['name'] for kernel in program['kernels']]}"


FUSE = Edit(skill="fuse-elementwise", site="n0", action="fuse")
WRAP = Edit(skill="library-compile", site="forward", action="wrap")


def optimizer(work):
    return ExpertOptimizer(ToyLibrary(fusing={"fuse-elementwise": "add"}), Echo(), TASK, work)


def test_a_first_version_starts_from_the_captured_reference():
    made = optimizer(workload(graph("add"))).write("c000", None, plan("", FUSE))
    assert (made.id, made.parent_id, made.skills) == ("c000", "", ("fuse-elementwise",))
    assert made.source == "# toy: ['k_n0']"
    assert made.program["kernels"][0]["name"] == "k_n0"


def test_a_later_version_starts_from_its_base_and_adds_to_its_lineage():
    base = candidate("c000", fused("k0", "k1"), skills=("fuse-elementwise",))
    edits = schedule("k0", "block", 64), schedule("k1", "block", 64)
    made = optimizer(workload(graph("add"))).write("c001", base, plan("c000", *edits))
    assert (made.parent_id, made.skills) == ("c000", ("fuse-elementwise", "tune"))
    assert [kernel["schedule"]["block"] for kernel in made.program["kernels"]] == [64, 64]


def test_equal_programs_have_equal_hashes_whatever_way_led_there():
    base = candidate("c000", fused("k0", "k1"))
    first, second = schedule("k0", "block", 64), schedule("k1", "unroll", 2)
    write = optimizer(workload(graph("add"))).write
    one = write("c001", base, plan("c000", first, second))
    other = write("c002", base, plan("c000", second, first))
    assert one.program_hash == other.program_hash != base.program_hash


def test_without_a_capture_only_a_wrapper_can_be_written():
    made = optimizer(workload(None, "no graph")).write("c000", None, plan("", WRAP))
    assert made.program["wrapper"] == "compile"
    with pytest.raises(ProgramError, match="not captured: no graph"):
        optimizer(workload(None, "no graph")).write("c000", None, plan(""))


def test_what_a_person_wrote_cannot_be_edited():
    base = Candidate(id="c000", source="class ModelNew: ...", author="person")
    with pytest.raises(ProgramError, match="c000 was not written from a program"):
        optimizer(workload(graph("add"))).write("c001", base, plan("c000", FUSE))


def test_an_edit_that_does_not_fit_is_an_error_of_the_plan():
    with pytest.raises(ProgramError, match="gone"):
        optimizer(workload(graph("add"))).write(
            "c0", None, plan("", FUSE.model_copy(update={"site": "gone"}))
        )
