"""Settings of models: file, then flags; what is missing is told before any work."""

import pytest

from kernelskill.config import load_config, require_model
from kernelskill.errors import ConfigError, KernelSkillError, MissingExtraError, ModelError, RunError

FILE = """
agents = ["expert", "llm"]
[llm]
model = "command:cat"
fallback = ["command:tac"]
[llm.roles]
optimizer = "command:head"
[llm.limits]
calls = 7
tokens = 1000
"""


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "k.toml").write_text(FILE)
    return tmp_path / "k.toml"


def test_flags_go_before_the_file_field_by_field(settings):
    config = load_config(settings, llm={"model": None, "limits": {"calls": 3, "usd": None}})
    assert config.agents == ("expert", "llm")
    assert (config.llm.model, config.llm.roles) == ("command:cat", {"optimizer": "command:head"})
    assert (config.llm.limits.calls, config.llm.limits.tokens, config.llm.limits.usd) == (3, 1000, None)
    require_model(config)


def test_the_expert_needs_no_model():
    config = load_config()
    assert config.agents == ("expert",)
    require_model(config)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"agents": ["wizard"]}, "agents"),
        ({"agents": []}, "agents"),
        ({"agents": ["llm", "llm"]}, "known are expert, llm, and expert,llm"),
        ({"agents": ["llm", "expert"]}, "cannot go on from what a model wrote"),
        ({"llm": {"modell": "x"}}, "llm.modell"),
        ({"llm": {"tries": 0}}, "llm.tries"),
        ({"llm": {"roles": {"painter": "x"}}}, "llm.roles"),
        ({"llm": {"limits": {"usd": -1}}}, "llm.limits.usd"),
    ],
)
def test_what_is_wrong_is_named(flags, said):
    with pytest.raises(ConfigError, match=said):
        load_config(**flags)


@pytest.mark.parametrize(
    ("llm", "error", "said"),
    [
        ({}, ConfigError, "--model"),
        ({"model": "somewhere"}, ConfigError, "PROVIDER:NAME"),
        ({"model": "command:cat", "limits": {"usd": 1}}, ConfigError, "no price is known of command:cat"),
        ({"model": "command:cat", "fallback": ["nobody:x"]}, ConfigError, "nobody:x"),
        (
            {"model": "command:cat", "roles": {"planner": "anthropic:x"}},
            KernelSkillError,
            "ANTHROPIC_API_KEY|kernelskill.llm",
        ),
        ({"model": "command:cat", "replay": "/no/such/run"}, RunError, "nothing to replay"),
        ({"model": "command:cat", "prices": "/no/such/file"}, ConfigError, "price file"),
    ],
)
def test_a_model_that_cannot_play_ends_it_before_it_begins(llm, error, said, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(error, match=said) as caught:
        require_model(load_config(agents=["llm"], llm=llm))
    assert isinstance(caught.value, ConfigError | ModelError | MissingExtraError | RunError)
