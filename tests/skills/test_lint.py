"""One planted fault of each kind is found, and the bundled stock has none."""

import pytest
from skill_examples import MEASURED, write_skill

from kernelskill.features import CATALOG
from kernelskill.skills import lint, read_cards
from kernelskill.skills.library import BUNDLED
from kernelskill.skills.lint import unread_facts

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
        ({"applies": "kernel_bound == 'memory'", "bottlenecks": "[compute]"}, "bottlenecks", "unreachable"),
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


def test_the_bundled_stock_is_sound_but_for_recipes():
    values = {
        **VALUES,
        "kernel_kind": ("map", "reduce", "row", "strided", "scan", "pool"),
        "vector_bits_used": (0, 128, 256, 512),
    }
    found = [flaw for flaw in lint([BUNDLED], measured=MEASURED, values=values) if flaw.field != "recipe.py"]
    assert found == []


def test_lint_is_deterministic():
    assert lint([BUNDLED]) == lint([BUNDLED])


def test_bundled_cards_read_only_facts_that_exist():
    assert lint([BUNDLED], known=set(CATALOG)) == []
