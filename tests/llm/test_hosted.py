"""Providers over real HTTP: what arrives, what is refused, what is cut, what never comes."""

import asyncio

import pytest
from scripted_server import ScriptedServer, Turn

pytest.importorskip("pydantic_ai", reason="the extra llm is not installed")

from kernelskill.errors import ModelError
from kernelskill.llm.hosted import HostedModel
from kernelskill.llm.model import Ask, SettingRefused, Transient
from kernelskill.llm.spec import read_spec
from kernelskill.records.model import Finish, Message, Usage

TALK = (
    Message(role="system", text="be brief"),
    Message(role="user", text="first question"),
    Message(role="assistant", text="first answer"),
    Message(role="user", text="second question"),
)


@pytest.fixture(params=["openai", "anthropic"])
def speak(request, monkeypatch):
    """A model of each protocol that leads to a server."""

    def model(server):
        if request.param == "openai":
            return HostedModel(read_spec(server.openai))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-scripted")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        return HostedModel(read_spec("anthropic:claude-scripted"))

    return model


def served(turn):
    return ScriptedServer(lambda number, request: turn)


def test_a_conversation_arrives_whole_and_the_reply_is_counted(speak):
    with served(Turn("hello", input_tokens=12, output_tokens=3)) as server:
        reply = speak(server).complete(TALK, Ask(max_tokens=77, timeout_s=30))
    assert (reply.text, reply.finish) == ("hello", Finish.STOP)
    assert reply.usage == Usage(input_tokens=12, output_tokens=3)
    (request,) = server.requests
    assert request["body"]["max_tokens"] == 77
    assert [message["role"] for message in request["body"]["messages"]][-3:] == ["user", "assistant", "user"]
    for message in TALK:
        assert message.text in request["prompt"]


@pytest.mark.parametrize(
    ("turn", "finish"),
    [
        (Turn("half of", finish="length"), Finish.LENGTH),
        (Turn("", finish="length"), Finish.LENGTH),
        (Turn(""), Finish.EMPTY),
        (Turn("", reasoning="hm", finish="length"), Finish.REASONING),
        (Turn("", reasoning="hm"), Finish.REASONING),
        (Turn("answer", reasoning="hm"), Finish.STOP),
    ],
)
def test_cut_empty_and_thought_only_replies_are_told_apart(speak, turn, finish):
    with served(turn) as server:
        assert speak(server).complete(TALK, Ask(100, 30)).finish is finish


def test_a_busy_server_says_how_long_to_wait_and_is_not_asked_again_unseen(speak):
    with served(Turn(status=429, headers={"retry-after": "7"})) as server, pytest.raises(Transient) as caught:
        speak(server).complete(TALK, Ask(100, 30))
    assert caught.value.retry_after_s == 7
    assert not caught.value.may_be_billed
    assert len(server.requests) == 1


def test_a_broken_server_is_transient(speak):
    with served(Turn(status=500)) as server, pytest.raises(Transient):
        speak(server).complete(TALK, Ask(100, 30))


def test_a_silent_server_ends_at_the_deadline_and_may_have_charged(speak):
    with served(Turn(hang=True)) as server, pytest.raises(Transient) as caught:
        speak(server).complete(TALK, Ask(100, 0.5))
    assert caught.value.may_be_billed


def test_nobody_listening_is_transient(speak):
    with served(Turn("x")) as server:
        model = speak(server)
    with pytest.raises(Transient, match="cannot be reached"):
        model.complete(TALK, Ask(100, 5))


def test_a_wrong_key_is_not_tried_again(speak):
    with served(Turn(status=401)) as server, pytest.raises(ModelError, match="key is refused") as caught:
        speak(server).complete(TALK, Ask(100, 30))
    assert not isinstance(caught.value, Transient)


def test_a_refused_temperature_has_a_name_of_its_own(speak):
    refusal = Turn(status=400, error="temperature is not supported with this model")
    with served(refusal) as server, pytest.raises(SettingRefused):
        speak(server).complete(TALK, Ask(100, 30, temperature=0.7))
    assert server.requests[0]["body"]["temperature"] == 0.7


def test_it_works_where_a_loop_is_running_already(speak):
    async def notebook(model):
        return model.complete(TALK, Ask(100, 30))

    with served(Turn("hello")) as server:
        assert asyncio.run(notebook(speak(server))).text == "hello"


@pytest.mark.parametrize(
    ("text", "package", "environment"),
    [
        ("openai:gpt-4o", "openai", {"OPENAI_API_KEY": "k"}),
        ("google:gemini-2.5-pro", "google.genai", {"GOOGLE_API_KEY": "k"}),
        (
            "bedrock:anthropic.claude-v2",
            "boto3",
            {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_DEFAULT_REGION": "us-east-1"},
        ),
    ],
)
def test_every_provider_can_be_built(text, package, environment, monkeypatch):
    pytest.importorskip(package, reason="the provider's extra is not installed")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    model, _ = HostedModel(read_spec(text))._client()
    assert model.model_name == text.partition(":")[2]
