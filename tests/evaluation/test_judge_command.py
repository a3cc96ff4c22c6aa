"""The command line of the judge: seeds, choices and exit codes."""

import json

import pytest
from typer.testing import CliRunner

from kernelskill.cli import app
from kernelskill.cli.judge import seed_of
from kernelskill.errors import ConfigError

SEED = "0123456789abcdef" * 4


def test_a_seed_is_given_by_its_digits_or_by_an_evaluation(tmp_path):
    assert seed_of(None) == ""
    assert seed_of(SEED) == SEED
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({"status": "wrong-values", "seed": SEED}))
    assert seed_of(str(path)) == SEED


@pytest.mark.parametrize("given", ["12", SEED[:-1] + "g", SEED.upper(), "nowhere.json"])
def test_what_is_no_seed_is_told(given):
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        seed_of(given)


def test_a_file_without_a_seed_is_told(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("[1]")
    with pytest.raises(ConfigError, match="holds no evaluation with a seed"):
        seed_of(str(path))


def test_a_choice_of_unknown_cases_ends_with_two_and_the_known_groups():
    done = CliRunner().invoke(app, ["judge", "selftest", "--only", "nothing"])
    assert done.exit_code == 2
    assert "replay" in done.stderr


@pytest.mark.slow
def test_the_table_and_the_document_tell_the_verdict():
    done = CliRunner().invoke(app, ["judge", "selftest", "--only", "untestable-fixed", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["machine"]["torch_version"]
    assert document["counts"] == {"cheats": 1, "credited": 0, "controls": 0, "refused": 0, "not_played": 0}
    assert document["cases"][0]["verdict"] == "untestable"
    assert document["cases"][0]["detail"]
