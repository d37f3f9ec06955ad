"""Validate requests to the offline judge as a real endpoint would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judge.chat import ChatMessage, ResponseSchema, Role

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_FORMATS = frozenset({"text", "json_object", "json_schema"})


class BadRequestError(Exception):
    """The request is invalid; answered with a 400 in OpenAI's form.

    Args:
        message: What is wrong.
        param: The invalid field.
    """

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked request."""

    messages: tuple[ChatMessage, ...]
    schema: ResponseSchema | None
    """None if no schema is requested."""
    input_chars: int


def read_request(body: Any) -> Asked:
    """Check a request's body.

    Sampling parameters and length limits are accepted and ignored.

    Raises:
        BadRequestError: A field is missing, of a wrong type, or not supported (streams, several choices).
    """
    if not isinstance(body, Mapping):
        raise BadRequestError("the body must be a JSON object")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise BadRequestError("model must be a text", "model")
    if body.get("stream"):
        raise BadRequestError("stream is not supported; omit it", "stream")
    if body.get("n") not in {None, 1}:
        raise BadRequestError("n must be 1", "n")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages must be a list of at least one message", "messages")
    turns = [_turn(number, message) for number, message in enumerate(messages)]
    return Asked(
        messages=tuple(turns),
        schema=_schema(body.get("response_format")),
        input_chars=sum(len(turn.content) for turn in turns),
    )


def read_texts(body: Any) -> list[str]:
    """Check the body of an embeddings request and return its texts.

    Raises:
        BadRequestError: `input` is not a text or list of texts.
    """
    given = body.get("input") if isinstance(body, Mapping) else None
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(one, str) and one for one in texts):
        raise BadRequestError("input must be a text or a list of texts, none empty", "input")
    return texts


def _turn(number: int, message: Any) -> ChatMessage:
    where = f"messages[{number}]"
    if not isinstance(message, Mapping):
        raise BadRequestError(f"{where} must be an object", where)
    role = message.get("role")
    known = _ROLES.get(role) if isinstance(role, str) else None
    if known is None:
        raise BadRequestError(f"{where}.role must be one of {', '.join(sorted(_ROLES))}", f"{where}.role")
    content = message.get("content")
    if isinstance(content, list) and all(
        isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in content
    ):
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise BadRequestError(f"{where}.content must be a text", f"{where}.content")
    return ChatMessage(known, content)


def _schema(response_format: Any) -> ResponseSchema | None:
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if not isinstance(kind, str) or kind not in _FORMATS:
        raise BadRequestError(
            "response_format.type must be one of text, json_object, json_schema", "response_format"
        )
    if kind != "json_schema":
        return None
    named = response_format.get("json_schema")
    name = named.get("name") if isinstance(named, Mapping) else None
    if not isinstance(name, str) or not name:
        raise BadRequestError("response_format.json_schema needs a name and a schema", "response_format")
    schema = named.get("schema")
    return ResponseSchema(name, schema if isinstance(schema, Mapping) else {})
