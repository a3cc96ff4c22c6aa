"""A program as a model: prompt in, answer out, nothing left behind."""

import os
import sys
import time
from pathlib import Path

import pytest

from kernelskill.errors import ModelError
from kernelskill.llm.command import CommandModel, spoken
from kernelskill.llm.model import Ask, Transient
from kernelskill.records.model import Finish, Message

TALK = (Message(role="system", text="rules"), Message(role="user", text="question ä"))


def program(code):
    return CommandModel(f'{sys.executable} -c "{code}"')


def test_the_prompt_goes_in_and_the_answer_comes_out():
    reply = CommandModel("cat").complete(TALK, Ask(10, 30))
    assert reply.text == "rules\n\nquestion ä\n"
    assert (reply.finish, reply.usage) == (Finish.STOP, None)


def test_a_long_conversation_says_who_speaks():
    text = spoken((*TALK, Message(role="assistant", text="a"), Message(role="user", text="again")))
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Instructions", "## Question", "## Your answer", "## Question",
    ]  # fmt: skip


def test_no_answer_is_told_apart():
    assert program("pass").complete(TALK, Ask(10, 30)).finish is Finish.EMPTY


def test_failing_and_missing_programs_are_told():
    with pytest.raises(ModelError, match=r"code 3: .*why"):
        program("import sys; print('why', file=sys.stderr); sys.exit(3)").complete(TALK, Ask(10, 30))
    with pytest.raises(ModelError, match="cannot be started"):
        CommandModel("/no/such/program").complete(TALK, Ask(10, 30))


def test_one_that_hangs_ends_with_its_children(tmp_path):
    file = tmp_path / "child"
    code = f"import subprocess,time; p=subprocess.Popen(['sleep','60']); open('{file}','w').write(str(p.pid)); time.sleep(60)"
    with pytest.raises(Transient) as caught:
        program(code).complete(TALK, Ask(10, 3))
    assert caught.value.may_be_billed
    child = int(file.read_text())
    for _ in range(100):
        status = Path(f"/proc/{child}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        pytest.fail("the child is still there")
