"""The offline judge behind an OpenAI-compatible address: the real call path without a key or model."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from typing import Annotated, Any, Final, Literal, Self

import orjson
from aiohttp import web
from pydantic import BaseModel, Field, ValidationError, model_validator

from judge.chat import OFFLINE_MODEL, ChatMessage, ChatReply, ChatRequest, ResponseSchema
from judge.endpoints.options import is_loopback
from judge.endpoints.payloads import compared
from judge.errors import EventError, JudgeConfigurationError
from judge.offline.rules import REFUSAL, judge_messages, vectors
from judge.text.printable import problems_of
from schemas import Usage

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
CHARS_PER_TOKEN: Final = 4
"""Estimate for the token counts in `usage`, rounded up."""
_THREAD_FROM_CHARS = 64 * 1024
_SHUTDOWN_SECONDS = 1.0
_PARAM_INDEX = re.compile(r"\.(\d+)\b")


class OfflineChat:
    """Answers like `OfflineJudge`, in this process: for the library, and for tests without HTTP."""

    endpoint = "offline"
    model = OFFLINE_MODEL

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer by rules; EventError if the prompt contains no answer."""
        began = time.monotonic()
        if request.embeds:
            text = compared(vectors([message.content for message in request.messages])) or ""
            return ChatReply(text, OFFLINE_MODEL, Usage(), time.monotonic() - began)
        reply = await asyncio.to_thread(judge_messages, request.messages, schema=request.response_schema)
        if reply is None:
            raise EventError("content_refused", REFUSAL)
        return ChatReply(reply, OFFLINE_MODEL, Usage(), time.monotonic() - began)

    async def close(self) -> None:
        """Do nothing."""


class OfflineJudge:
    """Serves `POST /v1/chat/completions`, `POST /v1/embeddings` and `GET /v1/models` on loopback.

    Replies name the model `offline-rules-1`, whatever model is requested.

    Args:
        host: A loopback address; others are refused, because there is no authentication.
        port: The port; 0: a free one.
        latency_seconds: Delay before each answer, to simulate a model; 0 or more.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, latency_seconds: float = 0.0) -> None:
        if not is_loopback(host):
            raise JudgeConfigurationError(
                "the offline judge serves this machine only: host must be a loopback address such "
                f"as 127.0.0.1, got {host}"
            )
        if latency_seconds < 0:
            raise JudgeConfigurationError(f"latency_seconds must be 0 or more, got {latency_seconds}")
        self._host = host
        self._port = port
        self._latency_seconds = latency_seconds
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        """Address of the API, including `/v1`; available after `start`."""
        if self._runner is None or not self._runner.addresses:
            raise RuntimeError("the offline judge has no address until it is started")
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"

    @property
    def model(self) -> str:
        return OFFLINE_MODEL

    async def start(self) -> None:
        """Start listening; raises OSError if the port is taken."""
        app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=[_errors_in_form])
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/v1/embeddings", self._embed)
        app.router.add_get("/v1/models", self._models)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening and close the connections."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _complete(self, request: web.Request) -> web.Response:
        raw = await request.read()
        body = _ChatBody.model_validate_json(raw)
        messages = [message.as_chat() for message in body.messages]
        named = body.response_format.json_schema if body.response_format is not None else None
        schema = None if named is None else ResponseSchema(named.name, named.schema_)
        await asyncio.sleep(self._latency_seconds)
        chars = sum(len(message.content) for message in messages)
        if chars >= _THREAD_FROM_CHARS:
            # May take seconds, which would block other requests.
            reply = await asyncio.to_thread(judge_messages, messages, schema=schema)
        else:
            reply = judge_messages(messages, schema=schema)
        return _json(_completion(reply, raw, chars))

    async def _embed(self, request: web.Request) -> web.Response:
        body = _EmbeddingBody.model_validate_json(await request.read())
        texts = [body.input] if isinstance(body.input, str) else body.input
        await asyncio.sleep(self._latency_seconds)
        found = await asyncio.to_thread(vectors, texts)
        data = [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(found)]
        tokens = _tokens(sum(map(len, texts)))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json({"object": "list", "model": OFFLINE_MODEL, "data": data, "usage": usage})

    async def _models(self, request: web.Request) -> web.Response:
        del request
        model = {"id": OFFLINE_MODEL, "object": "model", "created": 0, "owned_by": "judgestream"}
        return _json({"object": "list", "data": [model]})


class _Part(BaseModel):
    type: Literal["text"]
    text: str


class _ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]

    def as_chat(self) -> ChatMessage:
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return ChatMessage("system" if self.role == "developer" else self.role, text)


class _Schema(BaseModel):
    name: str = Field(min_length=1)
    schema_: dict[str, Any] = Field(default={}, alias="schema")


class _Format(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("json_schema must be given")
        return self


class _ChatBody(BaseModel):
    """A request, checked as a real endpoint would; sampling parameters and length limits are ignored."""

    model: str = Field(min_length=1)
    messages: list[_ChatMessage] = Field(min_length=1)
    stream: Literal[False] | None = None
    n: Literal[1] | None = None
    response_format: _Format | None = None


class _EmbeddingBody(BaseModel):
    input: str | list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)


def _completion(reply: str | None, raw: bytes, chars: int) -> dict[str, Any]:
    prompt_tokens = _tokens(chars)
    completion_tokens = _tokens(len(reply or REFUSAL))
    return {
        "id": f"chatcmpl-offline-{hashlib.sha256(raw).hexdigest()[:24]}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": OFFLINE_MODEL,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": reply,
                    "refusal": REFUSAL if reply is None else None,
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _json(content: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


@web.middleware
async def _errors_in_form(request: web.Request, handler: Any) -> web.StreamResponse:
    """Return errors in OpenAI's form, so that its SDK can read them."""
    status, param = 400, None
    try:
        response: web.StreamResponse = await handler(request)
    except ValidationError as error:
        message = "; ".join(problems_of(error, "the body", most=3))
        # Without the member of a union ("content.str").
        place = [str(one) for one in error.errors()[0]["loc"] if one != "str"]
        param = _PARAM_INDEX.sub(r"[\1]", ".".join(place)) or None
    except web.HTTPRequestEntityTooLarge:
        status, message = 413, f"the body must be at most {MAX_REQUEST_BYTES} bytes"
    except web.HTTPException as error:
        known = "POST /v1/chat/completions, POST /v1/embeddings and GET /v1/models are served"
        status, message = error.status, f"{request.method} {request.path}: {error.reason}; {known}"
    else:
        return response
    return _json(
        {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}, status
    )
