"""`kernelskill skills` and `kernelskill memory` as a person calls them."""

import json

import pytest
from skill_examples import KERNEL, PROGRAM, attempt_of, facts_of, write_skill
from typer.testing import CliRunner

from kernelskill.cli import app
from kernelskill.journal import Journal
from kernelskill.records import Budget, Reference, Round, Run, Task
from kernelskill.skills import EvidenceStore, ExpertLibrary
from kernelskill.skills.experience import evidence_of

FACTS = facts_of({**PROGRAM, "count_softmax": 1}, k1=KERNEL)


def call(*arguments, code=0):
    done = CliRunner().invoke(app, [str(item) for item in arguments])
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done.output


@pytest.fixture(autouse=True)
def away(tmp_path, monkeypatch):
    """No settings of the machine that runs the tests."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernelskill.toml").write_text(
        f'evidence = "{tmp_path}/evidence.sqlite"\nruns = "{tmp_path}/runs"\n'
    )


def test_list_and_show(tmp_path):
    write_skill(tmp_path / "mine")
    text = call("skills", "list", "--skills", tmp_path / "mine")
    assert "stream-stores" in text
    assert "do-it" in text
    listed = json.loads(call("skills", "list", "--json"))["skills"]
    assert len(listed) >= 48
    assert sum(item["executable"] for item in listed) >= 30
    assert "## Mechanism" in call("skills", "show", "stream-stores")
    assert json.loads(call("skills", "show", "stream-stores", "--json"))["kind"] == "micro"


def test_an_unknown_skill_is_one_clear_line():
    done = CliRunner().invoke(app, ["skills", "show", "nothing"])
    assert done.exit_code == 2
    assert "no skill 'nothing'; known: align-vector-access" in done.output


def test_lint_tells_flaws_by_exit_code(tmp_path):
    write_skill(tmp_path / "mine", applies="kernel_bound == 'memory' and cores > 2")
    text = call("skills", "lint", tmp_path / "mine", code=1)
    assert "do_it/SKILL.md: applies: 'cores' is no fact" in text
    document = json.loads(call("skills", "lint", tmp_path / "mine", "--json", code=1))
    assert {flaw["field"] for flaw in document["flaws"]} == {"applies", "Worked example"}
    assert document["coverage"]["bases"] > 0


@pytest.mark.parametrize("kind", ["micro", "structural", "knowledge"])
def test_a_new_skill_passes_the_door_and_lint_asks_for_its_text(tmp_path, kind):
    call("skills", "new", "my-idea", "--in", tmp_path / "mine", "--kind", kind)
    card = ExpertLibrary(None, extra=[tmp_path / "mine"]).card("my-idea")
    assert card.executable == (kind != "knowledge")
    flaws = json.loads(call("skills", "lint", tmp_path / "mine", "--json", code=1))["flaws"]
    assert all("text of the template is still there" in flaw["rule"] for flaw in flaws)
    again = CliRunner().invoke(app, ["skills", "new", "my-idea", "--in", str(tmp_path / "mine")])
    assert again.exit_code == 2
    assert "exists" in again.output
    wrong = CliRunner().invoke(app, ["skills", "new", "My_Idea", "--in", str(tmp_path / "mine")])
    assert "single hyphens" in wrong.output


def test_explain_tells_each_round_of_a_run(tmp_path):
    task = Task(
        name="t", hash="0" * 64, origin="t",
        reference=Reference(loader="source", kind="module", entry="Model", source="class Model: ..."),
    )  # fmt: skip
    run = Run(
        id="20260101-t", created="2026-01-01", task=task, target="cpu", budget=Budget(), config={}, machine={}
    )
    folder = tmp_path / "runs" / run.id
    folder.mkdir(parents=True)
    journal = Journal.create(folder, run)
    seen = Round(
        index=1, base_id="c000", profile=None, facts=FACTS, retrieval=ExpertLibrary(None).retrieve(FACTS)
    )
    journal.step("observe/001", Round, lambda: seen)
    journal.close()
    text = call("skills", "explain", "20260101-t")
    assert "20260101-t, round 1, base c000" in text
    assert "bottlenecks  1. memory-bandwidth (weight 0.6 on k1)" in text
    assert "stream-stores" in text
    document = json.loads(call("skills", "explain", "last", "--json"))
    (told,) = document["explained"]
    assert told["retrieval"]["decisions"]
    assert {fact["origin"] for fact in told["facts"]} == {"measured", "parsed"}
    nothing = CliRunner().invoke(app, ["skills", "explain", "gone"])
    assert nothing.exit_code == 2
    assert "no run 'gone'" in nothing.output


def test_memory_is_shown_handed_on_merged_and_forgotten(tmp_path):
    store = EvidenceStore(tmp_path / "evidence.sqlite")
    for index in range(3):
        store.add(evidence_of(attempt_of(index), FACTS, "machine", {"run": f"r{index}", "task": "t"}))
    head, _, line = call("memory", "show").splitlines()[:3]
    assert head.split()[-5:] == ["tried", "verified", "rejected", "gain", "device"]
    assert line.split()[-5:] == ["3", "3", "0", "1.200x", "machine"]
    assert "3 rows of 3 runs" in call("memory", "show", "--skill", "stream-stores")
    shown = json.loads(call("memory", "show", "--json"))
    assert shown["remembered"][0]["mean_speedup"] == pytest.approx(1.2)
    assert "3 rows written" in call("memory", "export", tmp_path / "rows.jsonl")
    twice = CliRunner().invoke(app, ["memory", "export", str(tmp_path / "rows.jsonl")])
    assert twice.exit_code == 2
    assert "nothing is overwritten" in twice.output
    other = tmp_path / "other.sqlite"
    assert "3 new rows" in call("memory", "import", tmp_path / "rows.jsonl", "--store", other)
    assert "0 new rows" in call("memory", "merge", other)
    assert "1 rows forgotten" in call("memory", "forget", "--run", "r0")
    assert "1 new rows" in call("memory", "merge", other)
    careless = CliRunner().invoke(app, ["memory", "forget"])
    assert careless.exit_code == 2
    assert "not by nothing" in careless.output


def test_a_damaged_store_is_told_and_left_alone(tmp_path):
    path = tmp_path / "evidence.sqlite"
    path.write_text("not a database, but somebody's only copy " * 50)
    done = CliRunner().invoke(app, ["memory", "show"])
    assert done.exit_code == 2
    assert "nothing was changed" in done.output
    assert path.read_text().startswith("not a database")
