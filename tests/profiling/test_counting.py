"""Asking for counters until the answer is final: other names, refusals, failures, a base that stays."""

import pytest
from ncu_logs import METRIC, REFUSED, UNKNOWN, log

from kernelskill.errors import WorkerError
from kernelskill.profiling.counting import FAILURES, TRIES, Counting
from kernelskill.records import Candidate

GOOD = log(("_rows", {"counted_us": "1000", "dram_throughput_pct": "70"}))
SECOND = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"


class Machine:
    """An evaluator that only counts: answers in order, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def count(self, candidate, metrics):
        self.asked.append(tuple(metrics))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"log": answer} if isinstance(answer, str) else answer


def candidate(source="a"):
    return Candidate(id="c", source=source)


def test_launches_are_given_and_a_base_that_stays_is_counted_once():
    machine = Machine(GOOD)
    counting = Counting(machine)
    launches, note = counting.of(candidate())
    assert [launch.kernel for launch in launches] == ["_rows"]
    assert "not counted here" in note, "the log lacks most of what was asked for"
    assert counting.of(candidate()) == (launches, note)
    assert len(machine.asked) == 1
    counting.of(candidate("b"))
    assert len(machine.asked) == 2


def test_a_wrong_name_is_replaced_and_asked_for_again():
    machine = Machine(UNKNOWN.format(METRIC["dram_throughput_pct"].partition(".")[0]), GOOD)
    counting = Counting(machine)
    launches, _ = counting.of(candidate())
    assert launches
    first, second = machine.asked
    assert METRIC["dram_throughput_pct"] in first
    assert METRIC["dram_throughput_pct"] not in second
    assert SECOND in second
    counting.of(candidate("b"))
    assert SECOND in machine.asked[-1], "what was learned stays"


def test_a_counter_that_is_not_available_is_asked_for_by_its_other_name_next_time():
    everything = {name: "1" for name in METRIC} | {"dram_throughput_pct": "n/a", "waves": "n/a"}
    machine = Machine(log(("_rows", everything)))
    counting = Counting(machine)
    assert counting.of(candidate())[1] == (
        f"not counted here: {METRIC['dram_throughput_pct']}, {METRIC['waves']}"
    )
    counting.of(candidate("b"))
    assert SECOND in machine.asked[-1]
    assert METRIC["waves"] in machine.asked[-1], "it has no other name, and another kernel may have it"


def test_names_that_stay_unknown_end_it():
    machine = Machine(*(UNKNOWN.format(METRIC[name].partition(".")[0]) for name in METRIC))
    launches, note = Counting(machine).of(candidate())
    assert launches == ()
    assert f"after {TRIES} runs" in note
    assert len(machine.asked) == TRIES


def test_an_unknown_name_that_nobody_asked_for_is_no_reason_to_try_again():
    machine = Machine(UNKNOWN.format("nosuch__thing"))
    launches, note = Counting(machine).of(candidate())
    assert (launches, len(machine.asked)) == ((), 1)
    assert "Failed to find metric" in note


def test_a_refusal_is_final_and_says_where_to_read_on():
    machine = Machine(REFUSED)
    counting = Counting(machine)
    for source in "abc":
        launches, note = counting.of(candidate(source))
        assert launches == ()
        assert "does not have permission" in note
        assert "https://developer.nvidia.com/ERR_NVGPUCTRPERM" in note
    assert len(machine.asked) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"log": "", "error": "ncu is not installed"}, "ncu is not installed"),
        (WorkerError("the candidate worker died"), "the candidate worker died"),
        ({"log": 3}, "ncu printed nothing"),
        (7, "not understood"),
        ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
    ],
)
def test_without_counters_the_reason_is_told_and_soon_nothing_is_asked_any_more(answer, words):
    machine = Machine(answer)
    counting = Counting(machine)
    for source in "abcd":
        assert words in counting.of(candidate(source))[1]
    assert len(machine.asked) == FAILURES


def test_one_failure_between_two_good_answers_ends_nothing():
    machine = Machine("", GOOD, "", GOOD)
    counting = Counting(machine)
    assert [bool(counting.of(candidate(source))[0]) for source in "abcde"] == [False, True, False, True, True]
