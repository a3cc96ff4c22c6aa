"""What the experiments on memories and searches count, and how sure they are of it."""

import ast
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from typer import BadParameter

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from budgeted import done, left, part_of
from learning import NOISE, compared, counted, halves, reached
from paired import EXACT, chance, geometric
from small_tasks import FIRST_TEN, TASKS, write


def line(*over_eager, final=None, confirmed=None, band=0.02):
    """A run whose evaluations had these speedups over eager; None is one that failed."""
    found = [
        {
            "id": f"c{number}",
            "base": f"c{number - 1}" if number else "",
            "edits": [f"e{number}"],
            "over_eager": None if value is None else [value, value, value],
        }
        for number, value in enumerate(over_eager)
    ]
    last = final or max(range(len(over_eager)), key=lambda number: over_eager[number] or 0)
    told = confirmed or over_eager[last]
    return {"evaluations": found, "final": f"c{last}", "confirmed": [told, told, told], "band": band}


def test_the_tasks_are_files_of_models_in_order(tmp_path):
    files = write(tmp_path)
    assert len(files) >= 48
    assert files[0] == tmp_path / "level1" / "01_Swish.py"
    for file in files:
        tree = ast.parse(file.read_text())
        names = {item.name for item in tree.body if isinstance(item, ast.ClassDef | ast.FunctionDef)}
        assert names == {"Model", "get_inputs", "get_init_inputs"}
    assert {task.family for task in list(TASKS.values())[:FIRST_TEN]} >= {"row", "scan", "pool", "loss"}


def test_the_halves_have_like_families_and_share_nothing():
    for seed in range(5):
        first, second = halves(seed)
        assert set(first) | set(second) == set(TASKS)
        assert not set(first) & set(second)
        one, other = (Counter(TASKS[name].family for name in half) for half in (first, second))
        assert all(abs(one[family] - other[family]) <= 1 for family in one | other)
        assert abs(len(first) - len(second)) <= 1
    assert halves(0) == halves(0) != halves(1)


def test_counted_is_the_first_verified_candidate_within_the_noise():
    assert reached(line(1.0, None, 1.5, 1.6), 1.5, 7) == 3
    assert reached(line(1.0, 1.2), 1.5, 7) == 7, "what never gets there costs its budget"
    found = counted(line(1.0, 1.2, 1.5, confirmed=1.45), line(1.43, 1.0), 7)
    assert found["goal"] == pytest.approx(1.45 / (1 + NOISE), abs=1e-4)
    assert (found["empty"], found["filled"]) == (3, 1)
    unlucky = counted(line(1.0, 1.5, confirmed=1.7), line(1.4, None), 7)
    assert (unlucky["empty"], unlucky["filled"]) == (2, 7), (
        "the empty memory costs no more than its own answer"
    )
    assert counted(line(1.0, band=0.2), line(0.9), 7)["goal"] == pytest.approx(1 / 1.2, abs=1e-4)


def test_the_same_program_has_the_same_speedup_whatever_its_time():
    empty, filled = line(1.0, 1.2, 1.5, confirmed=1.6), line(1.3)
    filled["evaluations"][0]["edits"] = ["e2", "e0", "e1"]
    found = counted(empty, filled, 7)
    assert (found["filled"], found["filled_by_times"]) == (1, 7)
    filled["evaluations"][0]["over_eager"] = None  # not verified
    assert counted(empty, filled, 7)["filled"] == 7


def test_tasks_are_paired_after_their_repeats_were_averaged():
    rows = {
        f"t{number}": [
            {"empty": 4, "filled": 2, "filled_by_times": 3, "final_empty": 2.0, "final_filled": 2.1}
        ]
        * 2
        for number in range(6)
    }
    rows["t6"] = [{"empty": 1, "filled": 2, "filled_by_times": 2, "final_empty": 2.0, "final_filled": 2.0}]
    found = compared(rows)
    assert found["ratio"] == pytest.approx(14 / 25, abs=1e-4)
    assert found["ratio_by_times"] == pytest.approx(20 / 25, abs=1e-4)
    assert (found["fewer"], found["more"], found["tasks"]) == (6, 1, 7)
    assert found["p"] == pytest.approx(2 / 128)
    assert found["final_filled_over_empty"]["value"] == pytest.approx(1.05 ** (6 / 7))


def test_chance_is_exact_for_few_pairs_and_drawn_for_many():
    assert chance([1.0] * 5) == pytest.approx(1 / 32)
    assert chance([-1.0] * 5) == 1
    assert chance([]) == chance([0.0, 0.0]) == 1
    assert chance([2.0, 1.0, -1.0]) == pytest.approx(3 / 8)
    draws = random.Random(0)
    differences = [draws.gauss(0.4, 1.0) for _ in range(EXACT)]
    exact, drawn = chance(differences), chance([*differences, 1e-6])
    assert drawn == pytest.approx(exact, abs=0.01)


def test_a_geometric_mean_has_the_interval_of_its_tasks():
    found = geometric([2.0, 0.5, 2.0, 0.5])
    assert found.value == pytest.approx(1.0)
    assert found.low < 0.5
    assert found.high == pytest.approx(1 / found.low)


def test_parts_are_disjoint_and_what_is_done_is_left_out():
    work = [f"w{number}" for number in range(10)]
    parts = [part_of(work, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(item for part in parts for item in part) == sorted(work)
    for wrong in ("0/3", "4/3", "1"):
        with pytest.raises(BadParameter, match="give I/N"):
            part_of(work, wrong)
    assert list(left(work, {"w0", "w3"}, str, 60)) == [item for item in work if item not in {"w0", "w3"}]
    assert list(left(work, set(), str, -1)) == []
    assert done([{"key": "w1"}, {"key": "w2", "error": "lost"}]) == {"w1"}
