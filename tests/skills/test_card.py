"""Cards are checked at the door: file, field, value and rule."""

import pytest
from skill_examples import write_skill

from kernelskill.errors import SkillError
from kernelskill.skills import read_card, read_cards


def test_a_good_card_is_read_whole(tmp_path):
    card = read_card(write_skill(tmp_path, conflicts="[other]"))
    assert (card.id, card.kind, card.conflicts) == ("do-it", "micro", ("other",))
    assert card.condition.names == ("kernel_bound",)
    assert card.executable
    assert card.section("Steps") == "Text."
    assert not read_card(write_skill(tmp_path, "other", recipe=None)).executable


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("kind: micro", "kind: mikro", "kind: 'mikro': Input should be 'structural', 'micro' or 'knowledge'"),
        ("kind: micro", "", "kind: Field required"),
        ("title: An example", "title: An example\ntitel: x", "titel: 'x': Extra inputs are not permitted"),
        ("title: An example", "title: An example\ntitle: x", "title is given twice"),
        (
            "bottlenecks: [memory-bandwidth]",
            "bottlenecks: [memory]",
            "bottlenecks: ['memory']: 'memory' is not one of",
        ),
        ("structures: []", "structures: [norm]", "'norm' is not one of map, reduce"),
        ("targets: [cpu]", "targets: [tpu]", "targets.0: 'tpu'"),
        ("tiers: [high, medium, low]", "tiers: []", "tiers: "),
        ("prior_log_speedup: 0.3", "prior_log_speedup: -1", "expected_gain.prior_log_speedup: -1"),
        ("applies: kernel_bound == 'memory'", "applies: kernel_bound = 'memory'", "applies, column 1"),
        ("applies: kernel_bound == 'memory'", "applies: rows < len(x)", "applies, column 8"),
        ("conflicts: []", "conflicts: [do-it]", "cannot conflict with itself"),
        ("name: do-it", "name: do-that", "name 'do-that' must equal id 'do-it'"),
        ("id: do-it", "id: do_it", "id: 'do_it': String should match"),
        ("## Steps\nText.", "## Steps\n", "body: section 'Steps' must exist and have text"),
        ("## When not to", "## When to", "section 'When not to'"),
        ("---\nname", "name", "must begin with front matter"),
        ("hazards: [none", "hazards: [[none", "front matter is not YAML"),
        ("source: this test", "source: this test\nbody: x", "body: is not a field"),
    ],
)
def test_each_fault_is_named(tmp_path, old, new, words):
    path = write_skill(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(SkillError) as error:
        read_card(path)
    assert str(error.value).startswith(str(path))
    assert words in str(error.value)


def test_front_matter_must_be_a_mapping_and_text(tmp_path):
    path = write_skill(tmp_path)
    path.write_text("---\n- a\n- b\n---\nbody\n")
    with pytest.raises(SkillError, match="must be a mapping of fields, it is list"):
        read_card(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SkillError, match="cannot be read"):
        read_card(path)


def test_the_folder_is_named_as_the_id(tmp_path):
    path = write_skill(tmp_path)
    moved = tmp_path / "elsewhere"
    path.parent.rename(moved)
    with pytest.raises(SkillError, match="the folder must be named do_it, it is elsewhere"):
        read_card(moved / "SKILL.md")


def test_ids_are_unique_and_conflicts_exist(tmp_path):
    write_skill(tmp_path / "a")
    write_skill(tmp_path / "b")
    assert len(read_cards([tmp_path / "a"])) == 1
    with pytest.raises(SkillError, match="already the id of"):
        read_cards([tmp_path / "a", tmp_path / "b"])
    write_skill(tmp_path / "c", "third", conflicts="[nobody]")
    with pytest.raises(SkillError, match="conflicts: 'nobody': no skill has this id"):
        read_cards([tmp_path / "c"])
    with pytest.raises(SkillError, match="does not exist"):
        read_cards([tmp_path / "d"])
    (tmp_path / "e").mkdir()
    with pytest.raises(SkillError, match="holds no skill"):
        read_cards([tmp_path / "e"])
