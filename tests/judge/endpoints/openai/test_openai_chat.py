from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from judge.chat import ChatMessage, ChatRequest, ResponseSchema
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.payloads import RequestWriter, ResponseFormat
from judge.errors import (
    EventError,
    InvalidVerdictError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
)
from schemas import Usage
from tests.judge.endpoints.openai.chats import KEY, chat_with
from tests.judge.fake_openai import Answer, completion

ASK = ChatRequest(messages=(ChatMessage("system", "Judge."), ChatMessage("user", "Ü 😀")))


async def test_a_call_sends_the_conversation_and_reads_the_reply() -> None:
    """A call posts the OpenAI request body and returns text, model and usage."""
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}}
    request = ChatRequest(
        messages=ASK.messages,
        response_schema=ResponseSchema("v", {"type": "object"}),
        max_output_tokens=77,
        parameters={"temperature": 0, "seed": 1},
    )
    async with chat_with(Answer(completion("text", usage=usage))) as (chat, fake):
        replies = [await chat.complete(request) for _ in range(2)]
    assert replies[0].text == "text"
    assert replies[0].model == "fake-1"
    assert replies[0].usage == Usage(input_tokens=9, cached_tokens=6, output_tokens=4)
    assert replies[0].seconds > 0
    assert fake.headers[0]["authorization"] == f"Bearer {KEY}"
    assert fake.headers[0]["content-type"] == "application/json"
    assert (
        fake.requests
        == [
            {
                "model": "m-1",
                "messages": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Ü 😀"}],
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "v", "strict": True, "schema": {"type": "object"}},
                },
                "max_tokens": 77,
                "temperature": 0,
                "seed": 1,
            }
        ]
        * 2
    )


async def test_without_a_schema_nothing_is_said_of_the_format() -> None:
    async with chat_with() as (chat, fake):
        await chat.complete(ASK)
    assert "response_format" not in fake.requests[0]


def test_openai_itself_is_given_max_completion_tokens() -> None:
    writer = RequestWriter(endpoint="e", model="m", host="api.openai.com")
    assert "max_completion_tokens" in json.loads(writer.write(ASK, ResponseFormat.PLAIN))
    own = ChatRequest(messages=ASK.messages, parameters={"max_tokens": 5})
    assert json.loads(writer.write(own, ResponseFormat.PLAIN)).get("max_completion_tokens") is None


async def test_a_key_in_the_environment_is_not_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint without a key does not get `OPENAI_API_KEY`."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    async with chat_with(api_key="") as (chat, fake):
        await chat.complete(ASK)
    assert "sk-" not in fake.headers[0]["authorization"]


async def test_a_proxy_of_the_environment_is_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with chat_with() as (chat, _):
        await chat.complete(ASK)


@pytest.mark.parametrize(
    ("answer", "text", "usage"),
    [
        (Answer(completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])), "ab", Usage()),
        (Answer(completion(None)), "", Usage()),
        (Answer(completion("x", usage={"prompt_tokens": "many"})), "x", Usage()),
        (
            Answer(completion("x", usage={"prompt_tokens": 3, "prompt_tokens_details": None})),
            "x",
            Usage(input_tokens=3),
        ),
        (Answer(completion("a\ud800b")), "a\ufffdb", Usage()),
        (Answer(completion("x", finish_reason=None)), "x", Usage()),
    ],
)
async def test_odd_but_readable_replies_are_read(answer: Answer, text: str, usage: Usage) -> None:
    """Content parts, missing content, invalid usage, lone surrogates and gzip are read."""
    async with chat_with(answer) as (chat, _):
        reply = await chat.complete(ASK)
    assert reply.text == text
    assert reply.usage == usage


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        (Answer(completion(None, refusal="I will not")), "content_refused"),
        (Answer(completion("x", finish_reason="content_filter")), "content_refused"),
        (Answer(completion('{"sco', finish_reason="length")), "reply_cut"),
        (Answer(b'{"error": {"code": "content_filter"}}', status=400), "content_refused"),
        (Answer(b'{"error": {"code": "context_length_exceeded"}}', status=400), "context_too_long"),
        (Answer(b"too large", status=413), "context_too_long"),
        (Answer(b"", status=422), "rejected_request"),
    ],
)
async def test_an_error_of_one_request_is_an_event_error(answer: Answer, error_type: str) -> None:
    """A refusal, filter, cut or rejection of one request raises `EventError` with its type."""
    async with chat_with(answer) as (chat, _):
        with pytest.raises(EventError) as caught:
            await chat.complete(ASK)
    assert caught.value.error_type == error_type


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(b"<html>Bad gateway</html>", status=502), "502"),
        (Answer(b"<html>Login</html>", headers={"Content-Type": "text/html"}), "not a chat completion"),
        (Answer(b'{"choices": []}'), "not a chat completion"),
        (Answer(b'{"choices": [{"text": "old"}]}'), "not a chat completion"),
        (Answer(b"[" * 3_000), "not a chat completion"),
        (Answer(b""), "not a chat completion"),
        (Answer(b"\xff\xfe"), "not a chat completion"),
        (Answer(b'{"error": {"message": "overloaded", "code": 503}}'), "answered 503"),
        (Answer(b'{"error": {"message": "later"}, "choices": []}'), "answered 502"),
        (Answer(drop=True), "closed the connection"),
        (Answer(b"x" * 5_000, status=500), "larger than 4096 bytes"),
        (Answer(completion("x"), headers={"Content-Length": "1000"}), "primary"),
    ],
)
async def test_an_outage_is_unavailable(answer: Answer, words: str) -> None:
    """Server errors, bodies that are no completion and broken connections raise `JudgeUnavailableError`."""
    async with chat_with(answer, max_reply_bytes=4096, timeout_seconds=1) as (chat, _):
        with pytest.raises(JudgeUnavailableError, match=words):
            await chat.complete(ASK)


