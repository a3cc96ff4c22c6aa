"""Replaying a whole program: when the gate lets it, what is written, and that it stays the reference elsewhere."""

import sys
from pathlib import Path

import pytest
import torch
from skill_examples import facts_of

from kernelskill.agents import ExpertGenerator, ExpertOptimizer
from kernelskill.errors import ProgramError
from kernelskill.evaluation.worker.capture import capture
from kernelskill.features import ExpertFeatureReader
from kernelskill.program import write
from kernelskill.program.program import Program
from kernelskill.program.triton.printer import TRITON, CudaPrinter
from kernelskill.records import Baselines, Ceilings, Facts, Floor, Timing
from kernelskill.skills.library import ExpertLibrary, load_recipe
from kernelskill.skills.sources import BUNDLED

sys.path.append(str(Path(__file__).parents[1] / "gpu"))
from clustered import forward, imported, traced

LIBRARY = ExpertLibrary(None)
RECIPE = load_recipe(BUNDLED / "cuda_graphs" / "recipe.py")
CHAIN = forward("x, scale=2.0", "torch.tanh(x * scale) + 1")
ON_GPU = {"target": "cuda", "floor_ms": 0.01, "kernels": 0, "operators_left": 40, "wrapper": ""}


def admitted(**facts):
    return "cuda-graphs" in LIBRARY.retrieve(facts_of({**ON_GPU, **facts})).admitted


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"graph_gain_ratio": 3.0}, True),
        ({"graph_gain_ratio": 1.0}, False),
        ({"dispatch_ms": 0.2}, True),
        ({"dispatch_ms": 0.005}, False),
        ({"overhead_share_ratio": 0.5}, True),
        ({}, False),
        ({"target": "cpu", "graph_gain_ratio": 3.0}, False),
    ],
)
def test_the_gate_asks_for_time_spent_on_launching(facts, wanted):
    assert admitted(**facts) == wanted


def replayed(program):
    (edit,) = RECIPE.propose(program, Facts())
    return RECIPE.apply(program, edit)


def test_a_program_of_kernels_keeps_its_guard_before_the_replay(tmp_path):
    program, task, workload = traced(CHAIN, [torch.empty(4, 8, device="meta")])
    text = write(replayed(program), task, workload, TRITON)
    assert text.index("if not proven:") < text.index("self._replay(self, self._proven_forward, x, scale)")
    model, x = imported(text, tmp_path)["ModelNew"](), torch.randn(4, 8)
    with torch.no_grad():
        torch.testing.assert_close(model(x), torch.tanh(x * 2) + 1)
        torch.testing.assert_close(model(x, 3.0), torch.tanh(x * 3) + 1)


def test_a_program_without_a_capture_replays_the_references_own_text(tmp_path):
    _, task, workload = traced(CHAIN, [torch.empty(4, 8, device="meta")])
    empty = Program.model_validate(
        {"graph": {"inputs": [], "state": [], "nodes": [], "outputs": [], "outputs_tree": None}}
    )
    text = write(replayed(empty), task, workload.model_copy(update={"graph": None}), TRITON)
    assert "self._replay(self, super().forward, *args, **kwargs)" in text
    model, x = imported(text, tmp_path)["ModelNew"](), torch.randn(4, 8)
    torch.testing.assert_close(model(x, scale=0.5), torch.tanh(x * 0.5) + 1)


def test_it_is_proposed_once():
    program, *_ = traced(CHAIN, [torch.empty(4, 8, device="meta")])
    done = replayed(program)
    assert done.skills[-1] == "cuda-graphs"
    assert RECIPE.propose(done, Facts()) == []
    with pytest.raises(ProgramError, match="graph"):
        RECIPE.apply(done, RECIPE.propose(program, Facts())[0])


def test_a_reference_with_names_of_the_replay_is_declined():
    source = "class Replay:\n    pass\n\n\n" + CHAIN.replace("return", "Replay()\n        return")
    program, task, workload = traced(source, [torch.empty(4, 8, device="meta")])
    with pytest.raises(ProgramError, match="Replay"):
        write(replayed(program), task, workload, TRITON)


CEILINGS = Ceilings(
    device="round numbers", threads=1, bandwidth_gb_per_s={"1000": 4000.0, "1000000000": 4000.0}, fp32_gflops=5e4,
    exp_gops=4e3, parallel_us=0.0, call_us=1.0, operator_us=5.0, measured_on="2026-01-01", compute_capability=90,
)  # fmt: skip
FLOOR = Floor(
    bytes_min=256, flops=100, transcendentals=32, launches=3, memory_ms=1e-4, compute_ms=1e-5, overhead_ms=1e-3,
    floor_ms=1.1e-3, bound="overhead",
)  # fmt: skip


def stock(**times):
    timings = tuple(
        Timing(arm=arm, median_ms=ms, p10_ms=ms, p90_ms=ms, samples_ms=((ms,),)) for arm, ms in times.items()
    )
    return Baselines(timings=timings, best_arm="eager", noise_band_ratio=0.02, null_ms=0.0)


def seeds(captured, **times):
    _, task, workload = traced(CHAIN, [torch.empty(4, 8, device="meta")])
    workload = workload.model_copy(update={"graph": unfused() if captured else None})
    reader = ExpertFeatureReader(CEILINGS, "cuda")
    facts = reader.read_graph(workload, FLOOR, baselines=stock(**times) if times else None)
    plans = ExpertGenerator(LIBRARY).seeds(task, workload, facts, 3)
    optimizer = ExpertOptimizer(LIBRARY, CudaPrinter(), task, workload)
    return facts, [optimizer.write(f"c{index:03d}", None, plan) for index, plan in enumerate(plans)]


def unfused():
    """The captured graph, nothing fused."""
    names = {}
    exec(CHAIN, names)
    found = capture(names["Model"](), (torch.empty(4, 8, device="meta"),), {})
    return Program.model_validate({"graph": {**found, "outputs_tree": {"tensor": 0}}}).graph


def test_a_first_version_is_also_tried_as_one_graph():
    facts, made = seeds(captured=True)
    assert facts.get("dispatch_ms") == pytest.approx(3 * 5e-3)
    wrappers = [candidate.program["wrapper"] for candidate in made]
    assert wrappers[:2] == ["", "graph"]
    assert made[0].program["kernels"] == made[1].program["kernels"] != []
    assert "Replay" in made[1].source


def test_what_was_not_captured_as_operators_is_replayed_where_stock_gains_from_that():
    facts, made = seeds(captured=False, eager=3.0)
    assert facts.get("graph_gain_ratio") is None
    assert [candidate.program["wrapper"] for candidate in made] == ["compile"]
    facts, made = seeds(captured=False, eager=3.0, graph=1.0)
    assert facts.get("graph_gain_ratio") == pytest.approx(3.0)
    assert [candidate.program["wrapper"] for candidate in made] == ["graph", "compile"]
