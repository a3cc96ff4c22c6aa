"""The roles with the bundled skills, the real facts and the real printer: a network in, a running file out."""

import importlib.util
import shutil

import pytest
import torch
from toy_library import attempt

from kernelskill import agents, memory, search
from kernelskill.features import ExpertFeatureReader
from kernelskill.program import CpuPrinter, Program
from kernelskill.records import (
    Ceilings,
    Diagnosis,
    Fact,
    Facts,
    Floor,
    Graph,
    GraphInput,
    Interval,
    Node,
    Ref,
    Reference,
    Status,
    Task,
    TensorSpec,
    Workload,
)
from kernelskill.skills import Context, Evidence, EvidenceStore, ExpertLibrary

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ builds the kernels")

SOURCE = '''\
import torch
from torch import nn


class Model(nn.Module):
    """Scaled attention weights, summed after a gate."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        weights = torch.softmax(x * 0.5, dim=-1)
        gated = torch.tanh(x + 1.0)
        return weights, (gated * gated).sum(-1)
'''
ROWS, LENGTH = 96, 257
FULL, SHORT = TensorSpec.contiguous((ROWS, LENGTH)), TensorSpec.contiguous((ROWS,))


def node(name, op, *args, spec=FULL):
    return Node(name=name, op=f"aten.{op}", args=args, outputs=(spec,))


X, GATED = Ref(node="x"), Ref(node="gated")
WORKLOAD = Workload(
    inputs=(FULL,),
    inputs_tree={"list": [{"tensor": 0}]},
    outputs=(FULL, SHORT),
    outputs_tree={"tuple": [{"tensor": 0}, {"tensor": 1}]},
    state=(),
    init_args={"list": []},
    eager_ms=0.2,
    class_source=SOURCE,
    graph=Graph(
        inputs=(GraphInput(name="x", spec=FULL, leaf=0),),
        state=(),
        nodes=(
            node("scaled", "mul.Tensor", X, 0.5),
            node("weights", "_softmax.default", Ref(node="scaled"), -1, False),
            node("shifted", "add.Tensor", X, 1.0),
            node("gated", "tanh.default", Ref(node="shifted")),
            node("squared", "mul.Tensor", GATED, GATED),
            node("total", "sum.dim_IntList", Ref(node="squared"), (-1,), spec=SHORT),
        ),
        outputs=(Ref(node="weights"), Ref(node="total")),
        outputs_tree={"tuple": [{"tensor": 0}, {"tensor": 1}]},
    ),
)
TASK = Task(
    name="gate",
    hash="1" * 64,
    reference=Reference(
        loader="source", kind="module", entry="Model", source=SOURCE, inputs_entry="get_inputs"
    ),
    origin="gate.py",
)
CEILINGS = Ceilings(
    device="round numbers", threads=2, bandwidth_gb_per_s={"1000": 20.0, "100000000": 20.0}, fp32_gflops=100.0,
    exp_gops=4.0, parallel_us=5.0, call_us=1.0, operator_us=1.5, measured_on="2026-01-01", cache_bytes=4_000_000,
)  # fmt: skip
FLOOR = Floor(
    bytes_min=2 * FULL.nbytes, flops=1e5, transcendentals=5e4, launches=6, memory_ms=0.01, compute_ms=0.005,
    overhead_ms=0.001, floor_ms=0.011, bound="memory",
)  # fmt: skip
LIBRARY = ExpertLibrary(None)
FACTS = ExpertFeatureReader(CEILINGS).read_graph(WORKLOAD, FLOOR)


def seeds(count=3):
    return agents.ExpertGenerator(LIBRARY).seeds(TASK, WORKLOAD, FACTS, count)


def write(plan, base=None, name="c000"):
    return agents.ExpertOptimizer(LIBRARY, CpuPrinter(), TASK, WORKLOAD).write(name, base, plan)


