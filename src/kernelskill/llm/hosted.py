"""Models behind an API: OpenAI, Anthropic, Google, Bedrock, and any OpenAI-compatible server, through pydantic-ai.

Its clients' own retries are off, so that each request is counted, and every error becomes one of our three.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kernelskill.errors import MissingExtraError, ModelError
from kernelskill.llm.model import Ask, SettingRefused, Transient
from kernelskill.llm.spec import ModelSpec
from kernelskill.records.model import Finish, Message, Reply, Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse

PACKAGES = {"anthropic": "anthropic", "google": "google.genai", "bedrock": "boto3"}
EXTRAS = {"google": "google", "bedrock": "bedrock"}
BUSY = frozenset({408, 409, 425, 429})
"""HTTP codes below 500 after which asking again may help."""


class HostedModel:
    """Implements `Model`. A client lives for one call, so that calls from several threads share nothing."""

    def __init__(self, spec: ModelSpec) -> None:
        self.name = spec.text
        self._spec = spec
        package = PACKAGES.get(spec.provider, "openai")
        if not (_is_installed("pydantic_ai") and _is_installed(package)):
            extra = EXTRAS.get(spec.provider, "llm")
            raise MissingExtraError(f"model {self.name} needs: pip install 'kernelskill[{extra}]'")
        spec.key()

    def complete(self, messages: Sequence[Message], ask: Ask) -> Reply:
        """One request."""
        from pydantic_ai import exceptions

        speaker = self._client()  # loads its packages, which is not the server's time
        began = time.monotonic()
        try:
            answer = _run(asyncio.wait_for(_request(speaker, messages, ask), ask.timeout_s))
        except (TimeoutError, exceptions.ModelTimeoutError, exceptions.ModelRequestTimeout) as error:
            raise Transient(f"{self.name}: no answer in {ask.timeout_s:.0f} s", may_be_billed=True) from error
        except exceptions.ModelHTTPError as error:
            raise self._explained(error, ask) from error
        except exceptions.ModelAPIError as error:
            raise Transient(f"{self.name}: cannot be reached: {_short(error)}") from error
        except exceptions.UnexpectedModelBehavior as error:
            raise Transient(
                f"{self.name}: the reply is not understood: {_short(error)}", may_be_billed=True
            ) from error
        return self._read(answer, time.monotonic() - began)

    def _client(self) -> tuple[Any, Any]:
        """A model of pydantic-ai, and the client below it that has to be closed."""
        spec, key = self._spec, self._spec.key()
        if spec.provider == "anthropic":
            from anthropic import AsyncAnthropic
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            speaker = AsyncAnthropic(api_key=key, base_url=spec.url or None, max_retries=0)
            return AnthropicModel(spec.name, provider=AnthropicProvider(anthropic_client=speaker)), speaker
        if spec.provider == "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(
                spec.name, provider=GoogleProvider(api_key=key, base_url=spec.url or None)
            ), None
        if spec.provider == "bedrock":
            from pydantic_ai.models.bedrock import BedrockConverseModel
            from pydantic_ai.providers.bedrock import BedrockProvider

            return BedrockConverseModel(spec.name, provider=BedrockProvider()), None
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.profiles.openai import OpenAIModelProfile
        from pydantic_ai.providers.openai import OpenAIProvider

        client = AsyncOpenAI(api_key=key or "none", base_url=spec.url or None, max_retries=0)
        # Servers of one's own know the older name of the cap; one that they ignore would be no cap.
        profile = (
            OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
            if spec.is_compatible
            else None
        )
        return OpenAIChatModel(
            spec.name, provider=OpenAIProvider(openai_client=client), profile=profile
        ), client

    def _explained(self, error: Any, ask: Ask) -> ModelError:
        """An HTTP error as one of ours."""
        said = _short(error)
        if error.status_code in BUSY or error.status_code >= 500:
            return Transient(f"{self.name}: {said}", error.retry_after)
        if error.status_code in (401, 403):
            return ModelError(f"{self.name}: the key is refused ({error.status_code}): {said}")
        if ask.temperature is not None and "temperature" in said.lower():
            return SettingRefused(f"{self.name} takes no temperature: {said}")
        return ModelError(f"{self.name}: {said}")

    def _read(self, answer: ModelResponse, seconds: float) -> Reply:
        texts = [part.content for part in answer.parts if part.part_kind == "text"]
        thought = any(part.part_kind == "thinking" for part in answer.parts)
        text, usage = "\n".join(texts), answer.usage
        counted = usage.input_tokens > 0 or usage.output_tokens > 0
        reasoning = usage.output_reasoning_tokens or 0
        return Reply(
            text=text,
            finish=_finish(answer.finish_reason, text, thought or reasoning > 0),
            model=answer.model_name or self.name,
            usage=Usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cache_read_tokens,
                reasoning_tokens=reasoning,
            )
            if counted
            else None,
            seconds=seconds,
        )


def _run(work: Coroutine[Any, Any, ModelResponse]) -> ModelResponse:
    """Run to the end, also where a loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


async def _request(speaker: tuple[Any, Any], messages: Sequence[Message], ask: Ask) -> ModelResponse:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    settings = ModelSettings(max_tokens=ask.max_tokens, timeout=ask.timeout_s)
    if ask.temperature is not None:
        settings["temperature"] = ask.temperature
    model, client = speaker
    try:
        answer: ModelResponse = await model.request(_history(messages), settings, ModelRequestParameters())
        return answer
    finally:
        if client is not None:
            await client.close()


def _finish(reason: str | None, text: str, thought: bool) -> Finish:
    """Why a reply ended. A cut or missing answer is told apart before anyone reads it as code."""
    if reason == "content_filter":
        return Finish.FILTERED
    if not text.strip():
        return Finish.REASONING if thought else Finish.LENGTH if reason == "length" else Finish.EMPTY
    return Finish.LENGTH if reason == "length" else Finish.STOP


def _history(messages: Sequence[Message]) -> list[ModelMessage]:
    """Our messages as pydantic-ai's: what is said between two answers is one request."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    history: list[ModelMessage] = []
    parts: list[Any] = []
    for message in messages:
        if message.role == "assistant":
            history += [ModelRequest(parts=parts), ModelResponse(parts=[TextPart(content=message.text)])]
            parts = []
        else:
            kind = SystemPromptPart if message.role == "system" else UserPromptPart
            parts.append(kind(content=message.text))
    return [*history, ModelRequest(parts=parts)]


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False
