"""Read replies of an OpenAI-compatible API: strict about what a verdict needs, lenient otherwise. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import orjson

from schemas import Usage

MAX_TOKENS = 1_000_000_000
"""Cap of reported token counts; more than any context window."""
MAX_MODEL_CHARS = 200
_MAX_DIGITS = 18
_SHOWN_BYTES = 200
_MAX_ERROR_BYTES = 256 * 1024
"""Limit of a parsed error body."""
_MAX_USAGE_BYTES = 32 * 1024
_MAX_OBJECTS = 10_000
"""Limit of lists and objects in a message's field."""
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class NoCompletionError(Exception):
    """The body is not a chat completion.

    Args:
        body: The decoded body, if a gateway returned an error with a success status.
        usage: Tokens reported in it.
    """

    def __init__(
        self,
        start: str,
        *,
        body: dict[str, Any] | None = None,
        status: int = 0,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(start)
        self.body = body
        self.status = status
        self.usage = usage or Usage()


@dataclass(frozen=True, slots=True)
class Completion:
    """The first choice of a completion."""

    text: str
    refusal: str
    """Empty if there is none."""
    finish_reason: str | None
    model: str | None
    usage: Usage


NOTHING = msgspec.Raw(b"null")


class _Message(msgspec.Struct):
    """Fields stay unparsed, because they may contain millions of unused objects."""

    content: msgspec.Raw = NOTHING
    refusal: msgspec.Raw = NOTHING
    reasoning_content: msgspec.Raw = NOTHING
    reasoning: msgspec.Raw = NOTHING
    tool_calls: msgspec.Raw = NOTHING


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice]
    model: str | None = None
    usage: msgspec.Raw = NOTHING


_BODY = msgspec.json.Decoder(_Body)
_T = TypeVar("_T")


def read_completion(raw: bytes) -> Completion:
    """Parse a reply's body."""
    body = read_body(raw, _BODY)
    if not body.choices:
        raise _no_completion(raw, body.usage)
    choice = body.choices[0]
    return Completion(
        text=_said(choice.message),
        refusal=_text(choice.message.refusal),
        finish_reason=choice.finish_reason,
        model=None if body.model is None else body.model[:MAX_MODEL_CHARS],
        usage=read_usage(body.usage),
    )