async def test_a_success_of_absurd_size_fails_this_event_alone() -> None:
    """A successful reply above the size limit is an `InvalidVerdictError`, which is not retried."""
    async with chat_with(Answer(b"x" * 5_000), max_reply_bytes=4096) as (chat, _):
        with pytest.raises(InvalidVerdictError, match="larger than 4096 bytes"):
            await chat.complete(ASK)


@pytest.mark.parametrize("answer", [Answer(hang=True), Answer(drip_seconds=0.02)])
async def test_the_whole_call_is_bounded(answer: Answer) -> None:
    """The time limit ends a call that hangs or drips; the client stays usable."""
    async with chat_with(answer, Answer(), timeout_seconds=0.3) as (chat, _):
        with pytest.raises(JudgeUnavailableError, match=r"within 0\.3 s"):
            await chat.complete(ASK)
        chat._timeout_seconds = 30.0
        assert (await chat.complete(ASK)).text == '{"score": 5}'


async def test_the_wait_that_a_rate_limit_asks_for_is_passed_on() -> None:
    """The error of a 429 carries the `Retry-After` seconds."""
    async with chat_with(Answer(b"{}", status=429, headers={"Retry-After": "7"})) as (chat, _):
        with pytest.raises(JudgeUnavailableError) as caught:
            await chat.complete(ASK)
    assert caught.value.retry_after_seconds == 7.0


