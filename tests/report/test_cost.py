"""The cost of models by role and round, and predictions against what was measured."""

from written_runs import win

from kernelskill.records.model import CallSummary, Expectation, Finish, Intent, Spent, Usage
from kernelskill.report import cost, print_run, render_page


def call(key, usd=0.01, priced=True, usage=Usage(input_tokens=1000, output_tokens=100)):
    return CallSummary(
        key=key, role=key.split(".")[0], model="anthropic:x", usage=usage, spent=Spent(usd=usd, tokens=1100, calls=1, seconds=2),
        prompt_chars=4000, finish=Finish.STOP, priced=priced, price_source="prices.toml, 2026-11-30", replayed=False, notes=(),
    )  # fmt: skip


CALLS = (
    call("generator.s0-1.1"), call("generator.s0-2.1"), call("feature-reader.c000.1"), call("planner.after-2.1"),
    call("planner.after-2.2"), call("optimizer.c002.1"), call("planner.after-3.1"), call("optimizer.c003.1"), call("diagnoser.c001.1"),
)  # fmt: skip


def played(*calls):
    run = win()
    expects = (
        Expectation(fact="vector_bits_used", direction="up", subject="gate", before=128.0),
        Expectation(fact="base_ms", direction="down", before=1.0),
    )
    intent = Intent(author="anthropic:x", steps=("widen",), expects=expects)
    attempts = list(run.attempts)
    first = attempts[0]
    attempts[0] = first.model_copy(
        update={
            "plan": first.plan.model_copy(update={"intent": intent}),
            "candidate": first.candidate.model_copy(update={"note": "why; hints: one pass: followed: x"}),
        }
    )
    return run.model_copy(update={"attempts": tuple(attempts), "model_calls": calls or CALLS})


def test_roles_and_rounds_add_up_to_the_same_sum():
    run = played()
    roles, rounds = cost.by_role(run), cost.by_round(run)
    assert roles[-1] == rounds[-1]
    assert (roles[-1].calls, roles[-1].input_tokens, round(roles[-1].usd, 6)) == (9, 9000, 0.09)
    assert {row.name: row.calls for row in roles} == {
        "diagnoser": 1, "feature-reader": 1, "generator": 2, "optimizer": 2, "planner": 3, "all": 9,
    }  # fmt: skip
    assert {row.name: row.calls for row in rounds} == {"0": 3, "1": 4, "2": 2, "all": 9}


def test_what_is_not_known_is_none_not_zero():
    (row, _) = cost.by_role(played(call("planner.after-1.1", usd=0, priced=False, usage=None)))
    assert (row.usd, row.input_tokens, row.output_tokens) == (None, None, None)


def test_a_prediction_is_compared_with_what_was_measured_on_its_version():
    up, down = cost.predictions(played())
    assert (up.candidate_id, up.after, up.came_true) == ("c000", 256.0, True)
    assert down.came_true is None, "nothing was measured, so nothing is said"


def test_terminal_and_page_tell_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    run = played()
    print_run(run, tmp_path)
    told = capsys.readouterr().out
    assert "9 model calls made, $0.0900 (prices.toml, 2026-11-30)" in told
    assert "planner" in told
    page = render_page(run)
    assert "Language models" in page
    assert "came true" in page
    assert "one pass: followed: x" in page
    assert "Language models" not in render_page(win())
