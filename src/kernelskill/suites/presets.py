"""Rules of others, as settings, so that numbers can be set beside published ones."""

from __future__ import annotations

from kernelskill.errors import ConfigError
from kernelskill.records import Json

PRESETS: dict[str, dict[str, Json]] = {
    "paper": {"precision": "tf32", "tolerance": "kernelbench-v0"},
    "kernelbench": {"precision": "match", "tolerance": "kernelbench"},
}
"""Preset -> settings. `paper`: TF32 allowed and allclose at 1e-2, as KernelSkill (arXiv 2603.10085) and its peers
report; `kernelbench`: PyTorch's default flags and allclose at 1e-4 for fp32, as KernelBench has it since version 1."""


def preset_settings(name: str, given: dict[str, Json]) -> dict[str, Json]:
    """Settings of a preset; a flag that says otherwise is refused, as the name would promise what it is not.

    Raises:
        ConfigError: there is no such preset, or a flag contradicts it.
    """
    if not name:
        return {}
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
    for key, value in PRESETS[name].items():
        if given.get(key) not in (None, value):
            raise ConfigError(f"--preset {name} means --{key} {value}; --{key} {given[key]} contradicts it")
    return dict(PRESETS[name])
