"""Bodies of requests, and parsing of replies, hostile ones included."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judge.chat import ChatMessage, ChatRequest, ResponseSchema
from judge.endpoints.payloads import (
    MAX_TOKENS,
    NoCompletionError,
    RequestWriter,
    ResponseFormat,
    read_completion,
)
from judge.errors import JudgeConfigurationError

SCHEMA = ResponseSchema("v", {"type": "object", "properties": {"score": {"type": "integer"}}})
WRITTEN = '{"type":"object","properties":{"score":{"type":"integer"}}}'
ASK = ChatRequest((ChatMessage("system", "Judge.\n"), ChatMessage("user", "data")), response_schema=SCHEMA)


def written(request: ChatRequest, response_format: ResponseFormat, host: str = "h") -> Any:
    return json.loads(RequestWriter(endpoint="e", model="m", host=host).write(request, response_format))


JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": SCHEMA.schema}}
FIELDS = {
    ResponseFormat.JSON_SCHEMA: JSON_SCHEMA,
    ResponseFormat.JSON_OBJECT_WITH_SCHEMA: {"type": "json_object", "schema": SCHEMA.schema},
    ResponseFormat.JSON_OBJECT: {"type": "json_object"},
    ResponseFormat.PLAIN: None,
}


def test_each_format_has_its_field_or_the_schema_in_the_prompt() -> None:
    """From strict to plain; the weaker ones append the schema to the system turn, after the cacheable prefix,
    or add such a turn.
    """
    following: ResponseFormat | None = ResponseFormat.JSON_SCHEMA
    for response_format, field in FIELDS.items():
        assert response_format is following
        following = response_format.weaker
        body = written(ASK, response_format)
        assert body.get("response_format") == field
        system, user = body["messages"]
        assert user == {"role": "user", "content": "data"}
        is_strict = response_format is ResponseFormat.JSON_SCHEMA
        assert system["content"].startswith("Judge.\n" if is_strict else "Judge.\n\n")
        assert system["content"].endswith(f"\n{WRITTEN}") != is_strict
    assert following is None
    alone = ChatRequest((ChatMessage("user", "x"),), response_schema=SCHEMA)
    assert [turn["role"] for turn in written(alone, ResponseFormat.PLAIN)["messages"]] == ["system", "user"]


def test_openai_itself_is_given_max_completion_tokens() -> None:
    body = written(ASK, ResponseFormat.PLAIN, host="api.openai.com")
    assert (body.get("max_completion_tokens"), body.get("max_tokens")) == (4096, None)
    own = ChatRequest(messages=ASK.messages, parameters={"max_tokens": 5})
    body = written(own, ResponseFormat.PLAIN, host="api.openai.com")
    assert (body.get("max_completion_tokens"), body.get("max_tokens")) == (None, 5)


def test_lone_surrogates_are_replaced_before_sending() -> None:
    request = ChatRequest(messages=(ChatMessage("user", "a\ud800b"),))
    assert written(request, ResponseFormat.PLAIN)["messages"][0]["content"] == "a\ufffdb"


@pytest.mark.parametrize("parameters", [{"stream": True}, {"model": "x"}, {"temperature": object()}])
def test_parameters_that_cannot_be_sent_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(JudgeConfigurationError, match="parameters of judge endpoint e"):
        written(ChatRequest(messages=ASK.messages, parameters=parameters), ResponseFormat.PLAIN)


def body(tokens: str = "3", model: str = '"m"') -> bytes:
    return (
        f'{{"model": {model}, "choices": [{{"message": {{"content": "x"}}}}], '
        f'"usage": {{"prompt_tokens": {tokens}, "completion_tokens": 2}}}}'
    ).encode()


def test_token_counts_are_bounded() -> None:
    """An invalid token count is read as 0 and a huge one as `MAX_TOKENS`; the text is kept."""
    huge = dict.fromkeys((str(2**70), "1" + 400 * "0", "1" + 9_000 * "0"), MAX_TOKENS)
    for said, counted in ({"3": 3, "-3": 0, "1e400": 0, '"many"': 0} | huge).items():
        completion = read_completion(body(said))
        assert completion.text == "x"
        assert (completion.usage.input_tokens, completion.usage.output_tokens) == (counted, 2)


def test_a_model_name_is_bounded() -> None:
    assert len(read_completion(body(model=json.dumps("m" * 5_000))).model or "") == 200


@pytest.mark.parametrize("start", [b"[", b'{"a":', b'{"choices":[{"message":{"content":'])
def test_deep_nesting_is_no_completion(start: bytes) -> None:
    """1.6 MB of nested brackets are refused."""
    with pytest.raises(NoCompletionError):
        read_completion(start * (1_600_000 // len(start)))


@pytest.mark.parametrize("where", ["content", "tool_calls", "reasoning", "x"])
@pytest.mark.parametrize("what", ["{}", "1e308"])
def test_structures_of_a_reply_that_hold_no_text_are_not_built(where: str, what: str) -> None:
    """Structures without text are skipped: parsing 4 MB of them would take 400 MB or 10 s."""
    field = f'"{where}": [{",".join([what] * 200_000)}]'
    completion = read_completion(f'{{"choices": [{{"message": {{{field}}}}}], "model": "m"}}'.encode())
    assert (completion.text, completion.model) == ("", "m")


def test_lone_surrogates_are_replaced_in_every_field() -> None:
    raw = rb'{"id": "\ud800", "model": "\uDFFFm", "choices": [{"finish_reason": "\ud800stop", '
    raw += rb'"message": {"content": "\\\\ud800 \ud83d\ude00 \ud83d"}}]}'
    completion = read_completion(raw)
    assert completion.text == "\\\\ud800 \U0001f600 \ufffd"
    assert (completion.model, completion.finish_reason) == ("\ufffdm", "\ufffdstop")
