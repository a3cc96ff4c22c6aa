"""Conditions over facts: grammar, three values, and what an answer can say about itself."""

import itertools
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from skill_examples import facts_of

from kernelskill.errors import SkillError
from kernelskill.skills.expression import Condition, FactIndex, Quantity

VALUES = {"true": True, "false": False, "unknown": None}


def ask(text, program=None, subject="", **subjects):
    return Condition(text, "card x: applies").ask(FactIndex(facts_of(program or {}, **subjects)), subject)


@pytest.mark.parametrize(("left", "right"), list(itertools.product(VALUES.values(), repeat=2)))
def test_logic_is_kleenes(left, right):
    facts = {"a": left, "b": right}

    def least(x, y):
        order = {False: 0, None: 1, True: 2}
        return min(x, y, key=order.get)

    def opposite(x):
        return None if x is None else not x

    assert ask("a and b", facts).value is least(left, right)
    assert ask("a or b", facts).value is opposite(least(opposite(left), opposite(right)))
    assert ask("not a", facts).value is opposite(left)
    assert ask("not (a and b)", facts).value is ask("not a or not b", facts).value


@given(a=st.integers(-5, 5), b=st.integers(-5, 5), c=st.integers(1, 5))
def test_known_numbers_agree_with_python(a, b, c):
    facts = {"a": a, "b": b, "c": c}
    for text in (
        "a < b",
        "a <= b < c",
        "a + b * c > -a",
        "a / c == b",
        "min(a, b) != max(b, c)",
        "a in (1, 2, 3)",
    ):
        assert ask(text, facts).value == eval(text, {}, facts)


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_missing_facts_and_division_by_zero_are_unknown_never_true(sign):
    assert ask(f"missing {sign} 1").value is None
    assert ask(f"a {sign} 1", {"a": None}).value is None
    assert ask(f"a / b {sign} 1", {"a": 1, "b": 0}).value is None
    assert ask(f"max(a, missing) {sign} 1", {"a": 1}).value is None
    assert ask(f"not (missing {sign} 1)").value is None


def test_a_kernel_falls_back_to_facts_of_the_program_but_not_to_other_kernels():
    groups = {"k1": {"rows": 1}, "k2": {"rows": 9, "share_ratio": 0.5}}
    assert ask("rows < threads", {"threads": 2}, "k1", **groups).value is True
    assert ask("rows < threads", {"threads": 2}, "k2", **groups).value is False
    assert ask("share_ratio > 0", {"threads": 2}, "k1", **groups).value is None


def test_an_answer_tells_what_decided_it():
    facts = {"kernel_bound": "compute", "in_cache": False, "rows": 1}
    refused = ask("kernel_bound == 'memory' and not in_cache", facts)
    assert refused.reason == "fails: kernel_bound == 'memory' (kernel_bound=compute measured)"
    assert refused.measured
    assert [fact.name for fact in refused.facts] == ["kernel_bound"]
    admitted = ask("not in_cache or kernel_bound == 'memory'", facts)
    assert admitted.reason == "not in_cache (in_cache=False parsed)"
    assert not admitted.measured, "the measured half did not decide"
    unknown = ask("rows == 1 and time_us > 5", facts)
    assert unknown.value is None
    assert unknown.reason == "cannot tell: time_us > 5 (time_us not known)"
    assert ask("not (rows > 3)", facts).reason == "not (rows > 3) (rows=1 parsed)"


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("rows <", 7, "invalid syntax"),
        ("rows < open('x')", 8, "open('x')"),
        ("rows and 1 + 2", 10, "1 + 2 is not a condition"),
        ("True", 1, "not a condition"),
        ("a.b == 1", 1, "a.b"),
        ("x in y", 6, "list of literals"),
        ("x in ()", 6, "list of literals"),
        ("x is None", 6, "only == != < <= > >= in and not in"),
        ("x == None", 6, "neither a fact"),
        ("a ** 2 > 1", 1, "a ** 2"),
        ("[a for a in (1,)] == 1", 1, "neither a fact"),
        ("(lambda: 1)() == 1", 1, "neither a fact"),
        ("max() > 1", 1, "max()"),
        ("x := 3", 3, "invalid syntax"),
        ("a == b'x'", 6, "neither a fact"),
        ("1 < x in (2, 3)", 1, "chain"),
    ],
)
def test_the_grammar_is_closed_and_errors_name_card_and_column(text, column, words):
    with pytest.raises(SkillError) as error:
        Condition(text, "card x: applies")
    assert str(error.value).startswith(f"card x: applies, column {column}: ")
    assert words in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["", "   ", "a" * 3000, "not " * 200 + "a", "(" * 250 + "a" + ")" * 250, "\0"],
)
def test_degenerate_text_is_refused_cleanly(text):
    with pytest.raises(SkillError, match="card x"):
        Condition(text, "card x: applies")


def test_long_but_flat_text_is_fine():
    assert ask("a == 1 and " * 150 + "b", {"a": 1, "b": True}).value is True


@pytest.mark.parametrize(
    "text",
    [
        "a == 'x'",
        "a < 'x'",
        "flag < True",
        "flag == 1",
        "name == 3",
        "a",
        "name",
        "name + 1 > 2",
        "a in (1, 'x')",
    ],
)
def test_values_of_different_sorts_are_an_error_not_an_answer(text):
    facts = {"a": 2, "flag": True, "name": "map"}
    with pytest.raises(SkillError, match=r"card x: applies, column \d+"):
        ask(text, facts)


def test_quantities():
    index = FactIndex(facts_of({"a": 3, "b": 0.5}))
    assert Quantity("a * (1 - b) - -1", "w").value(index) == 2.5
    assert Quantity("a * missing", "w").value(index) is None
    with pytest.raises(SkillError, match="w, column 1"):
        Quantity("a > 1", "w")


@given(st.text(alphabet="ab1<>=()' andornti.+*[]{}:,\n\\\"", max_size=40))
def test_any_text_gives_a_condition_or_a_skill_error(text):
    try:
        condition = Condition(text, "card x: applies")
    except SkillError:
        return
    try:
        answer = condition.ask(FactIndex(facts_of({"a": 1, "b": True})))
    except SkillError:
        return
    assert answer.value in (True, False, None)


def test_comparisons_are_the_usual_ones():
    for sign, function in {"<": operator.lt, ">=": operator.ge, "!=": operator.ne}.items():
        for a, b in itertools.product((1, 2.0, 3), repeat=2):
            assert ask(f"a {sign} b", {"a": a, "b": b}).value is function(a, b)
    assert ask("s < 'b'", {"s": "a"}).value is True
    assert ask("f == True", {"f": True}).value is True
