"""The offline judge behind an OpenAI-compatible address: the real call path without a key or model."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Any, Final, Self

import orjson
from aiohttp import web

from judge.chat import OFFLINE_MODEL, ChatMessage, ChatReply, ChatRequest, ResponseSchema
from judge.endpoints.options import is_loopback
from judge.endpoints.payloads import compared
from judge.errors import EventError, JudgeConfigurationError
from judge.offline.rules import REFUSAL, judge_messages, vectors
from schemas import Usage

CHARS_PER_TOKEN: Final = 4
"""Estimate for the token counts in `usage`, rounded up."""
_THREAD_FROM_CHARS = 64 * 1024
_SERVED: Final = "POST /v1/chat/completions, POST /v1/embeddings and GET /v1/models are served"


class OfflineChat:
    """Answers like `OfflineJudge`, in this process: for the library, and for tests without HTTP."""

    endpoint = "offline"
    model = OFFLINE_MODEL

    async def complete(self, request: ChatRequest) -> ChatReply:
        began = time.monotonic()
        if request.embeds:
            text = compared(vectors([message.content for message in request.messages])) or ""
            return ChatReply(text, OFFLINE_MODEL, Usage(), time.monotonic() - began)
        reply = await asyncio.to_thread(judge_messages, request.messages, schema=request.response_schema)
        if reply is None:
            raise EventError("content_refused", REFUSAL)
        return ChatReply(reply, OFFLINE_MODEL, Usage(), time.monotonic() - began)

    async def close(self) -> None: ...


class OfflineJudge:
    """Serves `POST /v1/chat/completions`, `POST /v1/embeddings` and `GET /v1/models` on loopback.

    Replies name the model `offline-rules-1`, whatever model is requested.

    Args:
        host: A loopback address; others are refused, because there is no authentication.
        port: The port; 0: a free one.
        latency_seconds: Delay before each answer, to simulate a model; 0 or more.
    """

    model = OFFLINE_MODEL

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
        self.answered = 0

    @property
    def base_url(self) -> str:
        if self._runner is None or not self._runner.addresses:
            raise RuntimeError("the offline judge has no address until it is started")
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"

    async def start(self) -> None:
        app = web.Application(client_max_size=32 * 1024 * 1024, middlewares=[_errors_in_form])
        app.router.add_routes(self.routes())
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._complete),
            web.post("/v1/embeddings", self._embed),
            web.get("/v1/models", self._models),
        ]

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _complete(self, request: web.Request) -> web.Response:
        return _json(await self.completion(await request.read(), latency_seconds=self._latency_seconds))

    async def completion(self, raw: bytes, *, latency_seconds: float = 0.0) -> dict[str, Any]:
        body = orjson.loads(raw)
        if body.get("stream") or body.get("n") not in {None, 1}:
            raise ValueError("stream must be false and n 1")
        messages, schema = [_message(one) for one in body["messages"]], _schema(body.get("response_format"))
        await asyncio.sleep(latency_seconds)
        self.answered += 1
        chars = sum(len(message.content) for message in messages)
        if chars >= _THREAD_FROM_CHARS:
            # May take seconds, which would block other requests.
            reply = await asyncio.to_thread(judge_messages, messages, schema=schema)
        else:
            reply = judge_messages(messages, schema=schema)
        refusal = REFUSAL if reply is None else None
        return {
            "id": f"chatcmpl-offline-{hashlib.sha256(raw).hexdigest()[:24]}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": OFFLINE_MODEL,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": reply, "refusal": refusal},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": _usage(chars, len(reply or REFUSAL)),
        }

    async def _embed(self, request: web.Request) -> web.Response:
        given = orjson.loads(await request.read())["input"]
        texts = [given] if isinstance(given, str) else [str(text) for text in given]
        await asyncio.sleep(self._latency_seconds)
        found = await asyncio.to_thread(vectors, texts)
        data = [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(found)]
        usage = _usage(sum(map(len, texts)), 0)
        return _json({"object": "list", "model": OFFLINE_MODEL, "data": data, "usage": usage})

    async def _models(self, request: web.Request) -> web.Response:
        del request
        model = {"id": OFFLINE_MODEL, "object": "model", "created": 0, "owned_by": "judgestream"}
        return _json({"object": "list", "data": [model]})


def _message(given: Any) -> ChatMessage:
    role, content = given["role"], given["content"]
    if role not in {"system", "developer", "user", "assistant"}:
        raise ValueError(f"no such role: {role!r:.40}")
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    return ChatMessage("system" if role == "developer" else role, text)


def _schema(response_format: Any) -> ResponseSchema | None:
    if response_format is None or response_format["type"] != "json_schema":
        return None
    named = response_format["json_schema"]
    return ResponseSchema(named["name"], named.get("schema", {}))


def _usage(prompt_chars: int, completion_chars: int) -> dict[str, Any]:
    prompt, completion = (-(-chars // CHARS_PER_TOKEN) for chars in (prompt_chars, completion_chars))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _json(content: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


@web.middleware
async def _errors_in_form(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        status, message = 400, f"the body cannot be read ({type(error).__name__}: {error})"
    except web.HTTPException as error:
        status, message = error.status, f"{request.method} {request.path}: {error.reason}; {_SERVED}"
    else:
        return response
    told = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return _json({"error": told}, status)
