"""Skills of installed packages and of the user's folders come in by the same door."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from skill_examples import write_skill

from kernelskill.errors import SkillError
from kernelskill.skills import ExpertLibrary
from kernelskill.skills.sources import BUNDLED, GROUP, folders, installed


def point(value, name="mine"):
    return EntryPoint(name=name, value=value, group=GROUP)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable package that holds one skill, and names its folder."""
    home = tmp_path / "offered_skills"
    write_skill(home, "offered")
    (home / "__init__.py").write_text("from pathlib import Path\nHERE = Path(__file__).parent\nNUMBER = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield home
    sys.modules.pop("offered_skills", None)


def test_a_module_or_a_path_names_the_folder(package):
    assert installed([point("offered_skills"), point("offered_skills:HERE", "also")]) == (package, package)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("offered_skills:NUMBER", "must be a package or the path of a folder, it is 3"),
        ("no_such_package", "cannot be loaded: ModuleNotFoundError"),
        ("offered_skills:GONE", "cannot be loaded: AttributeError"),
    ],
)
def test_a_bad_entry_point_is_named(package, value, words):
    with pytest.raises(SkillError, match="entry point mine") as error:
        installed([point(value)])
    assert words in str(error.value)


def test_a_really_installed_package_is_found(package, tmp_path):
    info = tmp_path / "offered_skills-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered-skills\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = offered_skills\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom kernelskill.skills import ExpertLibrary\n"
    )
    code += "print(ExpertLibrary(None).card('offered').path)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(package / "offered" / "SKILL.md")


def test_folders_are_bundled_first_and_the_users_last(tmp_path):
    assert folders((tmp_path,))[0] == BUNDLED
    assert folders((tmp_path,))[-1] == tmp_path


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        (("kind: micro", "kind: magic"), "kind", "'structural', 'micro' or 'knowledge'"),
        (("title: An example\n", ""), "title", "Field required"),
        (("prior_log_speedup: 0.3", "prior_log_speedup: 9"), "expected_gain.prior_log_speedup", "less than or equal to 3"),
        (("## Steps\n", "## Stepps\n"), "body", "section 'Steps' must exist"),
        (("applies: kernel_bound == 'memory'", "applies: kernel_bound = 'memory'"), "applies", "column"),
        (("prior_log_speedup: 0.3", "prior_log_speedup: 0.3\n  at_most: '1 +'"), "at_most", "column"),
    ],
)  # fmt: skip
def test_the_door_names_file_field_and_rule(tmp_path, change, field, rule):
    path = write_skill(tmp_path / "mine")
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(SkillError) as error:
        ExpertLibrary(None, extra=[tmp_path / "mine"])
    for words in (str(path), field, rule):
        assert words in str(error.value)
