"""What the bundled recipes offer, and that an edit does what it says or is refused."""

from __future__ import annotations

import pytest
from skill_examples import facts_of

from kernelskill.errors import ProgramError
from kernelskill.program import triton
from kernelskill.program.cpp import source
from kernelskill.program.program import Program, program_hash
from kernelskill.records import Edit, Graph, GraphInput, GraphState, Node, Ref, TensorSpec
from kernelskill.skills.library import load_recipe
from kernelskill.skills.sources import BUNDLED

RECIPES = {
    path.parent.name.replace("_", "-"): load_recipe(path) for path in sorted(BUNDLED.glob("*/recipe.py"))
}
FACTS = facts_of(None)
PLANE = TensorSpec.contiguous((4, 16, 12, 12))


def program(*nodes: tuple, shape=(4, 16, 12, 12), state=()) -> Program:
    """Calls of ATen on an input `x`; strings among the arguments are names of values. The last one is the result."""

    def value(item):
        if isinstance(item, str) and item in known:
            return Ref(node=item)
        return tuple(map(value, item)) if isinstance(item, tuple) else item

    known = {"x", *(name for name, *_ in nodes), *(name for name, _ in state)}
    calls = []
    for name, op, args, out in nodes:
        spec = out if isinstance(out, TensorSpec) else TensorSpec.contiguous(out or shape)
        calls.append(Node(name=name, op=f"aten.{op}", args=tuple(map(value, args)), outputs=(spec,)))
    graph = Graph(
        inputs=(GraphInput(name="x", spec=TensorSpec.contiguous(shape), leaf=0),),
        state=tuple(
            GraphState(name=name, path=name, spec=TensorSpec.contiguous(size), kind="parameter")
            for name, size in state
        ),
        nodes=tuple(calls),
        outputs=(Ref(node=calls[-1].name),),
        outputs_tree={"tensor": 0},
    )
    return Program.from_graph(graph)


def proposed(skill: str, base: Program, facts=FACTS) -> list[Edit]:
    edits = RECIPES[skill].propose(base, facts)
    assert all(edit.skill == skill and edit.summary for edit in edits)
    assert len({edit.key for edit in edits}) == len(edits)
    return edits


def applied(skill: str, base: Program, facts=FACTS) -> Program:
    """The program after the first edit, which changes what the program does or how, and says so."""
    edit = proposed(skill, base, facts)[0]
    after = RECIPES[skill].apply(base, edit)
    assert program_hash(after) != program_hash(base)
    assert after.skills == (*base.skills, skill)
    assert Program.model_validate(after.model_dump(mode="json")) == after
    source(after.kernels)
    return after


CHAIN = program(("a", "mul.Tensor", ("x", 0.5), None), ("b", "tanh.default", ("a",), None))
RELU = program(("a", "relu.default", ("x",), None))
MEAN = program(("a", "mul.Tensor", ("x", 0.5), None), ("m", "mean.dim", ("a", (2, 3)), (4, 16)))
SOFTMAX = program(("s", "_softmax.default", ("x", 3, False), None))
NORM = program(
    ("m", "amax.default", ("x", (3,), True), (4, 16, 12, 1)), ("d", "sub.Tensor", ("x", "m"), None)
)  # fmt: skip
SCAN = program(
    ("f", "flip.default", ("x", (3,)), None), ("c", "cumsum.default", ("f", 3), None), ("g", "flip.default", ("c", (3,)), None)
)  # fmt: skip
POOL = program(("p", "max_pool2d_with_indices.default", ("x", (3, 3), (2, 2), (1, 1)), (4, 16, 6, 6)))
DEAD = program(("u", "exp.default", ("x",), None), ("a", "tanh.default", ("x",), None))
NOOP = program(("a", "add.Tensor", ("x", 0), None), ("b", "tanh.default", ("a",), None))
CONV = program(
    ("c", "convolution.default", ("x", "w", None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1), None),
    ("r", "relu.default", ("c",), None),
    ("d", "convolution.default", ("r", "w", None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1), None),
    ("s", "sum.dim_IntList", ("d", (1,)), (4, 12, 12)),
    state=(("w", (16, 16, 3, 3)),),
)  # fmt: skip
STRUCTURAL = {
    "fuse-elementwise": CHAIN, "fuse-reduction": MEAN, "online-softmax": SOFTMAX, "fuse-row-normalization": NORM,
    "single-pass-scan": SCAN, "direct-pooling": POOL, "remove-dead-code": DEAD, "simplify-algebra": NOOP,
    "channels-last": CONV, "library-compile": RELU,
}  # fmt: skip


