"""Cases on several targets: who plays where, and whether what is played on a GPU is fit for one."""

import multiprocessing
import re
import signal
import types

import pytest
import torch
from typer.testing import CliRunner

from kernelskill.cli import app
from kernelskill.evaluation.conformance import play, side_by_side
from kernelskill.evaluation.conformance.case import HEAD, cases, left_out, task

PROCESSOR_ONLY = re.compile(
    r"\.numpy\(|from_numpy|frombuffer|from_address|ctypes\.mem|mprotect|/proc/self/m|native\.|g\+\+|omp\.h"
)
"""What a tensor on a GPU knows nothing of, or would crash at."""
HOST_MEMORY = re.compile(
    r"torch\.(zeros|ones|empty|full|rand|randn|randperm|arange|tensor)\((?![^\n]*(device|generator|pin_memory|tolist))"
)
"""Memory of the processor, where nobody has made the GPU the default."""
NEEDS_MORE = re.compile(
    r"^\s*(import|from) (?!torch|random|threading)|^torch\.\S+( = |\()|import torch\.|import sys|jit\.script"
    r"|torch\.compile|torch\.cuda|__cuda_array_interface__|pin_memory|Generator\(|to_sparse|torch\.save|nonzero|SystemExit|\(Model\)",
    re.M,
)
"""What needs values or a real GPU, or does more than compute: none of that is tried in the tests' own process."""
LOOKS_AT_VALUES = frozenset(
    {
        "constant-hash-cache",
        "content-cache",
        "first-burst-only",
        "gpu-fast-after-a-repeat",
        "no-max-subtraction",
        "sampled-guard",
        "weights-by-sample",
    }
)
"""Their text alone does not show it."""
ON_A_GPU = [case for case in cases() if case.target == "cuda"]
BY_SHAPES = [
    case
    for case in ON_A_GPU
    if case.expect != "untestable"
    and case.id not in LOOKS_AT_VALUES
    and not NEEDS_MORE.search(case.source.removeprefix(HEAD))
]


def test_who_is_left_out_on_a_gpu_has_a_reason():
    here, there = ({case.id for case in cases() if case.target == target} for target in ("cpu", "cuda"))
    assert left_out("cuda").keys() == here - there
    assert all(len(reason) > 10 for reason in left_out("cuda").values())
    assert not left_out("cpu")
    assert len(here & there) >= 130, "most cheats need no device in particular"


def test_a_reason_names_no_case_that_is_not_there():
    known = {case.id for case in ON_A_GPU}
    for reason in left_out("cuda").values():
        named = re.findall(r"\b(?:gpu|works|freed|zeroes|patches)-[a-z-]+", reason)
        assert set(named) <= known, reason


@pytest.mark.parametrize("case", ON_A_GPU, ids=lambda case: case.id)
def test_nothing_of_the_processors_is_asked_on_a_gpu(case):
    assert not PROCESSOR_ONLY.search(case.source)
    if case.expect != "untestable":
        forward = case.source.partition("def forward(")[2]
        assert not HOST_MEMORY.search(forward), "it would lie on the processor"


def test_most_can_be_tried_by_shapes():
    assert len(BY_SHAPES) >= 90


@pytest.mark.parametrize("case", BY_SHAPES, ids=lambda case: case.id)
def test_results_lie_where_the_inputs_do(case):
    """Tensors without values stand for the GPU's: mixing them with the processor's, or looking at them, is an error."""
    reference, module = {}, types.ModuleType("candidate")
    exec(task(case.task, "cuda").reference.source, reference)
    with torch.device("meta"):
        inputs = reference["get_inputs"]()
        exec(case.source, vars(module))
        model = module.ModelNew().to("meta")
    with torch.no_grad():
        model(*inputs)
        result = model(*inputs)
    leaves = result if isinstance(result, tuple) else (result,)
    assert {leaf.device.type for leaf in leaves} == {"meta"}


def test_inputs_are_larger_on_a_gpu_and_the_reference_is_the_same():
    here, there = task("relu").reference.source, task("relu", "cuda").reference.source
    assert here.replace("rand(64, 1024)", "rand(4096, 4096)") == there
    assert here.startswith(HEAD)
    assert task("relu").hash != task("relu", "cuda").hash
    assert task("fixed") == task("fixed", "cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_none_of_its_cases_is_played():
    done = CliRunner().invoke(app, ["judge", "selftest", "--target", "cuda", "--only", "gpu"])
    assert done.exit_code == 2
    assert "no case was played: no GPU 0" in done.output


UNTESTABLE = ["untestable-constant", "untestable-fixed"]


@pytest.mark.slow
def test_what_was_reached_before_an_interrupt_is_kept():
    def interrupt(_outcome):
        signal.raise_signal(signal.SIGINT)

    played = play.play(play.chosen("cpu", UNTESTABLE), told=interrupt)
    assert len(played.outcomes) == 1
    assert [item.reason for item in played.unplayed] == [play.INTERRUPTED]
    assert {played.outcomes[0].case.id, played.unplayed[0].case.id} == set(UNTESTABLE)


@pytest.mark.slow
def test_tasks_side_by_side_give_the_same():
    heard = []
    played = play.play(play.chosen("cpu", UNTESTABLE), jobs=2, told=heard.append)
    assert not played.unplayed
    assert {item.case.id: item.miss for item in played.outcomes} == dict.fromkeys(UNTESTABLE, "")
    assert heard == list(played.outcomes)


@pytest.mark.slow
def test_a_process_that_dies_is_replaced():
    groups = [play.chosen("cpu", [name]) for name in (*UNTESTABLE, "untestable-empty")]
    told = []
    for item in side_by_side.spread(groups, 1):
        told.append(item.case.id)
        for process in multiprocessing.active_children():
            process.kill()
    assert told == [group[0].id for group in groups]


@pytest.mark.slow
def test_what_a_dead_process_owes_is_told():
    bench = side_by_side.Bench()
    bench.order(play.chosen("cpu", ["pointer-cache"]))
    for process in multiprocessing.active_children():
        process.kill()
    assert bench.next() is None
    assert bench.ended
    assert [item.reason for item in bench.lost()] == [side_by_side.ENDED]
    bench.close(gently=True)
