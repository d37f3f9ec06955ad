"""Writes a request to a chat completions or embeddings API as bytes."""

from __future__ import annotations

from typing import Any

import orjson

from judge.chat import ChatMessage, ChatRequest, ResponseSchema
from judge.endpoint.response_formats import AskedForm, ResponseFormat, asked_form
from judge.errors import JudgeConfigurationError
from judge.text.characters import without_lone_surrogates

_RESERVED = frozenset(
    {"model", "messages", "response_format", "stream", "stream_options", "n", "tools", "tool_choice", "input"}
)
_CACHED_SCHEMAS = 64


class RequestWriter:
    """Requests for one model at one endpoint.

    Args:
        endpoint: The endpoint's configured name, for messages.
        model: The model to ask.
        host: Where it is; the bound on a reply has another name at OpenAI itself.
    """

    def __init__(self, *, endpoint: str, model: str, host: str) -> None:
        self._endpoint = endpoint
        self._model = model
        self._length_parameter = _length_parameter(host)
        self._forms: dict[tuple[int, ResponseFormat], tuple[ResponseSchema, AskedForm]] = {}

    def write(self, request: ChatRequest, response_format: ResponseFormat) -> bytes:
        """Write a request, with the reply's form asked for in a given way.

        Raises:
            JudgeConfigurationError: The parameters cannot be sent.
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
            # Lone surrogates in a text; rare enough to pay for only when it happens.
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
        """Written once for each schema (the entry keeps the schema, so its id stays its own)."""
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
    """How the bound on the reply is called.

    OpenAI itself has deprecated `max_tokens`, and its newer models refuse it. Nearly everything else that
    speaks this protocol knows `max_tokens`, and some of it knows nothing else. Either may be set among the
    parameters and is then sent alone.
    """
    is_openai = host == "api.openai.com" or host.endswith(".api.openai.com")
    return "max_completion_tokens" if is_openai else "max_tokens"
