"""Bodies of requests to an OpenAI-compatible API, and of its replies. Pure.

If a server refuses a JSON Schema, it goes into the prompt, at the end of the system turn (after the cacheable
prefix), and the next weaker format is tried. Replies are read strictly where a verdict needs it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import orjson

from judge.chat import ChatMessage, ChatRequest
from judge.errors import JudgeConfigurationError
from judge.text.normal import without_lone_surrogates
from schemas import Usage

# Requests

_RESERVED = frozenset(
    {"model", "messages", "response_format", "stream", "stream_options", "n", "tools", "tool_choice", "input"}
)
_INSTRUCTION: Final = (
    "The reply must be one JSON object that is valid by this JSON Schema, with nothing around it:\n{schema}"
)


class ResponseFormat(Enum):
    """Response formats, strongest first."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT_WITH_SCHEMA = "json_object with schema"
    """For llama-cpp-python's server."""
    JSON_OBJECT = "json_object"
    PLAIN = "plain"

    @property
    def weaker(self) -> ResponseFormat | None:
        formats = iter(ResponseFormat)
        return next(formats, None) if self in formats else None  # `in` goes up to this one


def write_request(
    request: ChatRequest, response_format: ResponseFormat, *, endpoint: str, model: str, host: str
) -> bytes:
    clash = _RESERVED.intersection(request.parameters)
    if clash:
        raise JudgeConfigurationError(
            f"parameters of judge endpoint {endpoint} must not contain {', '.join(sorted(clash))}: "
            "judgestream sets these itself"
        )
    body: dict[str, Any] = {"model": model}
    if request.embeds:
        body["input"] = [without_lone_surrogates(message.content) for message in request.messages]
        return _bytes({**body, **request.parameters}, endpoint)
    body["messages"] = request.messages
    if request.response_schema is not None:
        written = orjson.dumps(dict(request.response_schema.schema))
        field, instruction = _form(request.response_schema.name, written, response_format)
        body["messages"] = _with_instruction(request.messages, instruction)
        if field is not None:
            body["response_format"] = field
    if not {"max_tokens", "max_completion_tokens"}.intersection(request.parameters):
        # OpenAI has deprecated `max_tokens`, and its newer models refuse it. Most other servers accept
        # `max_tokens`, and some accept nothing else. If `parameters` sets either, only that one is sent.
        is_openai = host == "api.openai.com" or host.endswith(".api.openai.com")
        body["max_completion_tokens" if is_openai else "max_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    body.update(request.parameters)
    try:
        return orjson.dumps(body)
    except TypeError:
        # Lone surrogates in a text; rare, so handled only on failure.
        body["messages"] = tuple(
            ChatMessage(message.role, without_lone_surrogates(message.content))
            for message in body["messages"]
        )
    return _bytes(body, endpoint)


def _bytes(body: dict[str, Any], endpoint: str) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:
        told = f"parameters of judge endpoint {endpoint} cannot be written as JSON: {error}"
        raise JudgeConfigurationError(told) from error


@lru_cache(maxsize=64)
def _form(
    name: str, schema: bytes, response_format: ResponseFormat
) -> tuple[orjson.Fragment | None, str | None]:
    """Return a field and an instruction; by the written schema, as models write keys in its order."""
    plain = orjson.Fragment(schema)
    strict = {"name": name, "strict": True, "schema": plain}
    fields: dict[ResponseFormat, dict[str, Any]] = {
        ResponseFormat.JSON_SCHEMA: {"type": "json_schema", "json_schema": strict},
        ResponseFormat.JSON_OBJECT_WITH_SCHEMA: {"type": "json_object", "schema": plain},
        ResponseFormat.JSON_OBJECT: {"type": "json_object"},
    }
    field = fields.get(response_format)
    in_prompt = response_format is not ResponseFormat.JSON_SCHEMA
    return (
        None if field is None else orjson.Fragment(orjson.dumps(field)),
        _INSTRUCTION.format(schema=schema.decode()) if in_prompt else None,
    )


def _with_instruction(messages: tuple[ChatMessage, ...], instruction: str | None) -> tuple[ChatMessage, ...]:
    if instruction is None:
        return messages
    if messages and messages[0].role == "system":
        first = ChatMessage("system", f"{messages[0].content.rstrip()}\n\n{instruction}")
        return (first, *messages[1:])
    return (ChatMessage("system", instruction), *messages)


# Replies

MAX_TOKENS: Final = 1_000_000_000
"""Cap of reported token counts, so that sums cannot overflow; more than any context window."""


class NoCompletionError(Exception):
    """The body is no chat completion; `body` and `status` are those of a gateway's backend, if it failed."""

    def __init__(self, start: str, usage: Usage, *, body: object = None, status: int = 0) -> None:
        super().__init__(start)
        self.usage = usage
        self.body = body
        self.status = status


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    refusal: str
    finish_reason: str | None
    model: str | None
    usage: Usage
    system_fingerprint: str | None = None


def read_completion(raw: bytes) -> Completion:
    body = _fields(loaded(raw))
    choices = body.get("choices")
    choice = _fields(choices[0]) if isinstance(choices, list) and choices else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _no_completion(raw, body)
    return Completion(
        text=_said(message),
        refusal=_text(message.get("refusal")),
        finish_reason=_word(choice.get("finish_reason")),
        model=_word(body.get("model")),
        system_fingerprint=_word(body.get("system_fingerprint")),
        usage=_usage(body.get("usage")),
    )


def loaded(raw: bytes | str) -> Any:
    """Return decoded JSON; None if it is none."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    try:
        # Lone surrogates and numbers of any size, which orjson refuses.
        return json.loads(raw, parse_int=_whole_number)
    except (ValueError, RecursionError):
        return None


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: Any) -> str | None:
    return without_lone_surrogates(value[:200]) if isinstance(value, str) else None


def _no_completion(raw: bytes, body: dict[str, Any]) -> NoCompletionError:
    start = repr(" ".join(raw[:200].decode("utf-8", "replace").split()))
    error = body.get("error")
    # Some gateways answer 200 and put their backend's status into the error.
    code = _fields(error).get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 502
    return NoCompletionError(start, _usage(body.get("usage")), body=body if error else None, status=status)


def _said(message: dict[str, Any]) -> str:
    """Return the text, else what some servers mistake for a tool call's arguments or for reasoning."""
    text = _text(message.get("content"))
    if text.strip():
        return text
    calls = message.get("tool_calls")
    if isinstance(calls, list) and len(calls) == 1:
        arguments = _fields(_fields(calls[0]).get("function")).get("arguments")
        called = json.dumps(arguments) if isinstance(arguments, dict) else _text(arguments)
        if called.strip():
            return called
    return _text(message.get("reasoning_content")) or _text(message.get("reasoning")) or text


def _text(content: Any) -> str:
    if isinstance(content, list):  # some servers send it in parts
        parts = (_fields(part).get("text") for part in content)
        content = "".join(part for part in parts if isinstance(part, str))
    return without_lone_surrogates(content) if isinstance(content, str) else ""


def _usage(usage: Any) -> Usage:
    """Missing or invalid counts are 0, so that the verdict is kept."""
    counts = _fields(usage)
    input_tokens = _count(counts.get("prompt_tokens"))
    cached_tokens = _count(_fields(counts.get("prompt_tokens_details")).get("cached_tokens"))
    cached_tokens, output_tokens = min(input_tokens, cached_tokens), _count(counts.get("completion_tokens"))
    return Usage(input_tokens=input_tokens, cached_tokens=cached_tokens, output_tokens=output_tokens)


def _whole_number(digits: str) -> int:
    return int(digits) if len(digits) <= 18 else MAX_TOKENS


def _count(value: Any) -> int:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return int(min(max(0, value), MAX_TOKENS)) if is_number else 0


# Quotations

_SPAN = re.compile(r'"\w{1,40}_span"\s{0,20}:\s{0,20}("(?:[^"\\]|\\.){8,2000}")')
_NO_LETTER = re.compile(r"[\W_]+")


def is_about_another(text: str, reply: str) -> bool:
    """Whether no quotation of a reply stands in the sent text: it may be a late one to another request."""
    spans = []
    for match in islice(_SPAN.finditer(reply), 200):
        with suppress(orjson.JSONDecodeError):
            span = orjson.loads(match[1])
            if span in text:
                return False
            spans.append(_NO_LETTER.sub("", span.casefold()))
    letters = _NO_LETTER.sub("", text.casefold()) if spans else ""
    return bool(spans) and not any(span in letters for span in spans)


# Embeddings


def read_cosine(raw: bytes) -> Completion:
    """Parse a reply with two vectors; the text is their cosine, as `{"cosine": 0.83, "dimensions": 1536}`."""
    body = _fields(loaded(raw))
    data = body.get("data")
    if not isinstance(data, list):
        raise _no_completion(raw, body)
    rows = [_fields(one) for one in data[:4]]  # two are asked for
    places = [row.get("index") for row in rows]
    if all(isinstance(place, int) for place in places) and len(set(places)) == len(places):
        rows.sort(key=lambda row: row["index"])
    vectors = [_numbers(row.get("embedding")) for row in rows]
    text, usage = compared(vectors), _usage(body.get("usage"))
    if text is None:
        sizes = ", ".join(str(len(one)) for one in vectors)
        raise NoCompletionError(f"{len(data)} vectors of {sizes or 'no'} numbers", usage)
    return Completion(
        text=text, refusal="", finish_reason="stop", model=_word(body.get("model")), usage=usage
    )


def _numbers(vector: Any) -> list[float]:
    return vector if isinstance(vector, list) and {type(one) for one in vector} <= {int, float} else []


def compared(vectors: Sequence[Sequence[float]]) -> str | None:
    """Return the cosine of two vectors, as JSON; None unless there are two non-zero ones of equal length."""
    lengths = [math.hypot(*vector) for vector in vectors]
    if len(vectors) != 2 or not all(0 < length < math.inf for length in lengths):
        return None
    one, other = ([x / length for x in vector] for vector, length in zip(vectors, lengths, strict=True))
    if len(one) != len(other):
        return None
    cosine = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return orjson.dumps({"cosine": cosine, "dimensions": len(one)}).decode()
