"""Settings -> access to models. Keys, extras and prices are checked here, before any work is spent."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from kernelskill.errors import ConfigError, RunError
from kernelskill.llm.access import ModelAccess, Priced
from kernelskill.llm.calls import FOLDER, CallFolder
from kernelskill.llm.command import CommandModel
from kernelskill.llm.hosted import HostedModel
from kernelskill.llm.model import Ask, Model
from kernelskill.llm.prices import PriceTable
from kernelskill.llm.spec import COMMAND, ModelSpec, read_spec
from kernelskill.records.model import ModelSettings, Reply, Role


def open_access(settings: ModelSettings, folder: Path | None) -> ModelAccess:
    """Access for one run.

    Args:
        settings: which models, how much.
        folder: of the run; calls are recorded in its folder `llm`. None records nothing: for a check beforehand.

    Raises:
        ConfigError: no model is named, a name is wrong, or a limit in dollars meets a model without a price.
        ModelError: a key is missing; the message names it.
        MissingExtraError: the provider's package is not installed.
        RunError: the run to replay has no recorded calls.
    """
    calls = CallFolder(None if folder is None else folder / FOLDER)
    roles: tuple[Role, ...] = get_args(Role)
    if settings.replay is not None:
        recorded = settings.replay / FOLDER
        if not any(recorded.glob("*.json")):
            raise RunError(f"{settings.replay} recorded no model calls, so there is nothing to replay")
        stand_in = Priced(_Replayed(settings.model or f"replay:{settings.replay.name}"), None)
        return ModelAccess({role: (stand_in,) for role in roles}, settings, calls, CallFolder(recorded))
    if not settings.model:
        raise ConfigError("language-model agents need a model: --model PROVIDER:NAME (see docs/models.md)")
    table = PriceTable(settings.prices)
    built: dict[str, Priced] = {}

    def priced(text: str) -> Priced:
        if text not in built:
            spec = read_spec(text)
            built[text] = Priced(build_model(spec), table.find(spec))
        return built[text]

    chosen = {role: settings.roles.get(role, settings.model) for role in roles}
    models = {role: tuple(map(priced, (first, *settings.fallback))) for role, first in chosen.items()}
    return ModelAccess(models, settings, calls)


def build_model(spec: ModelSpec) -> Model:
    """The way to one model."""
    return CommandModel(spec.name) if spec.provider == COMMAND else HostedModel(spec)


class _Replayed:
    """Stands where a model would, so that its name can be told; it is never asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, messages: object, ask: Ask) -> Reply:
        raise AssertionError("a replayed run asks no model")
