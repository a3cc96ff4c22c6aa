"""Budget first, record before and after; resumed and replayed runs pay nothing twice; keys reach no file."""

import json
import threading

import pytest

from kernelskill.errors import BudgetError, ConfigError, ModelError
from kernelskill.llm.access import ModelAccess, Priced
from kernelskill.llm.calls import CallFolder, read_calls
from kernelskill.llm.ledger import worst_usage
from kernelskill.llm.model import Transient
from kernelskill.llm.prices import FixedPrice
from kernelskill.llm.retry import answered
from kernelskill.records.model import Finish, Limits, Message, ModelSettings, Reply, Usage

TALK = (Message(role="user", text="question"),)
PRICE = FixedPrice(input_usd=1000, output_usd=1000, as_of="2026-01-01", source="test, 2026-01-01")


class Echo:
    name = "test:echo"

    def __init__(self, *faults, usage=Usage(input_tokens=3, output_tokens=2), text="answer"):
        self.faults, self.usage, self.text, self.asked = list(faults), usage, text, 0

    def complete(self, messages, ask):
        self.asked += 1
        if self.faults:
            raise self.faults.pop(0)
        return Reply(text=self.text, finish=Finish.STOP, model=self.name, usage=self.usage)


def access(folder, *models, price=PRICE, replay=None, **settings):
    chain = tuple(Priced(model, price) for model in models)
    return ModelAccess(
        {"planner": chain, "optimizer": chain}, ModelSettings(timeout_s=30, **settings), CallFolder(folder), replay,
        reach=lambda model, messages, ask: answered(model, messages, ask, lambda _: None),
    )  # fmt: skip


def test_every_call_is_on_disk_with_what_it_cost(tmp_path):
    access(tmp_path / "llm", Echo()).reply("planner", "planner.after-1.1", TALK, 100)
    (call,) = read_calls(tmp_path / "llm")
    assert (call.key, call.messages, call.reply.text) == ("planner.after-1.1", TALK, "answer")
    assert call.spent.usd == pytest.approx(5e-3)
    assert (call.spent.tokens, call.spent.calls) == (5, 1)
    assert (call.price_source, call.priced) == ("test, 2026-01-01", True)


def test_a_place_that_was_answered_is_never_asked_again(tmp_path):
    model = Echo()
    access(tmp_path / "llm", model).reply("planner", "planner.after-1.1", TALK, 100)
    again = access(tmp_path / "llm", model).reply("planner", "planner.after-1.1", TALK, 100)
    assert (again.text, model.asked) == ("answer", 1)


def test_a_call_that_was_killed_on_its_way_counts_at_its_worst(tmp_path):
    class Killed(Echo):
        def complete(self, messages, ask):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        access(tmp_path / "llm", Killed()).reply("planner", "planner.after-1.1", TALK, 100)
    (call,) = read_calls(tmp_path / "llm")
    worst = PRICE.usd(worst_usage(TALK, 100))
    assert call.reply is None
    assert call.spent.usd == pytest.approx(worst)
    resumed = access(tmp_path / "llm", Echo(), limits=Limits(usd=1.5 * worst))
    with pytest.raises(BudgetError):
        resumed.reply("planner", "planner.after-1.1", TALK, 100)
    richer = access(tmp_path / "llm", Echo(), limits=Limits(usd=2.1 * worst))
    richer.reply("planner", "planner.after-1.1", TALK, 100)
    (call,) = read_calls(tmp_path / "llm")
    assert call.lost.usd == pytest.approx(worst)
    assert CallFolder(tmp_path / "llm").spent().usd == pytest.approx(worst + 5e-3)


def test_a_reply_without_a_count_is_charged_at_its_worst(tmp_path):
    access(tmp_path / "llm", Echo(usage=None)).reply("planner", "k.1", TALK, 100)
    assert CallFolder(tmp_path / "llm").spent().usd == pytest.approx(PRICE.usd(worst_usage(TALK, 100)))


def test_a_silent_request_is_charged_beside_the_one_that_answered(tmp_path):
    silent = Echo(Transient("silent", may_be_billed=True))
    access(tmp_path / "llm", silent).reply("planner", "k.1", TALK, 100)
    spent = CallFolder(tmp_path / "llm").spent()
    assert spent.usd == pytest.approx(5e-3 + PRICE.usd(worst_usage(TALK, 100)))
    assert spent.calls == 2


def test_another_model_is_asked_only_when_it_was_named(tmp_path):
    with pytest.raises(ModelError, match="wrong key"):
        access(tmp_path / "a", Echo(ModelError("wrong key"))).reply("planner", "k.1", TALK, 100)
    second = Echo(text="from the second")
    reply = access(tmp_path / "b", Echo(ModelError("wrong key")), second).reply("planner", "k.1", TALK, 100)
    assert reply.text == "from the second"
    assert reply.notes == ("wrong key",)


