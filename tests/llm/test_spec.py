import pytest

from kernelskill.errors import ConfigError, ModelError
from kernelskill.llm.spec import PROVIDERS, read_spec


@pytest.mark.parametrize(
    ("text", "provider", "name", "url"),
    [
        ("openai:gpt-9", "openai", "gpt-9", ""),
        ("anthropic:claude-9", "anthropic", "claude-9", ""),
        ("bedrock:us.vendor.model-v1:0", "bedrock", "us.vendor.model-v1:0", ""),
        ("ollama:qwen:7b", "ollama", "qwen:7b", "http://localhost:11434/v1"),
        ("openai-compatible:http://gpu1:8000/v1#org/model", "openai-compatible", "org/model", "http://gpu1:8000/v1"),
        ("command:./prog --flag 'a b'", "command", "./prog --flag 'a b'", ""),
    ],
)  # fmt: skip
def test_one_string_chooses(text, provider, name, url):
    spec = read_spec(text, {})
    assert (spec.provider, spec.name, spec.url) == (provider, name, url)
    assert spec.text == text


@pytest.mark.parametrize(
    "text",
    ["gpt-9", "openai:", "nobody:x", "", "openai-compatible:gpu1#m", "openai-compatible:http://h/v1",
     "openai-compatible:http://user:password@h/v1#m"],
)  # fmt: skip
def test_what_is_wrong_is_refused_and_told(text):
    with pytest.raises(ConfigError) as caught:
        read_spec(text, {})
    assert "password@" not in str(caught.value)


def test_an_unknown_provider_lists_the_known():
    with pytest.raises(ConfigError, match="anthropic, google"):
        read_spec("nobody:x")


@pytest.mark.parametrize("provider", [name for name, entry in PROVIDERS.items() if entry.keys])
def test_a_missing_key_is_named(provider):
    spec = read_spec(f"{provider}:model", {})
    with pytest.raises(ModelError) as caught:
        spec.key({})
    assert all(name in str(caught.value) for name in PROVIDERS[provider].keys)
    assert spec.key({PROVIDERS[provider].keys[-1]: "k"}) == "k"


def test_local_servers_need_no_key_and_move_by_variable():
    assert read_spec("vllm:m", {}).key({}) == ""
    assert read_spec("vllm:m", {"VLLM_BASE_URL": "http://other/v1"}).url == "http://other/v1"
