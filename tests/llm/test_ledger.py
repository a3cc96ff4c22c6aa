"""A limit is never passed, whatever the order, the errors, or how many ask at once."""

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelskill.errors import BudgetError
from kernelskill.llm.ledger import Ledger, worst_usage
from kernelskill.records.model import Limits, Message, Spent


@given(
    limit=st.floats(0, 1),
    calls=st.lists(st.tuples(st.floats(0.001, 0.5), st.floats(0, 1), st.booleans()), max_size=40),
)
def test_dollars_never_pass_the_limit(limit, calls):
    ledger = Ledger(Limits(usd=limit, calls=None))
    open_holds = []
    for worst, share, settle in calls:
        try:
            held = ledger.hold(Spent(usd=worst, calls=1))
        except BudgetError:
            continue
        open_holds.append((held, share))
        if settle:
            hold, part = open_holds.pop()
            ledger.settle(hold, Spent(usd=hold.usd * part, calls=1))
    for held, _ in open_holds:
        ledger.settle(held, held)
    assert ledger.spent.usd <= limit + 1e-12


def test_many_threads_together_never_pass_a_limit():
    ledger = Ledger(Limits(usd=0.01, calls=50))
    chance = random.Random(1)
    shares = [chance.random() for _ in range(400)]

    def work(part):
        for share in part:
            try:
                held = ledger.hold(Spent(usd=0.0007, tokens=10, calls=1))
            except BudgetError:
                continue
            ledger.settle(held, Spent(usd=0.0007 * share, tokens=10, calls=1))

    threads = [threading.Thread(target=work, args=(shares[place::8],)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.008 < ledger.spent.usd <= 0.01 or ledger.spent.calls == 50
    assert ledger.spent.calls <= 50


@pytest.mark.parametrize(
    ("limits", "worst", "what"),
    [
        (Limits(usd=0.01), Spent(usd=0.011), "dollars"),
        (Limits(tokens=100), Spent(tokens=101), "tokens"),
        (Limits(calls=0), Spent(calls=1), "calls"),
        (Limits(seconds=0.5), Spent(seconds=10), "s for models"),
    ],
)
def test_the_limit_is_named(limits, worst, what):
    with pytest.raises(BudgetError, match=what):
        Ledger(limits).hold(worst)


def test_a_call_gets_the_seconds_that_are_left():
    ledger = Ledger(Limits(seconds=30), Spent(seconds=25))
    assert ledger.hold(Spent(calls=1, seconds=600)).seconds == 5


def test_what_earlier_processes_spent_counts():
    with pytest.raises(BudgetError):
        Ledger(Limits(usd=1.0), Spent(usd=0.9)).hold(Spent(usd=0.2))


@given(st.text(max_size=200))
def test_a_prompt_has_no_more_tokens_than_bytes(text):
    usage = worst_usage((Message(role="user", text=text),), 7)
    assert usage.input_tokens > len(text.encode())
    assert usage.output_tokens == 7
