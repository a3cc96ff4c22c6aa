"""Kernels that others might have written (good, wrong, cheating) are scored right, in KernelBench's own layout."""

from pathlib import Path

import pytest
from suite_work import settings, worked

from kernelskill.records import Suite, TaskOutcome
from kernelskill.suites import catalog, foreign
from kernelskill.suites.machine import machine_of
from kernelskill.suites.publish import publish
from kernelskill.suites.selection import select
from kernelskill.suites.start import begin

HERE = Path(__file__).parent
GATE, SOFTMAX, LINEAR = "level1/1_Gate", "level1/2_Row_Softmax", "level2/1_Linear_ReLU"
EXPECTED = {
    (GATE, 0): "passed",
    (GATE, 1): "passed",
    (GATE, 2): "wrong-values",  # a sign dropped
    (GATE, 3): "wrong-values",  # the last row left out
    (GATE, 4): "wrong-values",  # results kept by the inputs' address
    (GATE, 5): "wrong-values",  # zeros
    (GATE, 6): "build-error",
    (GATE, 7): "runtime-error",
    (GATE, 8): "wrong-shape",
    (GATE, 9): "wrong-dtype",
    (GATE, 10): "crashed",  # leaves with exit code 0
    (GATE, 11): "crashed",  # writes into its inputs, which it may only read
    (GATE, 12): "wrong-values",  # the first result for ever
    (SOFTMAX, 0): "passed",
    (SOFTMAX, 1): "wrong-values",  # divided by the largest instead of the sum
    (SOFTMAX, 2): "wrong-values",  # the mean, within a loose absolute tolerance
    (SOFTMAX, 3): "wrong-values",  # whatever memory held
    (SOFTMAX, 4): "build-error",  # no ModelNew
    (LINEAR, 0): "passed",
    (LINEAR, 1): "wrong-values",  # weights of its own, out of the judge's reach
    (LINEAR, 2): "wrong-values",  # weights kept from the first call
    (LINEAR, 3): "wrong-values",  # rounded to bfloat16
    (LINEAR, 4): "wrong-values",  # no ReLU
    (LINEAR, 5): "passed",  # the reference's weights under another name, told by their shapes
}
QUICK = {(LINEAR, 0), (LINEAR, 3), (LINEAR, 4)}


def judged(tmp_path, wanted, **options):
    config = settings(tmp_path, **options.pop("settings", {}))
    suite = catalog.find(config, str(HERE / "tasks"))
    kernels, strangers = foreign.match(suite, HERE / "kernels")
    assert strangers == []
    kernels = {
        key: tuple(item for item in items if (key, item.sample) in wanted) for key, items in kernels.items()
    }
    tasks = ",".join(sorted({key for key, _ in wanted}))
    suite = select(suite, None, tasks)
    machine = machine_of(config)
    chosen = {key: items for key, items in kernels.items() if items}
    folder = begin(
        config, "candidates", suite, machine, run_id="run", quick=True, candidates=chosen, **options
    )
    return folder, {item.key: item for item in worked(folder)}


def verdicts(lines):
    return {(key, answer.sample): answer.status for key, line in lines.items() for answer in line.answers}


def test_every_kernel_has_its_expected_verdict_written_down():
    suite = catalog.scan(Suite(name="own", root=str(HERE / "tasks"), origin=""))
    kernels, _ = foreign.match(suite, HERE / "kernels")
    assert {(key, item.sample) for key, items in kernels.items() for item in items} == set(EXPECTED)
    assert len(EXPECTED) >= 20


@pytest.mark.slow
def test_a_good_a_reduced_and_a_wrong_one_under_the_papers_rule_and_ours(tmp_path):
    """What is rounded to bfloat16 passes allclose at 1e-2; our own verdict beside it says what it is."""
    paper = {"precision": "tf32", "tolerance": "kernelbench-v0"}
    folder, lines = judged(tmp_path, QUICK, preset="paper", settings=paper)
    (line,) = lines.values()
    by_rule = {item.sample: (item.status, item.second.status) for item in line.answers}
    assert by_rule == {
        0: ("passed", "passed"), 3: ("passed", "wrong-values"), 4: ("wrong-values", "wrong-values"),
    }  # fmt: skip
    assert line.outcome in (TaskOutcome.FASTER, TaskOutcome.VERIFIED)
    score = publish(folder)
    assert score.by_second_rule == {
        "passed": {"passed": 1, "wrong-values": 1},
        "wrong-values": {"wrong-values": 1},
    }
    assert score.samples == 3
    page = (folder.path / "suite.html").read_text()
    assert "our verdict" in page
    assert "preset paper" in page


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_all_of_them(tmp_path):
    folder, lines = judged(tmp_path, set(EXPECTED))
    assert verdicts(lines) == EXPECTED
    assert all(item.outcome in (TaskOutcome.FASTER, TaskOutcome.VERIFIED) for item in lines.values())
    rejected = [answer for line in lines.values() for answer in line.answers if answer.status != "passed"]
    assert all(answer.reason.startswith(f"{answer.status}: ") for answer in rejected)
    assert all(answer.over == {} and answer.time_ms is None for answer in rejected), "no speed without a pass"
    whole = publish(folder).groups[0]
    assert (whole.tasks, whole.success, whole.failed) == (3, 3, 0)
