"""Known cheats and honest candidates through the real judge. All of them: `kernelskill judge selftest`."""

import ast
import os
import runpy
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest
import torch

from kernelskill.evaluation import canary
from kernelskill.evaluation.conformance import outcome, play
from kernelskill.evaluation.conformance.beside import Beside, honest_twin, ratio_interval, settled
from kernelskill.evaluation.conformance.case import cases, task
from kernelskill.evaluation.conformance.faults import FAULTS, GOOD, faults
from kernelskill.evaluation.judge import Judge
from kernelskill.records import Candidate, Comparison, Evaluation, Interval, Status, Timing

LEFT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "left_behind.py"))
QUICK = (
    "pointer-cache", "stops-after-warm-up", "static-output-two", "zeroes-inputs", "collector-walk", "nan-as-wildcard",
    "patches-store", "answers-with-nonce", "exits-in-forward", "late-thread", "lazy-by-instance", "trivial-inputs",
    "skips-one-row", "pre-zeroed-output", "other-dtype", "sampled-guard", "result-over-lent-memory", "says-passed",
    "unmaps-output", "decoy-launched", "ghost-branch", "own-kernel", "workspace", "strided-result",
)  # fmt: skip
"""All on one task, so that its baselines are measured once."""


def test_there_are_enough_cases_of_every_kind():
    kinds = Counter((case.target, case.is_control) for case in cases())
    assert kinds["cpu", False] >= 100
    assert kinds["cpu", True] >= 16
    assert kinds["cuda", False] >= 100
    assert kinds["cuda", True] >= 16
    assert {case.expect for case in cases()} == {
        "refused", "uncredited", "not-allowed", "untestable", "accepted"
    }  # fmt: skip


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.id}-{case.target}")
def test_every_case_is_a_program(case):
    ast.parse(case.source)
    ast.parse(task(case.task, case.target).reference.source)
    assert case.tries


def test_the_words_of_a_choice_must_be_known():
    assert {case.group for case in play.chosen("cpu", ["replay"])} == {"replay"}
    with pytest.raises(ValueError, match=r"no case or group nothing for cpu; groups: .*replay"):
        play.chosen("cpu", ["nothing"])


def verdict(low, *, significant=True, status=Status.PASSED, arm="eager", kinds=()):
    times = [Timing(arm=name, median_ms=ms, p10_ms=ms, p90_ms=ms, samples_ms=((ms,),)) for name, ms in
             (("candidate", 1.0), ("eager", 2.0), ("compile", 1.5), ("base", 1.2))]  # fmt: skip
    compared = [
        Comparison(
            arm=name, speedup=Interval(low=low, value=low + 0.1, high=low + 0.2), rounds=9, sets=1,
            significant=significant and name == arm,
        )
        for name in ("eager", "compile", "base")
    ]  # fmt: skip
    return Evaluation(
        candidate_id="x", source_hash="h", stage="screen", status=status, detail="why", noise_band_ratio=0.02,
        timings=times if status is Status.PASSED else (),
        comparisons=compared if status is Status.PASSED else (), labels={"kinds": kinds},
    )  # fmt: skip


def test_credit_is_a_significant_win_over_the_best_stock_arm():
    assert outcome.credit_of(verdict(1.4, arm="compile")) == 1.4
    assert outcome.credit_of(verdict(1.4, arm="eager")) is None, "eager is not the best here"
    assert outcome.credit_of(verdict(1.4, arm="base")) is None
    assert outcome.credit_of(verdict(1.4, significant=False, arm="compile")) is None
    assert outcome.credit_of(verdict(1.4, status=Status.CRASHED)) is None


def of(expect, **changes):
    case = next(case for case in cases() if case.expect == expect)
    return outcome.outcome(case, verdict(**changes), 0.0).miss


def test_a_detail_names_no_folder_of_the_machine():
    told = verdict(1.0, status=Status.BUILD_ERROR).model_copy(
        update={"detail": f"Command '['{sys.executable}', '-m', 'pip']' failed\nand more"}
    )
    assert outcome.outcome(cases()[0], told, 0.0).detail == "Command '['python', '-m', 'pip']' failed"


def test_what_is_missed():
    assert of("refused", low=0.5)
    assert not of("refused", low=0.5, status=Status.WRONG_VALUES)
    assert "1.40x" in of("uncredited", low=1.4, arm="compile")
    assert not of("uncredited", low=1.01, arm="compile")
    assert not of("uncredited", low=1.4, status=Status.INTEGRITY)
    assert of("not-allowed", low=1.0)
    assert not of("not-allowed", low=1.0, status=Status.NOT_ALLOWED)
    assert of("accepted", low=1.0, status=Status.WRONG_VALUES)
    case = next(case for case in cases() if case.labels)
    assert "custom" in outcome.outcome(case, verdict(1.0, kinds=("library",)), 0.0).miss
    assert not outcome.outcome(case, verdict(1.0, kinds=("custom",)), 0.0).miss
    plain = next(case for case in cases() if case.expect == "refused")
    assert outcome.untestable(plain, "constant", 0.0).miss
    assert not outcome.untestable(next(c for c in cases() if c.expect == "untestable"), "constant", 0.0).miss