@pytest.mark.parametrize("skill", STRUCTURAL)
def test_a_structural_skill_finds_its_site_once(skill):
    base = STRUCTURAL[skill]
    edit = proposed(skill, base)[0]
    after = applied(skill, base)
    assert edit.site
    assert proposed(skill, after) == []
    with pytest.raises(ProgramError):
        RECIPES[skill].apply(after, edit)


@pytest.mark.parametrize(
    "skill", ["single-pass-scan", "direct-pooling", "remove-dead-code", "simplify-algebra", "channels-last",
              "online-softmax", "fuse-reduction"],
)  # fmt: skip
def test_a_structural_skill_without_a_site_offers_nothing(skill):
    assert proposed(skill, RELU) == []


def test_kernels_that_scan_and_pool_replace_all_that_they_absorb():
    assert [node.op for node in applied("single-pass-scan", SCAN).graph.nodes] == ["kernel:reverse_cumsum"]
    assert [node.op for node in applied("direct-pooling", POOL).graph.nodes] == ["kernel:max_pool"]


def test_a_pooling_whose_indices_are_used_is_left_alone():
    graph = POOL.graph
    both = graph.nodes[0].model_copy(
        update={"outputs": (*graph.nodes[0].outputs, TensorSpec.contiguous((4, 16, 6, 6), "int64"))}
    )
    used = graph.model_copy(update={"nodes": (both,), "outputs": (Ref(node="p"), Ref(node="p", output=1))})
    assert proposed("direct-pooling", Program.from_graph(used)) == []


def test_channels_last_converts_once_at_the_head_of_a_chain():
    graph = applied("channels-last", CONV).graph
    clones = [node for node in graph.nodes if node.op == "aten.clone.default"]
    assert [(node.args[0].node, node.kwargs["memory_format"]) for node in clones] == [
        ("x", "channels_last"), ("w", "channels_last"), ("d", "contiguous_format"),
    ]  # fmt: skip
    inside = {node.name: node.outputs[0].stride for node in graph.nodes if node.name in "crd"}
    assert set(inside.values()) == {(2304, 1, 192, 16)}
    assert graph.nodes[-1].args[0] == Ref(node=clones[-1].name)


def test_channels_last_leaves_few_channels_and_groups_alone():
    few = program(
        ("c", "convolution.default", ("x", "w", None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1), (4, 16, 12, 12)),
        shape=(4, 1, 12, 12), state=(("w", (16, 1, 3, 3)),),
    )  # fmt: skip
    grouped = program(
        ("c", "convolution.default", ("x", "w", None, (1, 1), (1, 1), (1, 1), False, (0, 0), 16), None),
        state=(("w", (16, 1, 3, 3)),),
    )  # fmt: skip
    assert proposed("channels-last", few) == proposed("channels-last", grouped) == []


MAP = applied("fuse-elementwise", CHAIN)
ROW = applied("fuse-reduction", MEAN)
STRIDED = applied(
    "fuse-reduction",
    program(("m", "sum.dim_IntList", ("x", (1,)), (4, 300)), shape=(4, 50, 300)),
)
LONG_SCAN = applied("single-pass-scan", program(("c", "cumsum.default", ("x", 0), None), shape=(1_000_000,)))
SCHEDULED = {
    "tune-threads": (MAP, "threads"), "widen-vectors": (MAP, "vector_bits"), "stream-stores": (MAP, "nontemporal"),
    "unroll-accumulate": (ROW, "accumulators"), "split-rows": (ROW, "split"), "block-inner": (STRIDED, "block"),
    "reduce-unrolling": (ROW, "accumulators"), "tune-grain": (MAP, "grain"), "narrow-vectors": (MAP, "vector_bits"),
}  # fmt: skip


@pytest.mark.parametrize("skill", SCHEDULED)
def test_a_micro_skill_changes_the_schedule_and_nothing_else(skill):
    base, field = SCHEDULED[skill]
    (kernel,) = base.kernels
    edit = proposed(skill, base)[0]
    assert edit.site == kernel.name
    assert getattr(kernel.schedule, field) not in edit.space[field], "what is there is no alternative"
    after = applied(skill, base)
    assert after.kernels[0].body == kernel.body
    assert after.graph == base.graph
    assert getattr(after.kernels[0].schedule, field) == edit.parameters[field]
    for value in edit.space[field]:
        tried = edit.model_copy(update={"parameters": {field: value}})
        source(RECIPES[skill].apply(base, tried).kernels)


