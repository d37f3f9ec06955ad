"""One call to an endpoint: what is sent, and what each reply becomes."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from judge.chat import ChatMessage, ChatRequest, ResponseSchema
from judge.endpoints.openai_chat import OpenAIChat
from judge.errors import JudgeConfigurationError, JudgeError, JudgeUnavailableError
from schemas import Usage
from tests.judge.fake_openai import Answer, FakeOpenAI, completion, fake_openai

KEY = "sk-test-1234567890"


@asynccontextmanager
async def chat_with(*answers: Answer, **arguments: Any) -> AsyncIterator[tuple[OpenAIChat, FakeOpenAI]]:
    async with fake_openai(*answers) as fake:
        options = {"endpoint": "primary", "model": "m-1", "base_url": fake.url, "api_key": KEY} | arguments
        chat = OpenAIChat(**options)
        try:
            yield chat, fake
        finally:
            await chat.close()


SCHEMA = ResponseSchema("v", {"type": "object"})
ASK = ChatRequest(messages=(ChatMessage("system", "Judge."), ChatMessage("user", "Ü 😀")))
WITH_SCHEMA = ChatRequest(ASK.messages, response_schema=SCHEMA)
USED = {"prompt_tokens": 9, "completion_tokens": 4}
PAID = Usage(input_tokens=9, output_tokens=4)


async def test_a_call_sends_the_conversation_and_reads_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and proxies of the environment are not used for an endpoint on loopback."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "sk-other")
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    usage = USED | {"prompt_tokens_details": {"cached_tokens": 6}}
    request = ChatRequest(
        ASK.messages, SCHEMA, max_output_tokens=77, parameters={"temperature": 0, "seed": 1}
    )
    async with chat_with(Answer(completion("text", usage=usage))) as (chat, fake):
        replies = [await chat.complete(request) for _ in range(2)]
    assert (replies[0].text, replies[0].model) == ("text", "fake-1")
    assert replies[0].usage == Usage(input_tokens=9, cached_tokens=6, output_tokens=4)
    assert replies[0].seconds > 0
    assert fake.headers[0]["authorization"] == f"Bearer {KEY}"
    schema = {"name": "v", "strict": True, "schema": {"type": "object"}}
    sent = {
        "model": "m-1",
        "messages": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Ü 😀"}],
        "response_format": {"type": "json_schema", "json_schema": schema},
        "max_tokens": 77,
        "temperature": 0,
        "seed": 1,
    }
    assert fake.requests == [sent] * 2
    async with chat_with(api_key="") as (chat, fake):
        await chat.complete(ASK)
    assert "sk-" not in fake.headers[0]["authorization"]
    assert "response_format" not in fake.requests[0]


PAGE = Answer(b"<html>Login</html>", headers={"Content-Type": "text/html"})
BUSY = {"code": 503, "message": "busy"}
LIMITS = {f"x-ratelimit-{name}-requests": one for name, one in (("limit", "60"), ("remaining", "0"))}
# A reply, its error's `error_type`, kind or type, words of it, and the usage that it carries, if reported.
ERRORS: list[tuple[Answer, str, str, Usage | None]] = [
    (Answer(completion(None, refusal="I will not", usage=USED)), "content_refused", "refused", PAID),
    (Answer(completion("x", finish_reason="content_filter", usage=USED)), "content_refused", "filter", PAID),
    (Answer(completion('{"sco', finish_reason="length", usage=USED)), "reply_cut", "length limit", PAID),
    (Answer(completion('{"sco', finish_reason="length")), "reply_cut", "length limit", None),
    (Answer(b'{"error": {"code": "content_filter"}}', status=400), "content_refused", "400", None),
    (Answer(b"too large", status=413), "context_too_long", "413", None),
    (Answer(b"", status=422), "rejected_request", "422", None),
    # A successful reply of absurd size is due to the request, an error page of such size is not.
    (Answer(b"x" * 5_000), "invalid_verdict", "larger than 4096 bytes", None),
    (Answer(b"x" * 5_000, status=500), "unavailable", "larger than 4096 bytes", None),
    (Answer(b"x" * 5_000, status=307), "unavailable", "larger than 4096 bytes", None),
    (Answer(b"<html>Bad gateway</html>", status=502), "unavailable", "502", None),
    (PAGE, "unavailable", "not a chat completion", None),
    (
        Answer(json.dumps({"choices": [], "usage": USED}).encode()),
        "unavailable",
        "not a chat completion",
        PAID,
    ),
    (Answer(b"\xff\xfe"), "unavailable", "not a chat completion", None),
    (Answer(json.dumps({"error": BUSY, "usage": USED}).encode()), "overloaded", "answered 503", PAID),
    (Answer(b'{"error": {"message": "later"}, "choices": []}'), "unavailable", "answered 502", None),
    (Answer(gzip.compress(b"x"), headers={"Content-Encoding": "gzip"}), "unavailable", "compressed", None),
    (Answer(drop=True), "unavailable", "closed the connection", None),
    (Answer(completion("x"), headers={"Content-Length": "1000"}), "timeout", "within 1 s", None),
    (Answer(cut_after=20), "unavailable", "closed the connection", None),
    (Answer(completion()[:60]), "unavailable", "not a chat completion", None),
    (Answer(b"{}", status=429, headers=LIMITS | {"Retry-After": "7"}), "rate_limited", "429", None),
    *(
        (
            Answer(f"wrong {KEY} {'x' * 3_000}".encode(), status=status, headers={"Location": "/"}),
            "JudgeConfigurationError",
            f"primary answered {status}",
            None,
        )
        for status in (302, 401, 403, 404)
    ),
]


@pytest.mark.parametrize(("answer", "kind", "words", "usage"), ERRORS)
async def test_what_a_reply_without_a_verdict_becomes(
    answer: Answer, kind: str, words: str, usage: Usage | None
) -> None:
    """It is sent once, the error never has the key nor a long message, and it carries the reported usage."""
    async with chat_with(answer, max_reply_bytes=4096, timeout_seconds=1) as (chat, fake):
        with pytest.raises(JudgeError, match=words) as caught:
            await chat.complete(ASK)
    error = caught.value
    named = getattr(error, "error_type", None) or getattr(error, "kind", None) or type(error).__name__
    assert named == kind
    assert (None if error.reply is None else error.reply.usage) == usage
    assert getattr(error, "retry_after_seconds", None) == (7.0 if kind == "rate_limited" else None)
    assert (getattr(error, "limits", None) is not None) == (kind == "rate_limited")
    assert KEY not in f"{error} {error.said}"
    assert len(error.said) < 600
    assert named != "JudgeConfigurationError" or error.said.startswith("wrong ***")
    assert len(fake.requests) == 1


@pytest.mark.parametrize("answer", [Answer(hang=True), Answer(drip_seconds=0.02)])
async def test_the_whole_call_is_bounded(answer: Answer) -> None:
    async with chat_with(answer, Answer(), timeout_seconds=30.0) as (chat, _):
        chat._timeout_seconds = 0.3
        with pytest.raises(JudgeUnavailableError, match=r"within 0\.3 s"):
            await chat.complete(ASK)
        chat._timeout_seconds = 30.0
        assert (await chat.complete(ASK)).text == '{"score": 5}'


async def test_too_few_file_descriptors_are_named(request: pytest.FixtureRequest) -> None:
    async with chat_with(Answer(b"{}")) as (chat, fake):
        request.getfixturevalue("no_descriptors")
        with pytest.raises(JudgeUnavailableError, match="cannot be asked: this process has too many open"):
            await chat.complete(ASK)
    assert fake.requests == []


async def test_a_proxy_that_cannot_be_used_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:70")
    chat = OpenAIChat(endpoint="far", model="m-1", base_url="http://judge.test/v1")
    with pytest.raises(JudgeConfigurationError, match=r"endpoint far: Unknown scheme .*; check the proxy"):
        await chat.complete(ASK)
    await chat.close()


async def test_a_cancelled_call_stays_cancelled_and_frees_its_connection() -> None:
    async with chat_with(Answer(hang=True), Answer(), max_connections=1) as (chat, fake):
        call = asyncio.create_task(chat.complete(ASK))
        async with asyncio.timeout(5):
            await fake.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await chat.complete(ASK)).text == '{"score": 5}'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"base_url": "ftp://host/v1"}, "base_url"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"api_key": "sk-a\nsk-b"}, "API key"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(JudgeConfigurationError, match=words) as caught:
        OpenAIChat(**({"endpoint": "e", "model": "m"} | arguments))
    assert "sk-a" not in str(caught.value)


# What an endpoint refuses

# Recorded replies of servers without JSON Schema support: two validation errors and one server error.
NOW, MUST = "This response_format type is unavailable now", "Input should be 'text' or 'json_object'"
LITERAL = "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'input': 'json_schema'}]"
REFUSALS: dict[int, Any] = {
    400: {"error": {"message": NOW, "type": "invalid_request_error"}},
    422: {"detail": [{"loc": ["body", "response_format", "type"], "msg": MUST}]},
    500: {"error": {"message": LITERAL, "type": "internal_server_error"}},
}
NO_400, NO_422, NO_500 = (Answer(json.dumps(one).encode(), status=code) for code, one in REFUSALS.items())
GOOD, CUT = Answer(), Answer(completion("{", finish_reason="length"))
QUOTING = Answer(b'{"error": {"message": "cannot read: ignore response_format"}}', status=400)
BROKEN = Answer(b'{"error": {"message": "cannot read"}}', status=400)
INVALID = Answer(b'{"error": {"message": "Invalid schema for response_format"}}', status=400)
STRICT, OBJECT_WITH, OBJECT, PLAIN = "json_schema", "json_object with schema", "json_object", ""


def formats(fake: FakeOpenAI) -> list[str]:
    given = [one.get("response_format", {}) for one in fake.requests]
    return [one.get("type", "") + (" with schema" if "schema" in one else "") for one in given]


@pytest.mark.parametrize(
    ("answers", "outcomes", "asked"),
    [
        # A refused schema is found out once and remembered, with one line in the log.
        *(([no, GOOD], ["", "", ""], [STRICT, *[OBJECT_WITH] * 3]) for no in (NO_400, NO_422, NO_500)),
        ([NO_400, NO_422, NO_500, GOOD], ["", ""], [STRICT, OBJECT_WITH, OBJECT, PLAIN, PLAIN]),
        ([GOOD], ["", ""], [STRICT, STRICT]),
        # Another error does not change the format, and a cut reply confirms it.
        ([QUOTING, BROKEN, GOOD], ["EventError", ""], [STRICT, OBJECT_WITH, STRICT]),
        ([NO_500, CUT, GOOD], ["EventError", ""], [STRICT, OBJECT_WITH, OBJECT_WITH]),
        ([INVALID], ["JudgeConfigurationError"], [STRICT]),
        # The fallback keeps the time limit of one call.
        ([NO_400, Answer(hang=True)], ["JudgeUnavailableError"], [STRICT, OBJECT_WITH]),
    ],
)
async def test_a_refused_response_format_is_weakened_and_remembered(
    answers: list[Answer], outcomes: list[str], asked: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    told = []
    async with chat_with(*answers, timeout_seconds=0.3 if answers[-1].hang else 30.0) as (chat, fake):
        for _ in outcomes:
            try:
                await chat.complete(WITH_SCHEMA)
                told.append("")
            except JudgeError as error:
                told.append(type(error).__name__)
    assert told == outcomes
    assert formats(fake) == asked
    warned = [record for record in caplog.records if "refuses response_format" in record.getMessage()]
    assert len(warned) == (chat.response_format.value != STRICT)


@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_default_temperature_is_left_out(status: int) -> None:
    message = "Unsupported value: 'temperature' does not support 0.0 with this model."
    refusal = {"error": {"message": message, "code": "unsupported_value", "param": "temperature"}}
    refused = Answer(json.dumps(refusal).encode(), status=status)
    request = ChatRequest(messages=ASK.messages, temperature=0.0)
    async with chat_with(refused, Answer(completion("4"))) as (chat, fake):
        assert [(await chat.complete(request)).text for _ in range(2)] == ["4", "4"]
    assert [body.get("temperature") for body in fake.requests] == [0.0, None, None]
    request = ChatRequest(messages=ASK.messages, parameters={"temperature": 0.7}, temperature=0.0)
    async with chat_with(refused) as (chat, fake):
        with pytest.raises(JudgeConfigurationError):
            await chat.complete(request)
    assert [body["temperature"] for body in fake.requests] == [0.7]
