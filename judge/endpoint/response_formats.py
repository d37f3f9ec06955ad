"""The ways to ask an endpoint for JSON, from the strictest on. Pure.

Not every OpenAI-compatible server takes a JSON Schema. Where one refuses it, the schema goes into the prompt
and the next weaker way is tried; only the form of the reply is left to the model then, the checks of what it
says stay the same. The schema stands at the end of the system's turn, so that the beginning which endpoints
cache stays constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import orjson

from judge.chat import ChatMessage, ResponseSchema

_INSTRUCTION: Final = (
    "The reply must be one JSON object that is valid by this JSON Schema, with nothing around it:\n{schema}"
)


class ResponseFormat(Enum):
    """How a reply's form is asked for."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT_WITH_SCHEMA = "json_object with schema"
    """As llama-cpp-python's server takes it."""
    JSON_OBJECT = "json_object"
    PLAIN = "plain"

    @property
    def weaker(self) -> ResponseFormat | None:
        """The next one to try; None after the last."""
        formats = list(ResponseFormat)
        following = formats.index(self) + 1
        return formats[following] if following < len(formats) else None


@dataclass(frozen=True, slots=True)
class AskedForm:
    """What a request gets for one schema in one format."""

    response_format: orjson.Fragment | None
    """The field of that name, as JSON; None: it is left out."""
    instruction: str | None
    """What the prompt says of the form; None: nothing."""

    def with_instruction(self, messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
        """The conversation with the instruction at the end of the system turn, added where missing."""
        if self.instruction is None:
            return messages
        if messages and messages[0].role == "system":
            first = ChatMessage("system", f"{messages[0].content.rstrip()}\n\n{self.instruction}")
            return (first, *messages[1:])
        return (ChatMessage("system", self.instruction), *messages)


def asked_form(schema: ResponseSchema, response_format: ResponseFormat) -> AskedForm:
    """Build what a request needs for a schema in a format."""
    plain = dict(schema.schema)
    fields: dict[ResponseFormat, dict[str, Any] | None] = {
        ResponseFormat.JSON_SCHEMA: {
            "type": "json_schema",
            "json_schema": {"name": schema.name, "strict": True, "schema": plain},
        },
        ResponseFormat.JSON_OBJECT_WITH_SCHEMA: {"type": "json_object", "schema": plain},
        ResponseFormat.JSON_OBJECT: {"type": "json_object"},
        ResponseFormat.PLAIN: None,
    }
    field = fields[response_format]
    written = orjson.dumps(plain).decode()
    return AskedForm(
        response_format=None if field is None else orjson.Fragment(orjson.dumps(field)),
        instruction=None
        if response_format is ResponseFormat.JSON_SCHEMA
        else _INSTRUCTION.format(schema=written),
    )
