"""Replies that were written beforehand (`examples/model_from_folder.py`), through the way that any program is asked."""

import json
import sys
from pathlib import Path

import pytest

from kernelskill.errors import ModelError
from kernelskill.llm.command import CommandModel
from kernelskill.llm.model import Ask
from kernelskill.records.model import Message

PROGRAM = Path(__file__).parents[2] / "examples" / "model_from_folder.py"
PLANNER = "You may use exactly one of these skills, which a gate admitted by the facts: size-gpu-tile, merge-kernels. Each"


def asked(folder, role, question="question"):
    model = CommandModel(f"{sys.executable} {PROGRAM} {folder} {role}")
    return model.complete((Message(role="user", text=question),), Ask(100, 30)).text.rstrip("\n")


def test_replies_are_given_once_in_order_and_by_role(tmp_path):
    for name, text in (
        ("optimizer-1", "first"),
        ("optimizer-2", "second"),
        ("optimizer-10", "last"),
        ("planner-1", "plan"),
    ):
        (tmp_path / f"{name}.md").write_text(text)
    assert [asked(tmp_path, "optimizer") for _ in range(3)] == ["first", "second", "last"]
    assert asked(tmp_path, "planner") == "plan"


def test_a_reply_for_another_course_is_passed_over_until_it_fits(tmp_path):
    (tmp_path / "planner-1.md").write_text("only if: my_kernel(\nimprove it")
    (tmp_path / "planner-2.md").write_text("write it")
    assert asked(tmp_path, "planner", "the base has nothing of ours") == "write it"
    assert asked(tmp_path, "planner", "out = my_kernel(x)") == "improve it"


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("merge-kernels, size-gpu-tile", "merge-kernels"), ("fuse-siblings", "size-gpu-tile")],
)
def test_the_skill_is_one_that_the_question_admits(tmp_path, wanted, chosen):
    (tmp_path / "planner-1.md").write_text(json.dumps({"skill": f"{{first admitted of: {wanted}}}"}))
    assert json.loads(asked(tmp_path, "planner", PLANNER)) == {"skill": chosen}


def test_where_nothing_is_left_planners_stop_and_writers_fail(tmp_path):
    assert json.loads(asked(tmp_path, "planner"))["stop"]
    assert json.loads(asked(tmp_path, "diagnoser"))["repairable"] is False
    assert json.loads(asked(tmp_path, "feature-reader")) == {"facts": []}
    with pytest.raises(ModelError, match="no reply of the optimizer is left"):
        asked(tmp_path, "optimizer")


def test_the_program_reads_what_the_planner_is_really_told():
    from kernelskill.agents.llm.prompts import render

    told = render(
        "planner", target="cuda", skills=("size-gpu-tile", "merge-kernels"), taught=True, remembers=True
    )
    sys.path.insert(0, str(PROGRAM.parent))
    try:
        from model_from_folder import chosen
    finally:
        sys.path.remove(str(PROGRAM.parent))
    assert chosen("align-vector-access, merge-kernels", told) == "merge-kernels"