@pytest.mark.parametrize("skill", SCHEDULED)
def test_a_micro_edit_of_a_missing_kernel_is_refused(skill):
    base, _ = SCHEDULED[skill]
    edit = proposed(skill, base)[0].model_copy(update={"site": "gone"})
    with pytest.raises(ProgramError, match="gone"):
        RECIPES[skill].apply(base, edit)


def test_scans_are_tuned_like_other_kernels():
    for skill in ("stream-stores", "split-rows", "unroll-accumulate"):
        assert proposed(skill, LONG_SCAN), skill
    assert [edit.parameters for edit in proposed("widen-vectors", LONG_SCAN)] == [{"vector_bits": 512}]
    pool = applied("direct-pooling", POOL)
    assert proposed("stream-stores", pool)
    assert proposed("split-rows", pool) == proposed("block-inner", pool) == []


def test_threads_are_first_halved_where_they_pay_and_first_dropped_where_they_do_not():
    name = MAP.kernels[0].name
    first = {
        efficiency: proposed(
            "tune-threads", MAP, facts_of({"threads": 8}, **{name: {"parallel_efficiency_ratio": efficiency}})
        )[0].parameters["threads"]
        for efficiency in (0.1, 0.5)
    }
    assert first == {0.1: 1, 0.5: 4}
    assert proposed("tune-threads", MAP, facts_of({"threads": 1})) == []


def test_division_by_a_constant_becomes_a_product():
    base = applied(
        "fuse-elementwise", program(("a", "div.Tensor", ("x", 3.0), None), ("b", "exp.default", ("a",), None))
    )
    assert [edit.action for edit in proposed("cheaper-math", base)] == ["reciprocal"]
    (kernel,) = applied("cheaper-math", base).kernels
    assert "div" not in {
        op.fn for stage in kernel.region.stages if stage.kind != "scalar" for op in stage.ops
    }
    triton.kernel_function(kernel)
    with pytest.raises(ProgramError, match="changes nothing"):
        RECIPES["cheaper-math"].apply(base, Edit(skill="cheaper-math", site=kernel.name, action="shared"))


def test_a_costly_map_is_not_merged_where_it_would_be_computed_in_each_walk():
    nodes = [
        ("a", "exp.default", ("x",), None),
        ("m", "amax.default", ("a", (3,), True), (4, 16, 12, 1)),
        ("d", "sub.Tensor", ("a", "m"), None),
    ]
    cheap = [("a", "mul.Tensor", ("x", 0.3), None), *nodes[1:]]
    offered = []
    for chain in (nodes, cheap):
        from kernelskill.program.fusion import fuse

        two = fuse(fuse(program(*chain), {"a"}, name="head"), {"m", "d"}, name="tail")
        offered.append([edit.site for edit in proposed("merge-kernels", two)])
    assert offered == [[], ["head,tail"]]
    for shares, sites in (((0.004, 0.01), []), ((0.3, 0.4), ["head,tail"])):
        facts = facts_of({}, head={"share_ratio": shares[0]}, tail={"share_ratio": shares[1]})
        assert [edit.site for edit in proposed("merge-kernels", two, facts)] == sites
    merged = applied("merge-kernels", two)
    assert [kernel.name for kernel in merged.kernels] == ["tail"]
    triton.kernel_function(merged.kernels[0])


SHORT_ROWS = applied(
    "fuse-reduction", program(("m", "sum.dim_IntList", ("x", (1,)), (9000,)), shape=(9000, 100))
)
SHORT_SCANS = applied("single-pass-scan", program(("c", "cumsum.default", ("x", 1), None), shape=(9000, 100)))


@pytest.mark.parametrize("base", [SHORT_ROWS, STRIDED, SHORT_SCANS], ids=["rows", "strided", "scans"])
def test_each_number_of_rows_beside_each_other_is_another_program(base):
    def text(kernel):
        return "".join(launch.function() for launch in triton.kernel_function(kernel).launches)

    (edit,) = proposed("batch-gpu-rows", base)
    texts = {text(base.kernels[0])}
    for value in edit.space["gpu_rows"]:
        tried = edit.model_copy(update={"parameters": {"gpu_rows": value}})
        after = RECIPES["batch-gpu-rows"].apply(base, tried)
        assert after.kernels[0].body == base.kernels[0].body
        assert after.kernels[0].schedule.gpu.rows == value
        texts.add(text(after.kernels[0]))
    assert len(texts) == 1 + len(edit.space["gpu_rows"]) > 2


