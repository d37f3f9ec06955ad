"""Connections that fail while they are made, and replies that come too late, from real servers."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import uvloop
from aiohttp import web

from judge.chat import ChatMessage, ChatRequest
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.options import EndpointOptions
from judge.endpoints.pool import EndpointPool
from judge.errors import JudgeUnavailableError
from judge.metrics.registry import build_metric
from schemas import Scored
from tests.judge.fake_openai import completion
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import TONE, make_task
from tests.listening import listening
from tests.loopback import on_loopback

ASK = ChatRequest((ChatMessage("user", "hello"),))
CALLERS = 32
CALLS = 60
ECHOES = 40


@contextmanager
def resetting() -> Iterator[int]:
    """A server that resets every connection within its TLS handshake; yields its port."""
    chance = random.Random(1)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)

    def reset(connection: socket.socket) -> None:
        with connection:
            if chance.random() < 0.5:
                connection.recv(2000)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Timer(chance.random() * 0.003, reset, (connection,)).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while said := await reader.read(100):
        writer.write(said)
        await writer.drain()


@pytest.mark.slow
def test_resets_within_tls_handshakes_harm_no_other_connection() -> None:
    """On uvloop, thousands of failed TLS connections give "unavailable", and other connections stay whole."""

    async def scenario(port: int) -> set[str]:
        chat = OpenAIChat(endpoint="e", model="m", base_url=f"https://localhost:{port}/v1", timeout_seconds=5)
        kinds: set[str] = set()

        async def call() -> None:
            for _ in range(CALLS):
                try:
                    await chat.complete(ASK)
                except JudgeUnavailableError as error:
                    kinds.add(error.kind)

        async def bystander(other: int) -> None:
            for _ in range(ECHOES):
                reader, writer = await asyncio.open_connection("127.0.0.1", other)
                for _ in range(10):
                    writer.write(b"hello")
                    assert await reader.readexactly(5) == b"hello"
                writer.close()
                await writer.wait_closed()

        async with listening(_echo) as other:
            await asyncio.gather(*(call() for _ in range(CALLERS)), *(bystander(other) for _ in range(16)))
        await chat.close()
        return kinds

    with resetting() as port:
        assert uvloop.run(scenario(port)) == {"unavailable"}


def _reply(answer: str) -> bytes:
    why = "It fits the question that was asked."
    body = completion(json.dumps({"answer_span": answer, "justification": why, "score": 5}))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def repeating(
    respond: Callable[[int, asyncio.StreamWriter, str], None],
) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that answers by hand; yields its address and the connection number of each request."""
    asked: list[int] = []
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number = connections
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            body = (await reader.readexactly(length)).decode()
            asked.append(number)
            respond(len(asked), writer, "second" if "second lake" in body else "first")

    async with listening(serve) as port:
        yield f"http://127.0.0.1:{port}/v1", asked


LENGTHS = {"first": 28, "second": 31}
ANSWERS = {name: f"The {name} lake is {length} kilometres long." for name, length in LENGTHS.items()}


@pytest.mark.parametrize("when", ["while idle", "within the next call"])
async def test_a_late_second_reply_is_no_other_events(when: str) -> None:
    late: list[asyncio.StreamWriter] = []

    def respond(number: int, writer: asyncio.StreamWriter, name: str) -> None:
        if number == 2 and when == "within the next call":
            writer.write(_reply(ANSWERS["first"]))
        writer.write(_reply(ANSWERS[name]))
        if number == 1 and when == "while idle":
            late.append(writer)

    async with repeating(respond) as (url, asked):
        chat = OpenAIChat(endpoint="e", model="m", base_url=url, timeout_seconds=5)
        async with EndpointPool([EndpointOptions(chat)]) as pool:
            judge = pool.judge(build_metric("answer_relevance"))
            for answer in ANSWERS.values():
                result = await judge.judge(make_task("answer_relevance", question="How long?", answer=answer))
                assert isinstance(result, Scored)
                assert answer in str(result.evidence)
                assert not result.corrections
                for writer in late:
                    writer.write(_reply(ANSWERS["first"]))
                    late.clear()
                for _ in range(20):  # until the client has read it
                    await asyncio.sleep(0)
    assert asked[0] == 1
    assert asked[-1] == 2


@pytest.mark.parametrize(
    ("base", "asked"),
    [
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("", "/chat/completions"),
        ("/a%2Fb/v1", "/a%2Fb/v1/chat/completions"),
        ("/openai/v1?api-version=preview", "/openai/v1/chat/completions?api-version=preview"),
    ],
)
async def test_calls_share_a_connection_and_have_the_sdks_headers(base: str, asked: str) -> None:
    """The path is put before the query, which some services use for API versions."""
    seen: list[web.Request] = []

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        seen.append(request)
        return web.Response(body=completion())

    app = web.Application()
    app.router.add_post("/{tail:.*}", handle)
    async with on_loopback(app) as address:
        chat = OpenAIChat(endpoint="e", model="m", base_url=f"{address}{base}", api_key="k-1")
        assert {(await chat.complete(ASK)).text for _ in range(2)} == {'{"score": 5}'}
        await chat.close()
    assert [request.raw_path for request in seen] == [asked] * 2
    assert len({request.transport for request in seen}) == 1
    headers = seen[0].headers
    assert "Transfer-Encoding" not in headers
    assert int(headers["Content-Length"]) == len(await seen[0].read())
    assert headers["Authorization"] == "Bearer k-1"
    assert headers["Content-Type"] == headers["Accept"] == "application/json"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"].startswith("AsyncOpenAI/")


WAITS = 300
DEADLINE_SECONDS = 30.0


def test_waits_of_less_than_a_millisecond_end() -> None:
    """A limit of 2,000 calls a second (0.5 ms apart) completes every call on uvloop."""

    async def judge_all() -> list[str]:
        chat = ScriptedChat(lambda _: '{"score": 3, "justification": "plain"}')
        tasks = [make_task("tone", answer=f"Answer {number}.") for number in range(WAITS)]
        async with EndpointPool([EndpointOptions(chat, requests_per_minute=120_000)]) as pool:
            judge = pool.judge(TONE)
            async with asyncio.timeout(DEADLINE_SECONDS):
                return [one.status for one in await asyncio.gather(*map(judge.judge, tasks))]

    assert uvloop.run(judge_all()) == ["scored"] * WAITS
