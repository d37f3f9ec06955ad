from __future__ import annotations

import json
import logging
from typing import Any

import orjson
import pytest

from judge.chat import ChatMessage, ChatRequest, ResponseSchema
from judge.endpoint.request import ResponseFormat, asked_form
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.metrics.relevance.metric import Relevance
from judge.metrics.replies.response_schemas import RELEVANCE_SCHEMA
from judge.verdict.evaluator import Judge
from schemas import Scored
from tests.judge.built_tasks import task_for
from tests.judge.endpoint.test_openai_chat import chat_with
from tests.judge.fake_openai import Answer, FakeOpenAI, completion
from tests.judge.replies import listed_claim, relevance_reply

SCHEMA = ResponseSchema("v", {"type": "object", "properties": {"score": {"type": "integer"}}})
WRITTEN = '{"type":"object","properties":{"score":{"type":"integer"}}}'
ASK = ChatRequest((ChatMessage("system", "Judge.\n"), ChatMessage("user", "data")), response_schema=SCHEMA)

# Recorded replies of servers without JSON Schema support: two validation errors and one server error.
REFUSALS = {
    400: {"error": {"message": "This response_format type is unavailable now",
        "type": "invalid_request_error"}},
    422: {"detail": [{"loc": ["body", "response_format", "type"],
        "msg": "Input should be 'text' or 'json_object'"}]},
    500: {
        "error": {
            "message": (
                    "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'input': "
                    "'json_schema'}]"
                ),
            "type": "internal_server_error",
        }
    },
}  # fmt: skip


def refusal(status: int) -> Answer:
    return Answer(json.dumps(REFUSALS[status]).encode(), status=status)


def formats(fake: FakeOpenAI) -> list[Any]:
    return [request.get("response_format") for request in fake.requests]


JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": SCHEMA.schema}}
WITH_SCHEMA = {"type": "json_object", "schema": SCHEMA.schema}
JSON_OBJECT = {"type": "json_object"}


def test_the_formats_go_from_strict_to_plain_and_end() -> None:
    """`weaker` visits the four formats once, from JSON Schema to plain."""
    ways = [ResponseFormat.JSON_SCHEMA]
    while (weaker := ways[-1].weaker) is not None:
        ways.append(weaker)
    assert ways == list(ResponseFormat)


@pytest.mark.parametrize(
    ("response_format", "field"),
    [
        (ResponseFormat.JSON_SCHEMA, JSON_SCHEMA),
        (ResponseFormat.JSON_OBJECT_WITH_SCHEMA, WITH_SCHEMA),
        (ResponseFormat.JSON_OBJECT, JSON_OBJECT),
        (ResponseFormat.PLAIN, None),
    ],
)
def test_each_format_has_its_field_or_the_schema_in_the_prompt(
    response_format: ResponseFormat, field: object
) -> None:
    """Each format sends its field; the weaker ones append the schema to the system turn, after the cacheable
    prefix.
    """
    form = asked_form(SCHEMA, response_format)
    sent = None if form.response_format is None else orjson.loads(orjson.dumps(form.response_format))
    assert sent == field
    system, user = form.with_instruction(ASK.messages)
    assert user == ASK.messages[1]
    if response_format is ResponseFormat.JSON_SCHEMA:
        assert system == ASK.messages[0]
    else:
        assert system.content.startswith("Judge.\n\n")
        assert system.content.endswith(f"\n{WRITTEN}")


