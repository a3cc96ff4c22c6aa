"""How a run's records become a line: what counts as success, what as fallback, and with which reason."""

import pytest

from kernelskill.records import (
    Attempt,
    Baselines,
    Budget,
    Candidate,
    Comparison,
    Evaluation,
    Graph,
    GraphInput,
    Interval,
    Labels,
    Node,
    Outcome,
    Plan,
    Reference,
    Result,
    Run,
    Status,
    StopReason,
    Task,
    TaskOutcome,
    TensorSpec,
    Timing,
)  # fmt: skip
from kernelskill.suites.outcome import (
    answer_of,
    is_baseline,
    run_outcome,
    short_of_memory,
    stock_times,
    telling_line,
)
from kernelskill.suites.work import work_of


def timing(arm, ms):
    return Timing(arm=arm, median_ms=ms, p10_ms=ms, p90_ms=ms, samples_ms=((ms,),))


BASELINES = Baselines(
    timings=(timing("eager", 2.0), timing("compile", 1.0)),
    best_arm="compile",
    noise_band_ratio=0.03,
    null_ms=0.0,
)


def evaluation(
    name, status=Status.PASSED, over=None, significant=True, kinds=("custom",), stage="screen", detail=""
):
    if status is not Status.PASSED:
        return Evaluation(candidate_id=name, source_hash="f" * 64, stage=stage, status=status, detail=detail)
    compared = tuple(
        Comparison(
            arm=arm,
            speedup=Interval(low=value - 0.1, value=value, high=value + 0.1),
            rounds=9,
            sets=4,
            significant=significant,
        )
        for arm, value in (over or {}).items()
    )
    return Evaluation(
        candidate_id=name, source_hash="f" * 64, stage=stage, status=status, comparisons=compared, tier="match",
        timings=(timing("candidate", 0.5),), labels=Labels(kinds=kinds), noise_band_ratio=0.03,
    )  # fmt: skip


def attempt(index, verdict, skills=("fuse-elementwise",)):
    plan = Plan(base_id="", edits=(), skill=skills[0], reason="")
    candidate = Candidate(id=verdict.candidate_id, source=f"# {index}", skills=skills)
    return Attempt(
        index=index, round=0, plan=plan, candidate=candidate, evaluation=verdict, outcome=Outcome.SEED
    )


def run(attempts, winner="", stop=StopReason.PATIENCE, promotion=None):
    return Run(
        id="r", created="", target="cpu", budget=Budget(), config={}, machine={},
        task=Task(name="t", hash="0" * 64, reference=Reference(loader="source", kind="module"), origin="t.py"),
        baselines=BASELINES, attempts=tuple(attempts),
        result=Result(stop=stop, stop_detail="said why", winner_id=winner, winner_arm="candidate" if winner else "compile", promotion=promotion),
    )  # fmt: skip


def test_a_winner_is_told_by_its_promotion():
    promoted = evaluation("c001", over={"eager": 3.0, "compile": 1.4}, stage="promotion")
    screened = evaluation("c001", over={"eager": 3.3, "compile": 1.6})
    outcome, reason, (answer,) = run_outcome(
        run([attempt(0, screened)], "c001", promotion=promoted), {"c001": promoted}
    )
    assert outcome is TaskOutcome.FASTER
    assert answer.significant == ("eager", "compile")
    assert (answer.stage, answer.over["compile"].value, answer.outcome) == (
        "promotion",
        1.4,
        TaskOutcome.FASTER,
    )
    assert reason == "patience: said why"


def test_a_verified_candidate_that_is_not_faster_falls_back_with_the_ratio_that_says_so():
    slower = evaluation("c001", over={"eager": 1.6, "compile": 0.9}, significant=False)
    wrong = evaluation("c000", Status.WRONG_VALUES, detail="off by one")
    outcome, reason, (answer,) = run_outcome(run([attempt(0, wrong), attempt(1, slower)]), {})
    assert outcome is TaskOutcome.VERIFIED
    assert answer.id == "c001"
    assert (
        "0.90x [0.80, 1.00] over best stock in its screen: not faster beyond the noise (band 3.0 %)" in reason
    )


