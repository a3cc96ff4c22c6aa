"""Bounded in number and time; the server's wish counts, a wish beyond the deadline ends it."""

import pytest

from kernelskill.errors import ModelError
from kernelskill.llm.model import Ask, SettingRefused, Transient
from kernelskill.llm.retry import REQUESTS, Unanswered, answered
from kernelskill.records.model import Finish, Reply

REPLY = Reply(text="x", finish=Finish.STOP, model="m")


class Scripted:
    """A model whose every request is an error or a reply, in order; the last one repeats."""

    name = "scripted"

    def __init__(self, *turns):
        self.turns = list(turns)
        self.asks = []

    def complete(self, messages, ask):
        self.asks.append(ask)
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(turn, Exception):
            raise turn
        return turn


def test_it_waits_as_long_as_the_server_asks_and_tells_of_it():
    waits = []
    model = Scripted(Transient("busy", 7), Transient("broken"), REPLY)
    reply = answered(model, (), Ask(10, 100), waits.append)
    assert reply.text == "x"
    assert waits[0] == 7
    assert 0.5 < waits[1] <= 2
    assert reply.notes == ("busy", "broken")


def test_the_number_of_requests_is_bounded():
    model = Scripted(Transient("broken"))
    with pytest.raises(Unanswered, match="no reply in 6 requests"):
        answered(model, (), Ask(10, 1e6), lambda _: None)
    assert len(model.asks) == REQUESTS


def test_a_wait_beyond_the_deadline_is_not_begun():
    waits = []
    with pytest.raises(Unanswered, match="pass the deadline"):
        answered(Scripted(Transient("busy", 3600)), (), Ask(10, 60), waits.append)
    assert waits == []


def test_what_cannot_get_better_is_not_asked_again():
    model = Scripted(ModelError("wrong key"))
    with pytest.raises(Unanswered, match="wrong key"):
        answered(model, (), Ask(10, 60), lambda _: None)
    assert len(model.asks) == 1


def test_a_refused_temperature_is_left_out_once():
    model = Scripted(SettingRefused("no temperature"), REPLY)
    reply = answered(model, (), Ask(10, 60, temperature=0.5), lambda _: None)
    assert [ask.temperature for ask in model.asks] == [0.5, None]
    assert reply.notes == ("temperature left out: refused",)
    with pytest.raises(Unanswered):
        answered(Scripted(SettingRefused("still")), (), Ask(10, 60, temperature=0.5), lambda _: None)


def test_a_request_that_may_be_charged_is_not_repeated_unpaid():
    model = Scripted(Transient("broken"), Transient("silent", may_be_billed=True), REPLY)
    with pytest.raises(Unanswered, match="broken; then silent") as caught:
        answered(model, (), Ask(10, 60), lambda _: None)
    assert caught.value.may_be_billed
    assert len(model.asks) == 2
