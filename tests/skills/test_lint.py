"""One planted fault of each kind is found, and the bundled stock has none."""

import pytest
from skill_examples import MEASURED, write_skill

from kernelskill.features import CATALOG
from kernelskill.features.catalog import TOLD
from kernelskill.skills import lint, read_cards
from kernelskill.skills.lint import dead_facts, unread_facts
from kernelskill.skills.sources import BUNDLED
from kernelskill.skills.stock import examine

KNOWN = {*MEASURED, "kernel_kind", "rows", "threads", "in_cache", "operators_left"}
VALUES = {"kernel_bound": ("memory", "compute", "latency", "overhead")}


def flaws(folder, **options):
    found = lint([folder], known=KNOWN, measured=MEASURED, values=VALUES, **options)
    return [(flaw.field, flaw.rule) for flaw in found]


def test_a_sound_skill_has_no_flaw(tmp_path):
    write_skill(tmp_path)
    assert flaws(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"applies": "kernel_bound == 'memory' and cores > 2"}, "applies", "'cores' is no fact"),
        ({"applies": "kernel_bound == 'memmory'"}, "applies", "unreachable"),
        ({"applies": "kernel_bound == 'memory' and share_ratio > 1.5"}, "applies", "unreachable"),
        ({"applies": "kernel_bound == 'memory' and rows < 3 and rows > 9"}, "applies", "unreachable"),
        (
            {"applies": "kernel_bound in ('memory', 'compute', 'latency', 'overhead')"},
            "applies",
            "always true",
        ),
        (
            {"applies": "kernel_bound == 'memory' and dram_throughput_pct >= 70", "bottlenecks": "[compute]"},
            "bottlenecks",
            "unreachable",
        ),
        (
            {"applies": "kernel_bound == 'memory' and kernel_kind == 'map'", "structures": "[row]"},
            "bottlenecks",
            "unreachable",
        ),
        ({"applies": "rows < threads"}, "applies", "must not be admitted without a measured fact"),
        ({"applies": "rows < threads or kernel_bound == 'memory'"}, "applies", "without a measured fact"),
        ({"conflicts": "[nobody]"}, "conflicts", "'nobody' is the id of no skill"),
        ({"recipe": None}, "recipe.py", "a micro skill must have one"),
        ({"recipe": "def propose(program, facts): return []"}, "recipe.py", "apply: must be a function"),
        ({"recipe": "def apply(program, edit): return program"}, "recipe.py", "propose: must be a function"),
        ({"recipe": "import nothing_of_that_name"}, "recipe.py", "cannot be imported"),
        ({"kind": "knowledge"}, "recipe.py", "knowledge has none"),
        ({"kind": "magic"}, "card", "kind: 'magic'"),
        ({"tiers": "[huge]"}, "card", "tiers.0: 'huge'"),
    ],
)
def test_each_planted_fault_is_found(tmp_path, fields, field, words):
    write_skill(tmp_path, **fields)
    found = flaws(tmp_path)
    assert len(found) == 1, found
    assert found[0][0] == field
    assert words in found[0][1]


EXAMPLE = "## Worked example\n```python\n{}\n```\n"


