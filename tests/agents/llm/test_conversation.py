"""Bounded tries, the fault shown, more room for what was cut; what is no answer is never read as one."""

import pytest
from scripted_model import ScriptedModel, cut

from kernelskill.agents.llm.conversation import Conversation, UnusableAnswers
from kernelskill.agents.llm.reading import UnusableReply
from kernelskill.errors import BudgetError, ModelError
from kernelskill.records.model import Finish, ModelSettings, Reply

PROMPT = ("rules", "question")


def number(text):
    if not text.strip().isdigit():
        raise UnusableReply(f"{text!r} is no number.")
    return int(text)


def ask(*turns, tries=3):
    model = ScriptedModel(*turns)
    settings = ModelSettings(max_output_tokens=1000, tries=tries)
    return model, lambda: Conversation(model, settings).ask("planner", "after-3", PROMPT, number)


def test_the_fault_is_shown_and_the_next_answer_counts():
    model, asked = ask("seven", "7")
    assert asked() == 7
    assert [key for _, key, _, _ in model.calls] == ["planner.after-3.1", "planner.after-3.2"]
    shown = [message.text for message in model.calls[1][2]]
    assert shown[2] == "seven"
    assert "'seven' is no number." in shown[3]


def test_only_the_last_fault_is_shown_so_that_prompts_do_not_grow():
    model, asked = ask("a", "b", "3")
    assert asked() == 3
    assert [message.text for message in model.calls[2][2]][2] == "b"
    assert len(model.calls[2][2]) == 4


@pytest.mark.parametrize("finish", [Finish.LENGTH, Finish.REASONING, Finish.EMPTY])
def test_a_cut_or_missing_answer_is_asked_again_with_more_room(finish):
    model, asked = ask(
        Reply(text="7" if finish is Finish.LENGTH else "", finish=finish, model="m"), cut("8"), "9"
    )
    assert asked() == 9, "half an answer was read"
    assert [room for *_, room in model.calls] == [1000, 2000, 4000]
    assert all(message.role != "assistant" for _, _, messages, _ in model.calls for message in messages)


def test_twenty_wrong_answers_end_after_three():
    model, asked = ask(*["not json"] * 20)
    with pytest.raises(
        UnusableAnswers, match=r"the planner \(test:scripted\) gave no usable answer in 3 replies"
    ):
        asked()
    assert len(model.calls) == 3


def test_a_spent_budget_is_not_tried_again():
    model, asked = ask("x", BudgetError("spent"))
    with pytest.raises(BudgetError):
        asked()
    assert len(model.calls) == 2


def test_places_are_safe_as_file_names():
    model = ScriptedModel("1")
    Conversation(model, ModelSettings()).ask("planner", "../c0 1", PROMPT, number)
    assert model.calls[0][1] == "planner.-c0-1.1"


def test_a_model_that_cannot_answer_longer_has_not_failed_as_a_model():
    model, asked = ask(cut(), ModelError("max_tokens is too large"))
    with pytest.raises(UnusableAnswers, match="a longer one is refused: max_tokens"):
        asked()
    model, asked = ask(ModelError("wrong key"))
    with pytest.raises(ModelError, match="wrong key") as caught:
        asked()
    assert not isinstance(caught.value, UnusableAnswers)
    assert len(model.calls) == 1
