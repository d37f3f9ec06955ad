"""Client of an OpenAI-compatible endpoint: OpenAI, Azure, vLLM, Ollama, a gateway, or the offline judge.

A call is not retried, with one exception: if the endpoint refuses the response format or the temperature, the
call continues with a weaker format or without it, and later calls do the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import ServerTimeoutError

from judge.chat import ChatReply, ChatRequest
from judge.endpoints.connection import (
    BROKEN,
    ApiConnection,
    Response,
    UnreadReplyError,
    is_success,
    open_api,
    post,
)
from judge.endpoints.payloads import (
    Completion,
    NoCompletionError,
    ResponseFormat,
    loaded,
    read_completion,
    read_cosine,
    write_request,
)
from judge.endpoints.refusals import MAX_MESSAGE_CHARS, error_for_status, rate_limits, retry_after_seconds
from judge.errors import (
    EventError,
    InvalidVerdictError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
    ResponseFormatError,
)
from judge.text.normal import quoted
from judge.text.printable import NO_DESCRIPTORS, cause_of
from schemas import Usage

_log = logging.getLogger(__name__)

OPENAI_BASE_URL: Final = "https://api.openai.com/v1"
MAX_REPLY_BYTES: Final = 2 * 1024 * 1024

_MEDIA_TYPES = frozenset({
    "application/json", "application/octet-stream", "application/problem+json", "application/xml",
    "text/event-stream", "text/html", "text/plain", "text/xml",
})  # fmt: skip


class OpenAIChat:
    """One model at one endpoint, to be created, used and closed in the same running event loop.

    Args:
        base_url: Including `/v1`; default: OpenAI's own.
        api_key: Never read from the environment here, so that it is not sent to another service.
        timeout_seconds: Of one call, from the wait for a connection to the last byte; above 0.
        max_connections: At least 1; should not be below the calls in flight.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        model: str,
        base_url: str = OPENAI_BASE_URL,
        api_key: str = "",
        timeout_seconds: float = 30.0,
        max_connections: int = 256,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        host = _host(endpoint, base_url)
        if timeout_seconds <= 0:
            told = f"judge endpoint {endpoint}: timeout_seconds must be above 0, got {timeout_seconds}"
            raise JudgeConfigurationError(told)
        key = api_key.strip()
        if not (key.isascii() and key.isprintable()):
            raise JudgeConfigurationError(
                f"the API key of judge endpoint {endpoint} contains characters that are invalid in an HTTP "
                "header: check the secret for line breaks or quotes"
            )
        self.endpoint = endpoint
        self.model = model
        self.said = ""
        """The endpoint's last refusal, truncated; see `JudgeError.said`."""
        self.response_format = ResponseFormat.JSON_SCHEMA
        """Weaker than a JSON Schema after the endpoint refused that."""
        self._takes_temperature = True
        self._key = key
        self._timeout_seconds = timeout_seconds
        self._max_reply_bytes = max_reply_bytes
        self._write = partial(write_request, endpoint=endpoint, model=model, host=host)
        self._open = partial(open_api, base_url, key or "none-needed", timeout_seconds, max_connections)

    @cached_property
    def _api(self) -> ApiConnection:
        """The API, opened by the first call: a worker reads before the SDK is imported."""
        try:
            return self._open()
        except OSError as error:
            raise self._broken_off(error) from error
        except ValueError as error:
            told = f"judge endpoint {self.endpoint}: {error}; check the proxy variables of the environment"
            raise JudgeConfigurationError(told) from error

    async def complete(self, request: ChatRequest) -> ChatReply:
        """As `ChatClient`; a reply that is no chat completion (a proxy's page) is a JudgeUnavailableError."""
        api = self._api
        deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        response_format = self.response_format
        request = self._without_refused(request)
        while True:
            content = self._write(request, response_format)
            started = time.perf_counter()
            try:
                async with asyncio.timeout_at(deadline):
                    response = await post(api, content, request, max_bytes=self._max_reply_bytes)
            except BROKEN as error:
                raise self._broken_off(error) from error
            refused = response.status in {400, 422} and b"temperature" in response.body
            if refused and request.temperature is not None:
                self._takes_temperature = False
                told = "judge endpoint %s refuses temperature %s; it is not sent any more"
                _log.warning(told, self.endpoint, request.temperature)
                request = replace(request, temperature=None)
                continue
            try:
                return self._reply(response, request, response_format, time.perf_counter() - started)
            except ResponseFormatError:
                weaker = response_format.weaker
                if weaker is None:
                    raise
                response_format = weaker

    def _without_refused(self, request: ChatRequest) -> ChatRequest:
        if request.embeds or not self._takes_temperature or "temperature" in request.parameters:
            return replace(request, temperature=None)
        return request

    @property
    def sdk(self) -> Any:
        """The client of the SDK, with the address, key and connections of this one."""
        return self._api.sdk

    def body(self, request: ChatRequest) -> bytes:
        """Return what `complete` sends."""
        return self._write(self._without_refused(request), self.response_format)

    def reply(self, body: bytes, request: ChatRequest) -> ChatReply:
        """Return what `complete` returns or raises for the body of a reply."""
        return self._reply(Response(200, {}, body), request, self.response_format, 0.0)

    async def close(self) -> None:
        if "_api" in vars(self):
            await self._api.sdk.close()

    def _broken_off(self, error: Exception) -> JudgeError:
        if isinstance(error, TimeoutError) and not isinstance(error, ServerTimeoutError):
            told = f"judge endpoint {self.endpoint} did not answer within {self._timeout_seconds:g} s"
            return JudgeUnavailableError(told, kind="timeout")
        if isinstance(error, UnreadReplyError) and error.is_event_s:
            return InvalidVerdictError(f"judge {self.model} at {self.endpoint}: {error}")
        why = str(error) if isinstance(error, UnreadReplyError) else cause_of(error)
        is_ours = why == NO_DESCRIPTORS
        happened = "cannot be asked" if is_ours else "cannot be reached or closed the connection"
        return JudgeUnavailableError(f"judge endpoint {self.endpoint} {happened}: {why}")

    def _reply(
        self, response: Response, request: ChatRequest, response_format: ResponseFormat, seconds: float
    ) -> ChatReply:
        schema_sent = request.response_schema is not None and response_format is not ResponseFormat.PLAIN
        status, headers, body = response
        if not is_success(status):
            text = body.decode("utf-8", "replace").strip()
            raise self._refusal(headers, status, loaded(text) or text, schema_sent=schema_sent)
        try:
            completion = (read_cosine if request.embeds else read_completion)(body)
        except NoCompletionError as error:
            if error.body is None:
                wanted = "pair of vectors" if request.embeds else "chat completion"
                _log.debug("judge endpoint %s said [foreign text, cut]: %s", self.endpoint, error)
                told = f"answered {status} with a body that is not a {wanted} ({_media_type(headers)})"
                refusal: JudgeError = JudgeUnavailableError(f"judge endpoint {self.endpoint} {told}")
            else:
                refusal = self._refusal(headers, error.status, error.body, schema_sent=schema_sent)
            refusal.reply = _paid(ChatReply("", self.model, error.usage, seconds))
            raise refusal from error
        if request.response_schema is not None:
            self._accepted(response_format)
        model, limits = completion.model or self.model, rate_limits(headers)
        answer = ChatReply(
            completion.text, model, completion.usage, seconds, limits, completion.system_fingerprint
        )
        stopped = self._stopped(completion, request)
        if stopped is not None:
            stopped.reply = _paid(answer)
            raise stopped
        return answer

    def _accepted(self, response_format: ResponseFormat) -> None:
        """Use this response format from now on; a refusal alone may have another reason."""
        if response_format is self.response_format:
            return
        formats = list(ResponseFormat)
        if formats.index(response_format) > formats.index(self.response_format):
            refused, self.response_format = self.response_format, response_format
            told = f"{response_format.value} from now on, with the schema in the prompt"
            _log.warning(
                "judge endpoint %s refuses response_format %s; using %s", self.endpoint, refused.value, told
            )

    def _stopped(self, completion: Completion, request: ChatRequest) -> EventError | None:
        if completion.refusal:
            self._heard(completion.refusal[:MAX_MESSAGE_CHARS])
            return EventError("content_refused", f"judge {self.model} refused to judge it")
        if completion.finish_reason == "content_filter":
            why = f"the content filter of {self.endpoint} stopped {self.model}"
            return EventError("content_refused", why)
        if completion.finish_reason == "length":
            limit = f"({request.max_output_tokens} tokens asked for)"
            return EventError("reply_cut", f"the reply of {self.model} ended at its length limit {limit}")
        return None

    def _refusal(
        self, headers: Mapping[str, str], status: int, body: object, *, schema_sent: bool
    ) -> JudgeError:
        error = error_for_status(
            endpoint=self.endpoint, status=status, body=body, schema_sent=schema_sent, secret=self._key
        )
        if isinstance(error, JudgeUnavailableError):
            error.retry_after_seconds = retry_after_seconds(headers, now=datetime.now(UTC))
            error.limits = rate_limits(headers)
        self._heard(error.said)
        return error

    def _heard(self, words: str) -> None:
        self.said = words
        _log.debug("judge endpoint %s said [foreign text, cut]: %s", self.endpoint, quoted(words))


def _paid(reply: ChatReply) -> ChatReply | None:
    return reply if reply.usage != Usage() else None


def _host(endpoint: str, base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"}:
        raise JudgeConfigurationError(
            f"base_url of judge endpoint {endpoint} must be an http:// or https:// address with a host"
        )
    return host


def _media_type(headers: Mapping[str, str]) -> str:
    given = headers.get("content-type", "")
    name = given.partition(";")[0].strip().lower()
    return name if name in _MEDIA_TYPES else ("another content type" if given else "no content type")
