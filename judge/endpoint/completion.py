"""Reading a chat completion: strict about what a verdict needs, lenient about everything else."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import orjson

from schemas import Usage

MAX_TOKENS = 1_000_000_000
"""More tokens than any window holds: what an endpoint says beyond this is a mistake or an attack, and counts
as this."""
MAX_MODEL_CHARS = 200
_MAX_DIGITS = 18
_SHOWN_BYTES = 200
_MAX_ERROR_BYTES = 256 * 1024
"""Of an error that is read."""
_MAX_USAGE_BYTES = 32 * 1024
_MAX_OBJECTS = 10_000
"""Lists and mappings in a message's text, its calls or its usage."""
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class NoCompletionError(Exception):
    """A body that is no chat completion.

    Args:
        start: How it begins, on one line.
        body: Where it is an error that a gateway wrapped into a success, the decoded body.
        status: And the status that this error names.
        usage: Tokens that it says were used all the same.
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
    """Empty where there is none."""
    finish_reason: str | None
    model: str | None
    usage: Usage


NOTHING = msgspec.Raw(b"null")


class _Message(msgspec.Struct):
    """Its fields stay as they were written: a text, or a million objects that nobody looks at."""

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
    """Read a reply's body.

    Raises:
        NoCompletionError: It is none, or it has no choice.
    """
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
    """Read a body of a kind.

    Raises:
        NoCompletionError: It is none.
    """
    for written in (raw, None):
        try:
            return decoder.decode(_ESCAPE.sub(_whole_escape, raw) if written is None else written)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    raise _no_completion(raw, NOTHING)


def _whole_escape(match: re.Match[bytes]) -> bytes:
    """An escape of JSON; in the place of a lone surrogate, which no UTF-8 can hold, its sign."""
    return b"\\ufffd" if match["lone"] else match[0]


def _no_completion(raw: bytes, usage: msgspec.Raw) -> NoCompletionError:
    """Return what came in the place of a completion."""
    try:
        loaded = json.loads(raw, parse_int=_whole_number) if len(raw) <= _MAX_ERROR_BYTES else None
    except (ValueError, RecursionError):
        loaded = None
    if isinstance(loaded, dict) and loaded.get("error"):
        # Some gateways answer 200 and put the status of what stands behind them into the error.
        error = loaded["error"]
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        return NoCompletionError(_start(raw), body=loaded, status=status, usage=_usage(loaded.get("usage")))
    return NoCompletionError(_start(raw), usage=read_usage(usage))


def read_usage(written: msgspec.Raw) -> Usage:
    """Read the token counts, which may have any number of digits."""
    raw = bytes(written)
    try:
        return _usage(json.loads(raw, parse_int=_whole_number) if len(raw) <= _MAX_USAGE_BYTES else None)
    except (ValueError, RecursionError):
        return Usage()


def _read(written: msgspec.Raw) -> Any:
    """Read a field of a message; nothing where it has no text, or structure beyond all measure."""
    raw = bytes(written)
    if raw[:1] != b'"' and (raw.count(b"{") + raw.count(b"[") > _MAX_OBJECTS or b'"' not in raw):
        return None
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None  # a number that no float can hold


def _start(raw: bytes) -> str:
    return repr(" ".join(raw[:_SHOWN_BYTES].decode("utf-8", "replace").split()))


def _said(message: _Message) -> str:
    """What the model said. Without a content: the arguments of its one tool call, else its reasoning.

    Some servers put a reply there which their parser takes for a call or for thoughts.
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
    """A message's text; some servers give it in parts."""
    content = _read(written)
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _usage(usage: Any) -> Usage:
    """Token counts; what a server leaves out or garbles counts 0, for no verdict is worth losing over it."""
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
    """Read a number, however long it is written."""
    return int(digits) if len(digits) <= _MAX_DIGITS else MAX_TOKENS


def _count(value: Any) -> int:
    """A number of tokens, within what a call can take: a sum of larger ones fits no counter and no reader."""
    return min(max(0, value), MAX_TOKENS) if isinstance(value, int) else 0
