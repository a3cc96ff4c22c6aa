"""ncu's text -> launches and faults; strict about the table, patient with everything around it."""

import pytest
from ncu_logs import METRIC, REFUSED, UNKNOWN, log

from kernelskill.profiling.counters import wanted
from kernelskill.profiling.ncu import function_name, read_log

DRAM, TIME, SM = METRIC["dram_throughput_pct"], METRIC["counted_us"], METRIC["sm_throughput_pct"]


def values(text, *asked):
    counted = read_log(text, asked or wanted({}))
    assert counted.fault is None
    return [(launch.kernel, dict(launch.values)) for launch in counted.launches]


def fault(text, *asked):
    counted = read_log(text, asked or wanted({}))
    assert counted.launches == ()
    assert counted.fault is not None
    return counted.fault


def test_several_launches_with_their_values():
    text = log(
        ("_rows", {"counted_us": "1,234,567.25", "dram_throughput_pct": "81.5", "launch_registers": "40"}),
        (
            "void at::native::elementwise<4, float>(int, float *)",
            {"counted_us": "2,048", "dram_throughput_pct": "0"},
        ),
    )
    assert values(text) == [
        ("_rows", {"counted_us": 1234.56725, "dram_throughput_pct": 81.5, "launch_registers": 40.0}),
        (
            "void at::native::elementwise<4, float>(int, float *)",
            {"counted_us": 2.048, "dram_throughput_pct": 0.0},
        ),
    ]


@pytest.mark.parametrize(
    ("unit", "cell", "us"),
    [
        ("ns", "1,500", 1.5),
        ("nsecond", "1500", 1.5),
        ("us", "1.5", 1.5),
        ("msecond", "2", 2000.0),
        ("s", "1e-05", 10.0),
    ],
)
def test_times_come_in_microseconds_whatever_the_unit(unit, cell, us):
    assert values(log(("_k", {TIME: cell}), units={TIME: unit}))[0][1]["counted_us"] == pytest.approx(us)


@pytest.mark.parametrize("cell", ["n/a", "(!) n/a", "nan", "-nan", "inf", ""])
def test_a_cell_without_a_number_is_a_counter_that_was_not_counted(cell):
    assert values(log(("_k", {"dram_throughput_pct": cell, "counted_us": "10"}))) == [
        ("_k", {"counted_us": 0.01})
    ]


def test_what_is_not_available_in_any_launch_is_told_apart_from_a_ratio_of_nothing():
    text = log(("_k", {DRAM: "n/a", SM: "nan", TIME: "10"}), ("_k", {DRAM: "n/a", SM: "nan", TIME: "10"}))
    assert read_log(text, (DRAM, SM, TIME, "gone__away.sum")).uncounted == (DRAM, "gone__away.sum")


def test_lines_of_ncu_and_of_the_program_around_the_table_do_not_matter():
    noise = ["loading...", "==PROF== Profiling \"_k\" - 0: 0%....50%....100% - 9 passes", "",
             "==WARNING== Found outstanding GPU clock reset, trying to revert...Success."]  # fmt: skip
    assert values(log(("_k", {DRAM: "5"}), before=noise, after=noise)) == [
        ("_k", {"dram_throughput_pct": 5.0})
    ]


def test_a_second_process_has_a_table_of_its_own():
    text = log(("_a", {DRAM: "5"})) + log(("_b", {SM: "6"}))
    assert values(text) == [("_a", {"dram_throughput_pct": 5.0}), ("_b", {"sm_throughput_pct": 6.0})]


def test_an_alternative_name_of_a_counter_counts_as_the_counter():
    text = log(("_k", {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "44"}))
    assert values(text) == [("_k", {"dram_throughput_pct": 44.0})]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (log(("_k", {DRAM: "12,34"})), "no number"),
        (log(("_k", {DRAM: "1.234,5"})), "no number"),
        (log(("_k", {DRAM: "fast"})), "no number"),
        (log(("_k", {DRAM: "-3"})), "out of range"),
        (log(("_k", {DRAM: "3"}), units={DRAM: "byte/second"}), "no unit of percent"),
        (log(("_k", {TIME: "3"}), units={TIME: "cycle"}), "no unit of time"),
        (log(("_k", {"waves": "3"}), units={METRIC["waves"]: "Kblock"}), "not a base unit"),
        ('"ID","Kernel"\n"",""\n"0","_k"\n', "no column 'Kernel Name'"),
        (f'"ID","Kernel Name","{DRAM}"\n"0","_k","3"\n', "no row of units"),
        (f'"ID","Kernel Name","{DRAM}","{DRAM}"\n', "twice"),
        (f'"ID","Kernel Name","{DRAM}"\n"","","%"\n"0","_k"\n', "2 cells under 3 names"),
        (f'"ID","Kernel Name","{DRAM}"\n"","","%"\n"0","_k","3\n', "unexpected end"),
    ],
)  # fmt: skip
def test_a_table_that_is_not_what_it_should_be_is_refused_in_words(text, words):
    found = fault(text)
    assert found.kind == "unreadable"
    assert words in found.reason


def test_no_permission():
    found = fault(REFUSED)
    assert found.kind == "permission"
    assert found.reason.startswith("ERR_NVGPUCTRPERM - The user does not have permission")


def test_unknown_names_are_told_as_they_were_asked_for():
    text = (
        "==PROF== Connected to process 1\n"
        + UNKNOWN.format("nosuch__thing")
        + UNKNOWN.format("sm__other.avg")
    )
    found = fault(text, "nosuch__thing.sum", "sm__other.avg", DRAM)
    assert (found.kind, found.metrics) == ("unknown-metric", ("nosuch__thing.sum", "sm__other.avg"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ncu printed nothing"),
        (
            "==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n",
            "No kernels were profiled.",
        ),
        ("==ERROR== Failed to connect to process\n==PROF== Disconnected\n", "Failed to connect to process"),
    ],
)
def test_without_a_table_the_reason_is_what_ncu_said(text, reason):
    found = fault(text)
    assert (found.kind, found.reason) == ("nothing-counted", reason)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("_rows", "_rows"),
        ("void at::native::vectorized<4, at::native::Add<float>>(int, float)", "at::native::vectorized"),
        ("rows(const float *, float *)", "rows"),
        ("<unnamed>", "<unnamed>"),
    ],
)
def test_a_functions_name(kernel, name):
    assert function_name(kernel) == name