def read_body(raw: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    """Parse a body with a decoder; lone surrogates are replaced."""
    for written in (raw, None):
        try:
            return decoder.decode(_ESCAPE.sub(_whole_escape, raw) if written is None else written)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    raise _no_completion(raw, NOTHING)


def _whole_escape(match: re.Match[bytes]) -> bytes:
    """Return a JSON escape; lone surrogates, which UTF-8 cannot encode, become U+FFFD."""
    return b"\\ufffd" if match["lone"] else match[0]


def _no_completion(raw: bytes, usage: msgspec.Raw) -> NoCompletionError:
    """Build the error for a body that is no completion."""
    try:
        loaded = json.loads(raw, parse_int=_whole_number) if len(raw) <= _MAX_ERROR_BYTES else None
    except (ValueError, RecursionError):
        loaded = None
    if isinstance(loaded, dict) and loaded.get("error"):
        # Some gateways answer 200 and put their backend's status into the error.
        error = loaded["error"]
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        return NoCompletionError(_start(raw), body=loaded, status=status, usage=_usage(loaded.get("usage")))
    return NoCompletionError(_start(raw), usage=read_usage(usage))


def read_usage(written: msgspec.Raw) -> Usage:
    """Parse the token counts, whatever their number of digits."""
    raw = bytes(written)
    try:
        return _usage(json.loads(raw, parse_int=_whole_number) if len(raw) <= _MAX_USAGE_BYTES else None)
    except (ValueError, RecursionError):
        return Usage()


def _read(written: msgspec.Raw) -> Any:
    """Parse a field of a message; None if it has no text or too many objects."""
    raw = bytes(written)
    if raw[:1] != b'"' and (raw.count(b"{") + raw.count(b"[") > _MAX_OBJECTS or b'"' not in raw):
        return None
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None  # a number beyond the range of a float


def _start(raw: bytes) -> str:
    return repr(" ".join(raw[:_SHOWN_BYTES].decode("utf-8", "replace").split()))


def _said(message: _Message) -> str:
    """Return the model's text, else the arguments of its only tool call, else its reasoning.

    The parsers of some servers mistake a reply for a tool call or for reasoning.
    """
    text = _text(message.content)
    if text.strip():
        return text
    calls = _read(message.tool_calls)
    if isinstance(calls, list) and len(calls) == 1 and isinstance(calls[0], dict):
        function = calls[0].get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        called = arguments if isinstance(arguments, str) else ""
        if isinstance(arguments, dict):
            called = json.dumps(arguments)
        if called.strip():
            return called
    return _text(message.reasoning_content) or _text(message.reasoning) or text


def _text(written: msgspec.Raw) -> str:
    """Return a message's text; some servers send it in parts."""
    content = _read(written)
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _usage(usage: Any) -> Usage:
    """Return the token counts; missing or invalid ones are 0, so that the verdict is kept."""
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    input_tokens = _count(usage.get("prompt_tokens"))
    cached_tokens = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return Usage(
        input_tokens=input_tokens,
        cached_tokens=min(input_tokens, cached_tokens),
        output_tokens=_count(usage.get("completion_tokens")),
    )


def _whole_number(digits: str) -> int:
    """Return a number of any number of digits, capped."""
    return int(digits) if len(digits) <= _MAX_DIGITS else MAX_TOKENS


def _count(value: Any) -> int:
    """Return a token count between 0 and `MAX_TOKENS`, so that sums cannot overflow."""
    return min(max(0, value), MAX_TOKENS) if isinstance(value, int) else 0


# Quotations

_SPAN = re.compile(r'"\w{1,40}_span"\s{0,20}:\s{0,20}("(?:[^"\\]|\\.){8,2000}")')
_MOST_SPANS = 200
_NO_LETTER = re.compile(r"[\W_]+")


def is_about_another(text: str, reply: str) -> bool:
    """Return whether a reply has quotations, and none of them stands in the text that was sent.

    Then it may be the late second reply to an earlier request on the same connection.
    """
    spans = []
    for number, match in enumerate(_SPAN.finditer(reply)):
        if number == _MOST_SPANS:
            break
        try:
            span = orjson.loads(match[1])
        except orjson.JSONDecodeError:
            continue
        if span in text:
            return False
        spans.append(span)
    if not spans:
        return False
    letters = _NO_LETTER.sub("", text.casefold())
    return not any(_NO_LETTER.sub("", span.casefold()) in letters for span in spans)


# Embeddings

_LOOKED_AT = 4
"""Vectors of a reply that are parsed; two are requested."""


class _Vector(msgspec.Struct):
    embedding: msgspec.Raw
    index: int | None = None


class _Vectors(msgspec.Struct):
    data: list[_Vector]
    model: str | None = None
    usage: msgspec.Raw = NOTHING


_VECTORS = msgspec.json.Decoder(_Vectors)


def read_cosine(raw: bytes) -> Completion:
    """Parse a reply with two vectors; the text is their cosine, as `{"cosine": 0.83, "dimensions": 1536}`."""
    body = read_body(raw, _VECTORS)
    usage = read_usage(body.usage)
    vectors = [_numbers(one.embedding) for one in _in_order(body.data)[:_LOOKED_AT]]
    text = compared(vectors)
    if text is None:
        sizes = ", ".join(str(len(one)) for one in vectors)
        raise NoCompletionError(f"{len(body.data)} vectors of {sizes or 'no'} numbers", usage=usage)
    return Completion(text=text, refusal="", finish_reason="stop", model=body.model, usage=usage)


def _numbers(written: msgspec.Raw) -> list[float]:
    """Parse a vector; empty if invalid. orjson, because msgspec takes 13 µs for a number like 1e308."""
    try:
        found = orjson.loads(bytes(written))
    except orjson.JSONDecodeError:
        return []
    is_vector = isinstance(found, list) and {type(one) for one in found} <= {int, float}
    return found if is_vector else []


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


def _in_order(vectors: list[_Vector]) -> list[_Vector]:
    """Return the vectors in the order of their index, or as received if they have none."""
    numbered = {one.index: one for one in vectors if one.index is not None}
    return [numbered[place] for place in sorted(numbered)] if len(numbered) == len(vectors) else vectors