def test_rows_that_fill_a_gpu_program_are_not_batched():
    long = program(("m", "sum.dim_IntList", ("x", (1,)), (900,)), shape=(900, 5000))
    assert proposed("batch-gpu-rows", applied("fuse-reduction", long)) == []
    assert (
        proposed("batch-gpu-rows", MAP) == proposed("batch-gpu-rows", applied("direct-pooling", POOL)) == []
    )
    shared = applied("share-gpu-rows", SHORT_ROWS)
    assert proposed("batch-gpu-rows", shared) == []


def test_unrolling_is_taken_back_step_by_step_and_only_where_there_is_some():
    assert proposed("reduce-unrolling", MAP) == []
    unrolled = RECIPES["unroll-accumulate"].apply(
        MAP,
        Edit(
            skill="unroll-accumulate",
            site=MAP.kernels[0].name,
            action="schedule.unroll",
            parameters={"unroll": 4},
        ),
    )
    (edit,) = proposed("reduce-unrolling", unrolled)
    assert edit.space == {"unroll": (2, 1)}
    (edit,) = proposed("reduce-unrolling", STRIDED)
    assert edit.space == {"block": (128, 64)}


def gpu_text(base: Program) -> str:
    return "".join(launch.function() for launch in triton.kernel_function(base.kernels[0]).launches)


def test_loads_are_pipelined_only_where_a_loop_walks_a_row():
    long = applied(
        "fuse-reduction", program(("m", "sum.dim_IntList", ("x", (1,)), (8,)), shape=(8, 1_000_000))
    )
    (edit,) = proposed("pipeline-loads", long)
    texts = {gpu_text(long)}
    for count in edit.space["gpu_num_stages"]:
        tried = edit.model_copy(update={"parameters": {"gpu_num_stages": count}})
        after = RECIPES["pipeline-loads"].apply(long, tried)
        assert f"num_stages={count}" in gpu_text(after)
        texts.add(gpu_text(after))
    assert len(texts) == 1 + len(edit.space["gpu_num_stages"])
    assert proposed("pipeline-loads", MAP) == proposed("pipeline-loads", SHORT_ROWS) == []


def test_occupancy_is_raised_by_fewer_values_a_thread():
    name = MAP.kernels[0].name
    (edit,) = proposed("raise-occupancy", MAP, facts_of(None, **{name: {"warps": 4}}))
    assert edit.parameters == {"gpu_block": 512, "gpu_num_warps": 4}
    assert edit.space == {"gpu_block": (512, 256), "gpu_num_warps": (4, 8, 16)}
    after = RECIPES["raise-occupancy"].apply(MAP, edit)
    assert gpu_text(after) != gpu_text(MAP)
    (rows,) = proposed("raise-occupancy", ROW, facts_of(None, **{ROW.kernels[0].name: {"warps": 4}}))
    assert rows.parameters == {"gpu_num_warps": 8}
    assert RECIPES["raise-occupancy"].apply(ROW, rows).kernels[0].schedule.gpu.num_warps == 8
    full = facts_of(None, **{ROW.kernels[0].name: {"warps": 16}})
    assert proposed("raise-occupancy", ROW, full) == [], "no more warps to be had"


def test_a_finer_grain_takes_more_threads_and_one_thread_needs_none():
    small = applied("fuse-elementwise", program(("a", "exp.default", ("x",), None), shape=(40_000,)))
    (edit,) = proposed("tune-grain", small, facts_of({"threads": 8}))
    assert edit.parameters == {"grain": 4096}
    assert "std::min(threads, 2)" in source(small.kernels)
    assert "std::min(threads, 9)" in source(RECIPES["tune-grain"].apply(small, edit).kernels)
    assert proposed("tune-grain", small, facts_of({"threads": 1})) == []
    alone = RECIPES["tune-threads"].apply(small, proposed("tune-threads", small, facts_of({"threads": 8}))[0])
    assert proposed("tune-grain", alone, facts_of({"threads": 8})) == []