def test_a_replay_asks_nobody_and_pays_nothing(tmp_path):
    access(tmp_path / "llm", Echo(text="recorded")).reply("planner", "k.1", TALK, 100)
    silent = Echo()
    again = access(tmp_path / "again", silent, replay=CallFolder(tmp_path / "llm"))
    assert again.reply("planner", "k.1", (Message(role="user", text="other facts"),), 100).text == "recorded"
    assert silent.asked == 0
    (call,) = read_calls(tmp_path / "again")
    assert call.replayed
    assert CallFolder(tmp_path / "again").spent().usd == 0
    with pytest.raises(ModelError, match=r"no reply of the planner left for k\.2"):
        again.reply("planner", "k.2", TALK, 100)


def test_a_replay_that_takes_another_course_goes_on_with_each_roles_next_reply(tmp_path):
    """Its times are other ones: a planner is asked after three attempts where it was asked after two."""
    told = Echo()
    first = access(tmp_path / "llm", told)
    for role, key in (("planner", "p.after-2.1"), ("optimizer", "o.c002.1"), ("planner", "p.after-3.1")):
        told.text = f"recorded at {key}"
        first.reply(role, key, TALK, 100)
    recorded = CallFolder(tmp_path / "llm")
    again = access(tmp_path / "again", Echo(), replay=recorded)
    assert again.reply("planner", "p.after-3.1", TALK, 100).text == "recorded at p.after-3.1"
    assert again.reply("optimizer", "o.c003.1", TALK, 100).text == "recorded at o.c002.1"
    resumed = access(tmp_path / "again", Echo(), replay=recorded)
    assert resumed.reply("planner", "p.after-4.1", TALK, 100).text == "recorded at p.after-2.1"
    with pytest.raises(ModelError, match="no reply of the planner left"):
        resumed.reply("planner", "p.after-5.1", TALK, 100)
    sources = {call.key: call.replayed_from for call in read_calls(tmp_path / "again")}
    assert sources == {"p.after-3.1": "p.after-3.1", "o.c003.1": "o.c002.1", "p.after-4.1": "p.after-2.1"}


def test_ten_at_once_never_pass_one_cent(tmp_path):
    """Each call may take up to 5 dollar cents' worth of a 1 cent budget, so only a few can be held at once."""
    worst = PRICE.usd(worst_usage(TALK, 1)) * 1e-3
    cheap = FixedPrice(input_usd=1, output_usd=1, as_of="2026-01-01")
    limit = 3.5 * worst
    asked = access(tmp_path / "llm", Echo(usage=None), price=cheap, limits=Limits(usd=limit))
    refused = []

    def work(number):
        try:
            asked.reply("planner", f"k{number}.1", TALK, 1)
        except BudgetError:
            refused.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert CallFolder(tmp_path / "llm").spent().usd <= limit
    assert len(refused) == 7


def test_what_a_call_is_expected_to_cost_follows_the_replies_so_far(tmp_path):
    price = FixedPrice(input_usd=1, output_usd=10, as_of="2026-01-01")
    asked = access(tmp_path / "llm", Echo(usage=Usage(input_tokens=1000, output_tokens=300)), price=price)
    assert asked.expected_usd("planner", 3500, 4000) == pytest.approx((1000 + 1000 * 10) / 1e6)
    asked.reply("planner", "planner.after-1.1", TALK, 4000)
    assert asked.expected_usd("planner", 3500, 4000) == pytest.approx((1000 + 300 * 10) / 1e6)
    assert asked.expected_usd("optimizer", 3500, 4000) == pytest.approx((1000 + 1000 * 10) / 1e6)


def test_a_gain_cannot_be_set_against_a_cost_that_is_not_known(tmp_path):
    with pytest.raises(ConfigError, match="no price is known of test:echo"):
        access(tmp_path / "llm", Echo(), price=None, percent_usd=0.01)
    assert access(tmp_path / "llm", Echo(), price=None).expected_usd("planner", 1, 1) is None


def test_a_limit_in_dollars_without_a_price_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no price is known of test:echo"):
        access(tmp_path / "llm", Echo(), price=None, limits=Limits(usd=1))


def test_no_key_reaches_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret-0123")
    leaking = Echo(Transient("server says: bad key sk-very-secret-0123"), text="you sent sk-very-secret-0123")
    talk = (Message(role="user", text="my key is sk-very-secret-0123"),)
    access(tmp_path / "llm", leaking).reply("planner", "k.1", talk, 100)
    broken = access(tmp_path / "llm", Echo(ModelError("refused sk-very-secret-0123")))
    with pytest.raises(ModelError) as caught:
        broken.reply("planner", "k.2", talk, 100)
    assert "sk-very-secret" not in str(caught.value)
    text = "".join(path.read_text() for path in (tmp_path / "llm").iterdir())
    assert "sk-very-secret" not in text
    assert "[SOME_API_KEY]" in text
    assert all(json.loads(path.read_text()) for path in (tmp_path / "llm").iterdir())
