"""Write requests for chat completions or embeddings, with one of several response formats.

Not every OpenAI-compatible server accepts a JSON Schema. If one refuses it, the schema goes into the prompt
and the next weaker format is tried; the checks of the reply stay the same. The schema is placed at the end of
the system turn, so that the cacheable prefix stays constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import orjson

from judge.chat import ChatMessage, ChatRequest, ResponseSchema
from judge.errors import JudgeConfigurationError
from judge.text.characters import without_lone_surrogates

_RESERVED = frozenset(
    {"model", "messages", "response_format", "stream", "stream_options", "n", "tools", "tool_choice", "input"}
)
_CACHED_SCHEMAS = 64
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
        """The next weaker format; None after the last."""
        formats = list(ResponseFormat)
        following = formats.index(self) + 1
        return formats[following] if following < len(formats) else None


@dataclass(frozen=True, slots=True)
class AskedForm:
    """Parts of a request for one schema in one format."""

    response_format: orjson.Fragment | None
    """The field of that name, as JSON; None: omitted."""
    instruction: str | None
    """The instruction for the prompt; None: none."""

    def with_instruction(self, messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
        """Return the messages with the instruction at the end of the system turn, added if missing."""
        if self.instruction is None:
            return messages
        if messages and messages[0].role == "system":
            first = ChatMessage("system", f"{messages[0].content.rstrip()}\n\n{self.instruction}")
            return (first, *messages[1:])
        return (ChatMessage("system", self.instruction), *messages)


def asked_form(schema: ResponseSchema, response_format: ResponseFormat) -> AskedForm:
    """Build a request's parts for a schema in a format."""
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


class RequestWriter:
    """Writes requests for one model at one endpoint.

    Args:
        endpoint: The endpoint's configured name, for messages.
        model: The model.
        host: Host of the endpoint; OpenAI uses another name for the reply's limit.
    """

    def __init__(self, *, endpoint: str, model: str, host: str) -> None:
        self._endpoint = endpoint
        self._model = model
        self._length_parameter = _length_parameter(host)
        self._forms: dict[tuple[int, ResponseFormat], tuple[ResponseSchema, AskedForm]] = {}

    def write(self, request: ChatRequest, response_format: ResponseFormat) -> bytes:
        """Return a request as JSON, with the given response format.

        Raises:
            JudgeConfigurationError: The parameters are reserved, or cannot be written as JSON.
        """
        clash = _RESERVED.intersection(request.parameters)
        if clash:
            raise JudgeConfigurationError(
                f"parameters of judge endpoint {self._endpoint} must not hold {', '.join(sorted(clash))}: "
                "the judge sets these itself"
            )
        if request.embeds:
            texts = [without_lone_surrogates(message.content) for message in request.messages]
            return self._bytes({"model": self._model, "input": texts, **request.parameters})
        body: dict[str, Any] = {"model": self._model, "messages": request.messages}
        if request.response_schema is not None:
            form = self._form(request.response_schema, response_format)
            body["messages"] = form.with_instruction(request.messages)
            if form.response_format is not None:
                body["response_format"] = form.response_format
        if not {"max_tokens", "max_completion_tokens"}.intersection(request.parameters):
            body[self._length_parameter] = request.max_output_tokens
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
        return self._bytes(body)

    def _bytes(self, body: dict[str, Any]) -> bytes:
        try:
            return orjson.dumps(body)
        except TypeError as error:
            raise JudgeConfigurationError(
                f"parameters of judge endpoint {self._endpoint} cannot be written as JSON: {error}"
            ) from error

    def _form(self, schema: ResponseSchema, response_format: ResponseFormat) -> AskedForm:
        """Return the cached form of a schema (the entry holds the schema, so its id stays unique)."""
        key = (id(schema), response_format)
        known = self._forms.get(key)
        if known is not None:
            return known[1]
        if len(self._forms) >= _CACHED_SCHEMAS:
            self._forms.clear()
        form = asked_form(schema, response_format)
        self._forms[key] = (schema, form)
        return form


def _length_parameter(host: str) -> str:
    """Return the name of the parameter that limits the reply.

    OpenAI has deprecated `max_tokens`, and its newer models refuse it. Most other servers accept
    `max_tokens`, and some accept nothing else. If `parameters` sets either, only that one is sent.
    """
    is_openai = host == "api.openai.com" or host.endswith(".api.openai.com")
    return "max_completion_tokens" if is_openai else "max_tokens"