def run(source, folder):
    path = folder / "candidate.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("candidate_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = torch.randn(ROWS, LENGTH, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return module.ModelNew()(x), module.Model()(x) if hasattr(module, "Model") else reference(x)


def reference(x):
    weights = torch.softmax(x * 0.5, dim=-1)
    gated = torch.tanh(x + 1.0)
    return weights, (gated * gated).sum(-1)


def test_the_first_version_leaves_no_operator_outside_kernels():
    plans = seeds()
    made = write(plans[0])
    program = Program.model_validate(made.program)
    assert all(item.op.startswith("kernel:") for item in program.graph.nodes)
    assert {"online-softmax", "fuse-reduction"} <= set(made.skills)
    assert "library-compile" not in {plan.skill for plan in plans}
    assert len({write(plan).program_hash for plan in plans}) == len(plans)


class KnownFloor:
    def floor(self, workload):
        return FLOOR


FORECAST = agents.Forecast(ExpertFeatureReader(CEILINGS), KnownFloor())


def test_a_first_version_begins_with_what_paid_and_is_followed_by_what_it_would_be_without(tmp_path):
    store = EvidenceStore(tmp_path / "e.sqlite")
    library = ExpertLibrary(store, device="m")

    def first_versions():
        return agents.ExpertGenerator(library, FORECAST).seeds(TASK, WORKLOAD, FACTS, 3)

    assert first_versions() == seeds(), "nothing was learnt yet"
    for number in range(2):
        store.add(
            Evidence(
                run="r", attempt=number, skill="widen-vectors", action="schedule.vector_bits",
                parameters={"vector_bits": 512}, verdict=Status.PASSED, compared_to="base",
                context=Context(device="m", kernel_kind="row", bound="compute", op_class="softmax"),
                speedup=Interval(low=1.35, value=1.4, high=1.45),
            )
        )  # fmt: skip
    plans = first_versions()
    assert plans[1] == seeds()[0]
    added = [edit for edit in plans[0].edits if edit not in plans[1].edits]
    assert {edit.skill for edit in added} == {"widen-vectors"}
    assert "as paid in like kernels" in plans[0].reason
    kernels = Program.model_validate(write(plans[0]).program).kernels
    bits = {kernel.body.kind: kernel.schedule.vector_bits for kernel in kernels}
    assert bits == {"row": 512, "reduce": 256}


def test_what_evidence_suspends_is_tried_once_more_where_nothing_else_is_left(tmp_path):
    library = ExpertLibrary(EvidenceStore(tmp_path / "e.sqlite"), device="m")

    def lose(skill, **context):
        for number in range(3):
            library.store.add(
                Evidence(
                    run=skill, attempt=number, skill=skill, action="fuse", parameters={}, verdict=Status.PASSED,
                    compared_to="stock", context=Context(device="m", **context),
                    speedup=Interval(low=0.7, value=0.8, high=0.9),
                )
            )  # fmt: skip

    def first_versions():
        return agents.ExpertGenerator(library).seeds(TASK, WORKLOAD, FACTS, 3)

    def skills(plans):
        return {edit.skill for plan in plans for edit in plan.edits}

    lose("online-softmax", op_class="softmax", bound="memory")
    left = first_versions()
    assert skills(left), "there is something else to try"
    assert "online-softmax" not in skills(left)
    assert "online-softmax left out: suspended" in left[0].reason
    for skill in skills(left):
        for op_class in ("elementwise", "reduction"):
            lose(skill, op_class=op_class, bound="memory")
    (again,) = first_versions()
    assert again.edits == seeds()[0].edits
    assert "once more: " in again.reason
    assert "is suspended here by evidence" in again.reason


@needs_compiler
def test_the_written_file_runs_and_computes_the_same(tmp_path):
    ours, due = run(write(seeds()[0]).source, tmp_path)
    for mine, theirs in zip(ours, due, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def measured(program):
    """Facts as a profile of slow, badly scaling kernels would give them."""
    values = {
        "kernel_kind": "row", "rows": ROWS, "share_ratio": 0.4, "kernel_bound": "compute", "vector_bits_used": 256,
        "parallel_efficiency_ratio": 0.4, "bandwidth_share_ratio": 0.2,
    }  # fmt: skip
    whole = {"target": "cpu", "threads": 2, "wrapper": "", "floor_share_ratio": 0.3, "operators_left": 0}
    pairs = [("", whole)] + [(kernel.name, values) for kernel in program.kernels]
    return Facts(
        facts=tuple(
            Fact(name=name, value=value, origin="measured", subject=subject)
            for subject, group in pairs
            for name, value in group.items()
        )
    )


def test_measured_facts_of_the_first_version_lead_to_edits_that_apply_and_print():
    base = write(seeds()[0])
    facts = measured(Program.model_validate(base.program))
    retrieval = LIBRARY.retrieve(facts)
    planner = agents.ExpertPlanner(LIBRARY, search.Tuner())
    history = memory.RunMemory()
    hashes = {base.program_hash}
    for index in range(1, 4):
        plan = planner.plan(base, facts, retrieval, history)
        assert plan is not None
        made = write(plan, base, f"c{index:03d}")
        assert made.program_hash not in hashes
        assert plan.expected_speedup is not None
        assert plan.evidence_facts
        hashes.add(made.program_hash)

        history.add(attempt(index, plan, made, over_base=0.9))


def test_repairs_of_the_first_version_can_be_written():
    first = seeds()[0]
    made = write(first)
    history = memory.RunMemory()
    failed = attempt(
        0, first, made, "crashed", detail=f"killed by SIGSEGV in {made.program['kernels'][0]['name']}"
    )
    history.add(failed)
    repairer = agents.ExpertRepairer(LIBRARY, history, WORKLOAD)
    hashes = {made.program_hash}
    for index in range(1, 4):
        diagnosis = agents.ExpertDiagnoser().diagnose(failed)
        assert isinstance(diagnosis, Diagnosis)
        plan = repairer.repair(failed, diagnosis)
        assert plan is not None
        made = write(plan, name=f"c{index:03d}")
        assert made.program_hash not in hashes
        hashes.add(made.program_hash)
        failed = attempt(index, plan, made, "crashed", detail="killed by SIGSEGV")
        history.add(failed)