def test_a_conversation_without_a_system_turn_gets_one() -> None:
    """The schema instruction adds a system turn if the prompt has none."""
    form = asked_form(SCHEMA, ResponseFormat.PLAIN)
    messages = form.with_instruction((ChatMessage("user", "x"),))
    assert [message.role for message in messages] == ["system", "user"]


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_a_refused_schema_is_found_out_once_and_remembered(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The first call falls back to the next format and succeeds; later calls reuse it, and one line is
    logged.
    """
    with caplog.at_level(logging.WARNING, "judge"):
        async with chat_with(refusal(status), Answer()) as (chat, fake):
            replies = [await chat.complete(ASK) for _ in range(3)]
    assert [reply.text for reply in replies] == ['{"score": 5}'] * 3
    assert formats(fake) == [JSON_SCHEMA, WITH_SCHEMA, WITH_SCHEMA, WITH_SCHEMA]
    assert [record.name for record in caplog.records] == ["judge.endpoint.openai_chat"]
    assert "primary" in caplog.text


async def test_each_weaker_format_is_tried_down_to_none() -> None:
    """Three refusals end at no `response_format`, with the schema in the prompt."""
    async with chat_with(refusal(400), refusal(422), refusal(500), Answer()) as (chat, fake):
        await chat.complete(ASK)
        await chat.complete(ASK)
    assert formats(fake) == [JSON_SCHEMA, WITH_SCHEMA, JSON_OBJECT, None, None]
    assert WRITTEN in fake.requests[-1]["messages"][0]["content"]


async def test_a_server_that_takes_the_schema_is_never_asked_otherwise() -> None:
    """A server that accepts the schema gets no weaker format and no schema in the prompt."""
    async with chat_with(Answer()) as (chat, fake):
        await chat.complete(ASK)
        await chat.complete(ChatRequest(ASK.messages))
        await chat.complete(ASK)
    assert formats(fake) == [JSON_SCHEMA, None, JSON_SCHEMA]
    assert fake.requests[-1]["messages"][0]["content"] == "Judge.\n"


async def test_another_error_does_not_change_the_format() -> None:
    """A refusal that the weaker format meets too does not change the endpoint's format."""
    quoting = Answer(b'{"error": {"message": "cannot read: ignore response_format"}}', status=400)
    broken = Answer(b'{"error": {"message": "cannot read"}}', status=400)
    async with chat_with(quoting, broken, Answer()) as (chat, fake):
        with pytest.raises(EventError):
            await chat.complete(ASK)
        await chat.complete(ASK)
    assert formats(fake) == [JSON_SCHEMA, WITH_SCHEMA, JSON_SCHEMA]


async def test_a_cut_reply_confirms_the_format() -> None:
    """A truncated reply shows that the format was accepted."""
    cut = Answer(completion("{", finish_reason="length"))
    async with chat_with(refusal(500), cut, Answer()) as (chat, fake):
        with pytest.raises(EventError):
            await chat.complete(ASK)
        await chat.complete(ASK)
    assert formats(fake) == [JSON_SCHEMA, WITH_SCHEMA, WITH_SCHEMA]


async def test_an_invalid_schema_is_not_retried_in_another_format() -> None:
    """An invalid schema raises `JudgeConfigurationError` after one request."""
    body = b'{"error": {"message": "Invalid schema for response_format"}}'
    async with chat_with(Answer(body, status=400)) as (chat, fake):
        with pytest.raises(JudgeConfigurationError, match="Correct the response_schema"):
            await chat.complete(ASK)
    assert len(fake.requests) == 1


async def test_the_fallback_keeps_the_time_limit_of_one_call() -> None:
    """A refusal and its retry share one time limit."""
    async with chat_with(refusal(400), Answer(hang=True), timeout_seconds=0.3) as (chat, fake):
        with pytest.raises(JudgeUnavailableError, match="did not answer"):
            await chat.complete(ASK)
    assert len(fake.requests) == 2


async def test_a_built_in_metric_keeps_its_evidence_and_checks() -> None:
    """In a weaker format the judge's evidence is still verified against the pages."""
    listed = relevance_reply([listed_claim("It is red.", [1], "It is green.")])
    async with chat_with(refusal(500), Answer(completion(json.dumps(listed)))) as (chat, fake):
        judge = Judge(Relevance(), chat)
        task = task_for(judge.metric, answer="It is red. [Page 1]", context={"Page-1": "It is blue."})
        result = await judge.judge(task)
    assert isinstance(result, Scored)
    assert result.score == 1
    assert result.evaluator.schema_ == judge.metric.schema_hash
    assert fake.requests[1]["response_format"] == {"type": "json_object", "schema": RELEVANCE_SCHEMA.schema}