async def test_a_closed_port_is_unavailable() -> None:
    """A refused connection raises `JudgeUnavailableError`, which names the endpoint."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        chat = OpenAIChat(endpoint="spare", model="m", base_url=f"http://127.0.0.1:{port}/v1")
        with pytest.raises(JudgeUnavailableError, match="spare"):
            await chat.complete(ASK)
        await chat.close()


async def test_too_few_file_descriptors_are_named(request: pytest.FixtureRequest) -> None:
    """An endpoint for which no socket is left is not reported as down."""
    async with chat_with(Answer(b"{}")) as (chat, fake):
        request.getfixturevalue("no_descriptors")
        with pytest.raises(JudgeUnavailableError, match="cannot be asked: this process has too many open"):
            await chat.complete(ASK)
    assert fake.requests == []


@pytest.mark.parametrize("status", [302, 401, 403, 404])
async def test_configuration_errors_name_the_endpoint_and_never_the_key(status: int) -> None:
    """The error names endpoint and status; it hides the key even if the server quotes it."""
    body = json.dumps({"error": {"message": f"wrong key {KEY}"}}).encode()
    async with chat_with(Answer(body, status=status, headers={"Location": "/elsewhere"})) as (chat, fake):
        with pytest.raises(JudgeConfigurationError, match=f"primary answered {status}") as caught:
            await chat.complete(ASK)
    assert KEY not in str(caught.value)
    assert len(fake.requests) == 1


async def test_a_cancelled_call_stays_cancelled_and_frees_its_connection() -> None:
    async with chat_with(Answer(hang=True), Answer(), max_connections=1) as (chat, fake):
        call = asyncio.create_task(chat.complete(ASK))
        async with asyncio.timeout(5):
            await fake.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await chat.complete(ASK)).text == '{"score": 5}'


async def test_lone_surrogates_are_replaced_before_sending() -> None:
    async with chat_with() as (chat, fake):
        await chat.complete(ChatRequest(messages=(ChatMessage("user", "a\ud800b"),)))
    assert fake.requests[0]["messages"][0]["content"] == "a\ufffdb"


USED = {"prompt_tokens": 9, "completion_tokens": 4}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (completion('{"sco', finish_reason="length", usage=USED), EventError),
        (completion("x", finish_reason="content_filter", usage=USED), EventError),
        (completion(None, refusal="I will not", usage=USED), EventError),
        (json.dumps({"choices": [], "usage": USED}).encode(), JudgeUnavailableError),
        (
            json.dumps({"error": {"code": 503, "message": "busy"}, "usage": USED}).encode(),
            JudgeUnavailableError,
        ),
    ],
)
async def test_the_error_of_an_unusable_reply_carries_its_usage(body: bytes, error: type[Exception]) -> None:
    """A cut, filtered, refused or empty reply and an error body keep their usage: 9 tokens in, 4 out."""
    async with chat_with(Answer(body)) as (chat, _):
        with pytest.raises(error) as raised:
            await chat.complete(ASK)
    assert isinstance(raised.value, JudgeError)
    assert raised.value.reply is not None
    assert raised.value.reply.usage == Usage(input_tokens=9, output_tokens=4)


@pytest.mark.parametrize("body", [completion('{"sco', finish_reason="length"), b'{"choices": []}'])
async def test_unreported_usage_is_unknown(body: bytes) -> None:
    """Without usage the error carries no reply: an unknown cost is not zero."""
    async with chat_with(Answer(body)) as (chat, _):
        with pytest.raises(JudgeError) as raised:
            await chat.complete(ASK)
    assert raised.value.reply is None


@pytest.mark.parametrize("parameters", [{"stream": True}, {"model": "x"}, {"temperature": object()}])
async def test_parameters_that_cannot_be_sent_are_refused(parameters: dict[str, Any]) -> None:
    """Reserved and unserialisable parameters are refused before the request."""
    async with chat_with() as (chat, fake):
        with pytest.raises(JudgeConfigurationError, match="parameters of judge endpoint primary"):
            await chat.complete(ChatRequest(messages=ASK.messages, parameters=parameters))
    assert not fake.requests


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"base_url": "ftp://host/v1"}, "base_url"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"max_connections": 0}, "max_connections"),
        ({"api_key": "sk-a\nsk-b"}, "API key"),
    ],
)
async def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], words: str) -> None:
    """Invalid arguments are refused at construction, without quoting the key."""
    with pytest.raises(JudgeConfigurationError, match=words) as caught:
        OpenAIChat(**({"endpoint": "e", "model": "m"} | arguments))
    assert "sk-a" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_default_temperature_is_left_out(status: int) -> None:
    """A model that refuses the default temperature is asked again without it, and later calls omit it."""
    refusal = {
        "error": {
            "message": "Unsupported value: 'temperature' does not support 0.0 with this model.",
            "code": "unsupported_value",
            "param": "temperature",
        }
    }
    request = ChatRequest(messages=ASK.messages, temperature=0.0)
    answers = (Answer(json.dumps(refusal).encode(), status=status), Answer(completion("4")))
    async with chat_with(*answers) as (chat, fake):
        replies = [await chat.complete(request) for _ in range(2)]
    assert [reply.text for reply in replies] == ["4", "4"]
    assert [body.get("temperature") for body in fake.requests] == [0.0, None, None]


async def test_a_configured_temperature_has_precedence() -> None:
    refusal = {"error": {"message": "no temperature", "code": "unsupported_value"}}
    request = ChatRequest(messages=ASK.messages, parameters={"temperature": 0.7}, temperature=0.0)
    async with chat_with(Answer(json.dumps(refusal).encode(), status=400)) as (chat, fake):
        with pytest.raises(JudgeConfigurationError):
            await chat.complete(request)
    assert [body["temperature"] for body in fake.requests] == [0.7]