def test_without_a_verified_candidate_the_reason_counts_what_failed():
    attempts = [attempt(place, evaluation(f"c{place}", status, detail="x")) for place, status in enumerate(
        (Status.WRONG_VALUES, Status.WRONG_VALUES, Status.BUILD_ERROR))]  # fmt: skip
    outcome, reason, answers = run_outcome(run(attempts, stop=StopReason.NO_SEED), {})
    assert (outcome, answers) == (TaskOutcome.STOCK, ())
    assert reason == "no-seed: said why; no candidate of its own verified (2 wrong-values, 1 build-error)"


def test_a_winner_that_only_compiles_the_reference_is_no_success():
    won = evaluation("c000", over={"eager": 2.0, "compile": 1.1}, kinds=("compile",), stage="promotion")
    outcome, reason, answers = run_outcome(
        run([attempt(0, won, ("library-compile",))], "c000", promotion=won), {"c000": won}
    )
    assert (outcome, answers) == (TaskOutcome.STOCK, ())
    assert "a stock recipe under another name" in reason


def test_an_untestable_task_has_no_answer():
    assert run_outcome(run([], stop=StopReason.UNTESTABLE), {}) == (TaskOutcome.UNTESTABLE, "said why", ())


@pytest.mark.parametrize(
    ("kinds", "skills", "expected"),
    [
        (("compile",), (), True), (("graph", "library"), (), True), (("custom", "graph"), (), False),
        (("library",), (), False), (("compile", "algebraic"), (), False), (("compile",), ("library-compile",), True),
        (("compile",), ("simplify-algebra", "library-compile"), False), ((), (), False),
    ],
)  # fmt: skip
def test_what_is_a_stock_recipe(kinds, skills, expected):
    assert is_baseline(Labels(kinds=kinds), skills) is expected


def test_faster_needs_every_stock_arm_but_not_eager_where_compile_is_best():
    verdict = evaluation("k", over={"eager": 1.5, "compile": 1.2})
    assert answer_of(Candidate(id="k", source=""), verdict, "compile").outcome is TaskOutcome.FASTER
    close = evaluation("k", over={"eager": 1.5, "compile": 1.2}, significant=False)
    assert answer_of(Candidate(id="k", source=""), close, "compile").outcome is TaskOutcome.VERIFIED


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("Traceback\n  line\n    ^^^^^\nNameError: name 'x'\n    ~~~\n", "NameError: name 'x'"),
        ("Fatal Python error: Bus error\n\nExtension modules: numpy", "Fatal Python error: Bus error"),
        ("only words", "only words"),
        ("^^^\n---\n", ""),
    ],
)
def test_the_line_that_says_most(detail, told):
    assert telling_line(detail) == told


def test_a_lack_of_memory_is_seen_in_words_and_verdicts():
    assert short_of_memory("too big: judging needs at least 200 GB")
    assert short_of_memory("", [evaluation("c", Status.OUT_OF_MEMORY, detail="x")])
    assert not short_of_memory("wrong values", [evaluation("c", over={"eager": 1.0})])


def test_stock_times_keep_the_spread():
    assert stock_times(BASELINES).best_ms == 1.0


def graph(*ops):
    spec = TensorSpec(shape=(4,), dtype="float32", stride=(1,))
    nodes = tuple(Node(name=f"n{place}", op=op, outputs=(spec,)) for place, op in enumerate(ops))
    return Graph(
        inputs=(GraphInput(name="x", spec=spec, leaf=0),),
        state=(),
        nodes=nodes,
        outputs=(),
        outputs_tree=None,
    )


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        (("aten.relu.default", "aten.convolution.default", "aten.addmm.default"), "conv"),
        (("aten.addmm.default", "aten._softmax.default"), "matmul"),
        (("aten.cumsum.default",), "scan"),
        (("aten.view.default",), "other"),
    ],
)
def test_the_heaviest_operator_names_the_work(ops, expected):
    assert work_of(graph(*ops)) == expected


def test_without_a_graph_the_text_names_the_work():
    assert work_of(None, "self.rnn = nn.LSTM(4, 4)") == "recurrent"
    assert work_of(None, "x + 1") == "other"
