"""Errors never quote a server, because it may quote question and answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from judge.chat import ChatMessage, ChatRequest
from judge.endpoint.openai_chat import OpenAIChat
from judge.errors import JudgeError

CANARY = "canary7391"
ASK = ChatRequest(messages=(ChatMessage("user", f"My name is {CANARY}."),))


@asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[str]:
    """Answers any request with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"


def reply(status: str, body: object = b"", **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{head}\r\n".encode() + content


def chat_reply(**message: object) -> bytes:
    return reply("200 OK", {"choices": [{"message": message, "finish_reason": "stop"}], "model": "m"})


ANSWERS = {
    "message": reply("400 Bad", {"error": {"message": f"odd: {CANARY}"}}),
    "code": reply("400 Bad", {"error": {"message": "no", "code": CANARY}}),
    "type": reply("429 Later", {"error": {"message": "no", "type": f"{CANARY}_error"}}),
    "param": reply("401 No", {"error": {"message": "no", "param": f"messages.{CANARY}"}}),
    "inner code": reply("400 Bad", {"error": {"innererror": {"code": CANARY}}}),
    "detail": reply("422 Bad", {"detail": [{"loc": ["body", CANARY], "input": CANARY}]}),
    "content filter": reply("400 Bad", {"error": {"message": f"content policy: {CANARY}"}}),
    "error in a success": reply("200 OK", {"error": {"message": CANARY, "code": 400}}),
    "refusal": chat_reply(content=None, refusal=f"I will not judge {CANARY}"),
    "page": reply("502 Bad", f"<html>{CANARY}</html>".encode(), Content_Type="text/html"),
    "page in a success": reply("200 OK", f"<html>{CANARY}</html>".encode()),
    "content type": reply("200 OK", b"x", Content_Type=f"text/{CANARY}"),
    "content encoding": reply("200 OK", b"x", Content_Encoding=CANARY),
    "packed wrongly": reply("200 OK", CANARY.encode(), Content_Encoding="gzip"),
    "location": reply("307 Elsewhere", b"", Location=f"http://{CANARY}.example/?q={CANARY}"),
    "reason": reply(f"503 {CANARY}"),
    "retry-after": reply("503 Later", b"", Retry_After=CANARY),
    "status": f"HTTP/1.1 {CANARY}\r\n\r\n".encode(),
    "no HTTP": f"{CANARY}\r\n\r\n".encode(),
    "header": f"HTTP/1.1 200 OK\r\n{CANARY} {CANARY}\r\n\r\n".encode(),
    "length": f"HTTP/1.1 200 OK\r\nContent-Length: {CANARY}\r\n\r\n".encode(),
    "chunk": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n".encode(),
    "events": reply(
        "200 OK", f'data: {{"error": "{CANARY}"}}\n\n'.encode(), Content_Type="text/event-stream"
    ),
    "cut": f"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{CANARY}".encode(),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_error_and_no_log_line_quotes_the_server(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No error and no log line from level info up contains the server's words."""
    caplog.set_level(logging.INFO)
    async with server(ANSWERS[name]) as url:
        chat = OpenAIChat(endpoint="primary", model="m", base_url=url, api_key="k", timeout_seconds=30)
        with pytest.raises(JudgeError) as caught:
            await chat.complete(ASK)
        await chat.close()
    assert "primary" in str(caught.value) or "refused to judge" in str(caught.value)
    assert CANARY not in f"{caught.value!r} {caught.value} {vars(caught.value) | {'said': ''}}"
    # The HTTP client logs the reason on level info; the worker drops those lines above debug.
    assert not [one for one in caplog.records if one.name != "httpx2" and CANARY in one.getMessage()]