@pytest.mark.parametrize(
    ("old", "new", "field", "words"),
    [
        ("targets: [cpu]", "targets: [cuda]", "targets", "contradiction: the condition never holds together with targets"),
        ("tiers: [high, medium, low]", "tiers: [low]", "tiers", "contradiction: the condition never holds together with headroom"),
        ("## Mechanism\nText.", "## Mechanism\nOr see another-skill.", "body", "'another-skill' is referred to"),
        ("## Mechanism\nText.", "## Mechanism\n[Figure](figure.svg).", "body", "the link to figure.svg leads nowhere"),
        ("hazards: [none", "  at_most: 1 / nonsense\nhazards: [none", "expected_gain.at_most", "'nonsense' is no fact"),
        ("source: this test", "source: <where the idea comes from>", "source", "text of the template is still there"),
        ("## Worked example\nText.", EXAMPLE.format("assert 1 == 2"), "Worked example", "line 1: assert 1 == 2: AssertionError"),
        ("## Worked example\nText.", EXAMPLE.format("x = 1\nedited(nothing)"), "Worked example", "line 2: edited(nothing): NameError"),
        ("## Worked example\nText.", EXAMPLE.format("x ="), "Worked example", "SyntaxError"),
        ("## Mechanism\n", "## Mechanism\n", "Worked example", "must have an example that runs"),
    ],
)  # fmt: skip
def test_contradictions_references_and_examples(tmp_path, old, new, field, words):
    applies = "kernel_bound == 'memory' and target == 'cpu' and floor_share_ratio < 0.5"
    path = write_skill(tmp_path, applies=applies)
    text = path.read_text()
    if field != "Worked example":
        text = text.replace("## Worked example\nText.", EXAMPLE.format("assert edited"))
    assert old in text
    path.write_text(text.replace(old, new))
    found = lint([tmp_path], known={*KNOWN, "target"}, measured=MEASURED, values=VALUES, examples=True)
    assert [flaw.field for flaw in found] == [field], found
    assert words in found[0].rule


def test_an_example_that_runs_has_the_recipe_at_hand(tmp_path):
    path = write_skill(tmp_path)
    block = 'before = fused(calls(("a", "exp.default", ("x",))))\nassert edited(before).kernels[0].schedule.unroll == 2'
    path.write_text(path.read_text().replace("## Worked example\nText.", EXAMPLE.format(block)))
    assert lint([tmp_path], examples=True) == []


def test_a_missing_field_and_a_duplicate_id_are_found_beside_each_other(tmp_path):
    path = write_skill(tmp_path / "a", "broken")
    path.write_text(path.read_text().replace("source: this test\n", ""))
    write_skill(tmp_path / "a", "twin")
    write_skill(tmp_path / "b", "twin")
    found = lint([tmp_path / "a", tmp_path / "b"])
    assert [flaw.field for flaw in found] == ["card", "id"]
    assert "source: Field required" in str(found[0])
    assert "'twin' is already the id of" in str(found[1])
    assert str(tmp_path) in str(found[1])


def test_facts_that_no_card_reads(tmp_path):
    write_skill(tmp_path, applies="kernel_bound == 'memory' and rows > 4")
    assert unread_facts(read_cards([tmp_path]), {"rows", "kernel_bound", "share_ratio", "flops"}) == (
        "flops",
    )


def test_recipes_rules_and_told_facts_are_read(tmp_path):
    recipe = RECIPE_READING_FACTS
    write_skill(tmp_path, applies="kernel_bound == 'memory'", recipe=recipe)
    known = {"threads", "wrapper", "flops", "gathers"}
    assert unread_facts(read_cards([tmp_path]), known, told=["flops"]) == ("gathers",)


RECIPE_READING_FACTS = """
def propose(program, facts):
    return [] if facts.get("threads") else []


def apply(program, edit):
    return program
"""


@pytest.fixture(scope="module")
def bundled():
    return examine([BUNDLED])


def test_the_bundled_stock_has_no_flaw(bundled):
    assert bundled.flaws == ()
    assert bundled.skills >= 48
    assert bundled.executable >= 30


def test_most_sampled_bases_admit_a_skill_and_nearly_every_skill_is_admitted_there(bundled):
    assert len(bundled.coverage.never) <= 4
    assert bundled.coverage.without_ratio < 0.3
    assert "sampled bases" in str(bundled)


def test_a_fact_that_nothing_reads_is_a_flaw_of_the_stock():
    found = dead_facts(BUNDLED, read_cards([BUNDLED]), {*CATALOG, "colour"}, TOLD)
    assert [flaw.rule for flaw in found] == ["'colour' is a fact that nothing reads"]


def test_lint_is_deterministic(tmp_path):
    write_skill(tmp_path, applies="kernel_bound == 'memory' and rows > 9", conflicts="[nobody]")
    assert lint([tmp_path]) == lint([tmp_path]) != []
