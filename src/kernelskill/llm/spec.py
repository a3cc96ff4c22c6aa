"""One string chooses a model: PROVIDER:NAME. What is wrong with it, or missing for it, is said before any work."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kernelskill.errors import ConfigError, ModelError

COMPATIBLE = "openai-compatible"
COMMAND = "command"


@dataclass(frozen=True)
class Provider:
    """A service, and what reaching it takes."""

    keys: tuple[str, ...] = ()
    """Environment variables that can hold its key; the first that is set counts."""
    url: str = ""
    """Where it listens, if it is an OpenAI-compatible server with a usual address."""
    url_variable: str = ""
    """Environment variable that moves it."""


PROVIDERS = {
    "openai": Provider(("OPENAI_API_KEY",), url_variable="OPENAI_BASE_URL"),
    "anthropic": Provider(("ANTHROPIC_API_KEY",), url_variable="ANTHROPIC_BASE_URL"),
    "google": Provider(("GOOGLE_API_KEY", "GEMINI_API_KEY"), url_variable="GOOGLE_BASE_URL"),
    "bedrock": Provider(("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE")),
    "vllm": Provider(url="http://localhost:8000/v1", url_variable="VLLM_BASE_URL"),
    "sglang": Provider(url="http://localhost:30000/v1", url_variable="SGLANG_BASE_URL"),
    "ollama": Provider(url="http://localhost:11434/v1", url_variable="OLLAMA_BASE_URL"),
    "llamacpp": Provider(url="http://localhost:8080/v1", url_variable="LLAMACPP_BASE_URL"),
    COMPATIBLE: Provider(),
    COMMAND: Provider(),
}
"""Local servers need no key; OPENAI_COMPATIBLE_API_KEY is sent to them where it is set."""
LOCAL_KEY = "OPENAI_COMPATIBLE_API_KEY"


@dataclass(frozen=True)
class ModelSpec:
    """A model and the way to it."""

    provider: str
    name: str
    """Name of the model; for `command` the command line."""
    url: str = ""
    """Base URL; "" = the provider's own."""

    @property
    def text(self) -> str:
        """The string that chooses it."""
        if self.provider == COMPATIBLE:
            return f"{COMPATIBLE}:{self.url}#{self.name}"
        return f"{self.provider}:{self.name}"

    @property
    def is_compatible(self) -> bool:
        """Whether an OpenAI-compatible server of the user's is asked."""
        return self.provider == COMPATIBLE or bool(PROVIDERS[self.provider].url)

    def key(self, environment: Mapping[str, str] = os.environ) -> str:
        """The key to send, read from the environment and kept nowhere.

        Raises:
            ModelError: it needs one, and none is set; the message names the variable.
        """
        names = PROVIDERS[self.provider].keys
        if not names:
            return environment.get(LOCAL_KEY, "")
        found = next((environment[name] for name in names if environment.get(name)), "")
        if not found:
            raise ModelError(
                f"model {self.text} needs a key: set {' or '.join(names)}. No other model is used in its place"
            )
        return found


def read_spec(text: str, environment: Mapping[str, str] = os.environ) -> ModelSpec:
    """A model from its string.

    Raises:
        ConfigError: it is not PROVIDER:NAME of a known provider, or carries a password.
    """
    provider, colon, name = text.strip().partition(":")
    if provider not in PROVIDERS or not colon or not name:
        raise ConfigError(
            f"model {text!r} must be PROVIDER:NAME with one of {', '.join(PROVIDERS)}; "
            f"e.g. anthropic:NAME, {COMPATIBLE}:http://localhost:8000/v1#NAME, {COMMAND}:PROGRAM"
        )
    if provider != COMPATIBLE:
        known = PROVIDERS[provider]
        return ModelSpec(provider, name, environment.get(known.url_variable) or known.url)
    url, _, model = name.partition("#")
    if not re.match(r"https?://[^/]", url) or not model:
        raise ConfigError(f"model {text!r} must be {COMPATIBLE}:http://HOST:PORT/v1#NAME")
    if "@" in url.split("//", 1)[1].split("/", 1)[0]:
        raise ConfigError(f"a model's address must hold no password; set {LOCAL_KEY} instead")
    return ModelSpec(provider, model, url)