def test_credit_in_one_screen_stands_only_beside_an_honest_twin():
    case = next(case for case in cases() if case.expect == "uncredited" and case.honest_ratio == 1.0)
    suspect = outcome.outcome(case, verdict(1.4, arm="compile"), 0.0)
    assert suspect.miss
    assert settled(suspect, None, 0.02) is suspect, "refused by luck is no excuse"

    def beside(mine, others):
        return settled(suspect, Beside(ratio_interval(mine, others), median(others)), 0.02)

    same = beside([1.03, 1.01, 1.04, 1.03], [1.03, 1.02, 1.04, 1.02])
    assert (same.miss, same.credit) == ("", None), "the stock arm was a little slow for both"
    slowed = beside([1.40, 1.43, 1.42, 1.39], [1.42, 1.40, 1.41, 1.42])
    assert "its honest twin gets 1.4" in slowed.miss, "the stock arm was slowed down"
    assert not beside([1.03, 0.99, 1.01, 1.0], [1.0, 1.02, 0.99, 1.0]).miss
    assert not beside([1.011] * 4, [1.0] * 4).miss, "within the band, however sure"
    gained = beside([1.07, 1.06, 1.08, 1.07], [1.0, 1.01, 0.99, 1.0])
    assert "its honest time is worth 1.00x" in gained.miss
    assert gained.credit == pytest.approx(1.055, abs=0.02)


def test_the_honest_twin_is_the_reference():
    twin = honest_twin(task("heavy"))
    found = {}
    exec(twin.source, found)
    x = torch.randn(4, 8)
    assert torch.equal(found["ModelNew"]()(x), found["Model"]()(x))


@pytest.mark.slow
def test_a_representative_part_gets_the_right_verdicts():
    outcomes = play.play(play.chosen("cpu", QUICK)).outcomes
    assert len(outcomes) == len(QUICK)
    assert not {item.case.id: (item.miss, item.verdict, item.detail) for item in outcomes if item.miss}


@pytest.mark.slow
def test_tasks_that_prove_nothing_are_refused():
    outcomes = play.play(play.chosen("cpu", ["untestable-constant", "untestable-fixed"])).outcomes
    assert [item.miss for item in outcomes] == ["", ""]
    assert all(item.detail for item in outcomes)


@pytest.mark.slow
def test_a_judge_that_takes_a_wrong_result_for_right_is_not_believed(monkeypatch):
    monkeypatch.setattr(canary, "WRONG", "\n\nclass ModelNew({entry}):\n    pass\n")
    played = play.play(play.chosen("cpu", ["pointer-cache"]))
    assert not played.outcomes
    assert "was taken for right" in played.unplayed[0].reason


HEAD = "import torch\nfrom torch import nn\n\n"


def model(body, head=""):
    return f"{HEAD}{head}\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        {body}\n"


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    made = Judge(
        task("relu"), cache_dir=tmp_path_factory.mktemp("cache"), patience_s=20.0, device=play.EagerOnly()
    )
    with closing(made):
        made.describe()
        made.baselines()
        yield made


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_is_a_program(fault):
    ast.parse(fault.source)
    assert Status.PASSED not in fault.statuses


@pytest.mark.slow
@pytest.mark.parametrize("fault", faults("cpu"), ids=lambda fault: fault.name)
def test_the_next_evaluation_is_right_after_a_fault(judge, fault):
    assert judge.screen(fault.candidate, None).status in fault.statuses
    assert judge.screen(GOOD, None).status is Status.PASSED


@pytest.mark.slow
def test_nothing_is_left_behind_by_faults(judge):
    judge.screen(GOOD, None)
    before = LEFT["held"](os.getpid())
    for fault in faults("cpu"):
        if fault.name in ("fork bomb", "exit 0", "segfault on import", "full disk"):
            judge.screen(fault.candidate, None)
    judge.screen(GOOD, None)
    assert not LEFT["beyond"](before, LEFT["held"](os.getpid()))


@pytest.mark.slow
def test_a_failure_comes_again_byte_for_byte_from_its_seed(judge):
    source = model("y = torch.relu(x) + 1\n        return torch.where(x > 0.999, x * 0, y)")
    first = judge.screen(Candidate(id="wrong", source=source), None)
    judge.replayed = bytes.fromhex(first.seed)
    try:
        again = judge.screen(Candidate(id="wrong", source=source), None)
        good = judge.screen(GOOD, None)
    finally:
        judge.replayed = None
    assert first.status is again.status is Status.WRONG_VALUES
    assert (first.detail, first.errors, first.seed) == (again.detail, again.errors, again.seed)
    assert any("replay" in flag for flag in good.labels.flags)
