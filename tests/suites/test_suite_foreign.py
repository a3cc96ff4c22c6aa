"""Kernels of others find their tasks by the names that people give them."""

from pathlib import Path

import pytest
from small_suites import write_suite
from written_suites import task

from kernelskill.errors import TaskError
from kernelskill.records import Suite
from kernelskill.suites.foreign import match

SUITE = Suite(
    name="toy", root="/s", origin="/s",
    tasks=(task(1, 1, "Gate"), task(1, 2, "Softmax"), task(2, 1, "Linear"), task(2, 5, "Only")),
)  # fmt: skip
KERNELS = Path(__file__).parent / "kernels"


def found(folder, files):
    kernels, strangers = match(SUITE, write_suite(folder, {name: f"# {name}\n" for name in files}))
    return {key: [(item.id, item.sample) for item in items] for key, items in kernels.items()}, strangers


def test_run_folders_of_kernelbench(tmp_path):
    names = [f"level_1_problem_2_sample_{sample}_kernel.py" for sample in (10, 2, 0)]
    kernels, strangers = found(
        tmp_path, [*names, "level_2_problem_1_sample_0_kernel.py", "level_3_problem_1_sample_0_kernel.py"]
    )
    assert [sample for _, sample in kernels["level1/2_Softmax"]] == [0, 2, 10]
    assert kernels["level2/1_Linear"] == [("level_2_problem_1_sample_0_kernel", 0)]
    assert strangers == ["level_3_problem_1_sample_0_kernel.py"]


def test_flat_folders_go_by_name_then_by_a_number_that_only_one_task_has(tmp_path):
    kernels, strangers = found(
        tmp_path, ["2_Softmax.py", "5_whatever.py", "1_Linear.py", "1_other.py", "readme.py"]
    )
    assert set(kernels) == {"level1/2_Softmax", "level2/5_Only", "level2/1_Linear"}
    assert strangers == ["1_other.py", "readme.py"]


def test_folders_by_level_settle_numbers_that_several_tasks_have(tmp_path):
    kernels, strangers = found(
        tmp_path, ["level1/1_fast.py", "level2/1_fast.py", "level2/1_Linear_sample_3.py"]
    )
    assert kernels == {
        "level1/1_Gate": [("1_fast", 0)],
        "level2/1_Linear": [("1_fast", 0), ("1_Linear_sample_3", 3)],
    }
    assert strangers == []


def test_equal_names_for_one_task_stay_apart(tmp_path):
    kernels, _ = found(tmp_path, ["a/2_Softmax.py", "b/2_Softmax.py"])
    assert sorted(name for name, _ in kernels["level1/2_Softmax"]) == ["2_Softmax", "b-2_Softmax"]


def test_a_folder_that_fits_nothing_is_refused(tmp_path):
    with pytest.raises(TaskError, match="fits a task"):
        found(tmp_path, ["kernel.py"])
    with pytest.raises(TaskError, match="no folder"):
        match(SUITE, tmp_path / "nowhere")
