"""A preset is a promise of settings; nothing may quietly change what it says."""

import pytest

from kernelskill.config import load_config
from kernelskill.errors import ConfigError
from kernelskill.suites.presets import PRESETS, preset_settings


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_made_of_settings_that_there_are(name):
    config = load_config(**preset_settings(name, {}))
    assert {key: getattr(config, key) for key in PRESETS[name]} == PRESETS[name]


def test_what_agrees_is_accepted_and_what_contradicts_is_refused():
    assert preset_settings("paper", {"precision": "tf32", "tolerance": None}) == PRESETS["paper"]
    with pytest.raises(ConfigError, match="--precision match contradicts"):
        preset_settings("paper", {"precision": "match"})


def test_an_unknown_preset_names_the_known():
    with pytest.raises(ConfigError, match="known: paper, kernelbench"):
        preset_settings("papers", {})
