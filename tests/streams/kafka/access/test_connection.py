"""A connection to a broker that answers late, slowly or not at all."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.admin import ApiVersionRequest
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest

from streams.kafka.access import connection as module
from streams.kafka.access.connection import open_connection
from tests.listening import listening

HEARTBEAT, SYNC, API_VERSIONS = 12, 14, 18
KNOWN = struct.pack(">hi9h", 0, 3, HEARTBEAT, 0, 1, SYNC, 0, 0, API_VERSIONS, 0, 0)

Answer = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]


@asynccontextmanager
async def broker(answer: Answer) -> AsyncIterator[int]:
    """Run a broker that answers ApiVersions, and then calls `answer` with the correlation id."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        known = False
        while size := await reader.read(4):
            request = await reader.readexactly(int.from_bytes(size))
            correlation = request[4:8]
            if known:
                await answer(writer, correlation)
            else:
                writer.write(struct.pack(">i", len(KNOWN) + 4) + correlation + KNOWN)
            known = True

    async with listening(serve) as port:
        yield port


async def nothing(_writer: asyncio.StreamWriter, _correlation: bytes) -> None:
    """Accept the request and do not answer."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.08)


async def test_a_half_open_connection_is_closed() -> None:
    """Without this a heartbeat waits for aiokafka's 40 s, and the session expires."""
    async with broker(nothing) as port:
        connection = await open_connection("127.0.0.1", port)
        first, second = (connection.send(HeartbeatRequest("g", 1, "m")) for _ in range(2))
        async with asyncio.timeout(30):
            for answer in (first, second):
                with pytest.raises(KafkaConnectionError):
                    await answer
        await connection.end()


async def late(writer: asyncio.StreamWriter, correlation: bytes) -> None:
    """Answer a join after four times `QUIET_SECONDS`, when the other members have come."""
    await asyncio.sleep(0.32)  # the broker's delay
    writer.write(struct.pack(">i", 10) + correlation + struct.pack(">hi", 0, 0))


async def drip(writer: asyncio.StreamWriter, correlation: bytes) -> None:
    """Send the answer within seven times `QUIET_SECONDS`, over a slow line."""
    for byte in struct.pack(">i", 10) + correlation + struct.pack(">ih", 0, 0):
        writer.write(bytes([byte]))
        await asyncio.sleep(0.04)  # the line's delay


def throttle() -> Answer:
    """Announce a pause of 5 s, and take four times `QUIET_SECONDS` for the next answer."""
    reads_on = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter, correlation: bytes) -> None:
        if reads_on.is_set():
            await asyncio.sleep(0.32)  # the broker's delay
        reads_on.set()
        writer.write(struct.pack(">i", 10) + correlation + struct.pack(">ih", 5_000, 0))

    return answer


JOIN, HEART = SyncGroupRequest("g", 1, "m", "", []), HeartbeatRequest("g", 1, "m")


@pytest.mark.parametrize(
    ("answer", "requests"),
    [(late, [JOIN]), (drip, [HEART]), (throttle(), [HEART] * 2)],
    ids=["join", "slow line", "throttled"],
)
async def test_an_answer_that_takes_long_is_waited_for(answer: Answer, requests: list[Any]) -> None:
    async with broker(answer) as port:
        connection = await open_connection("127.0.0.1", port)
        for request in requests:
            assert (await connection.send(request)).error_code == 0
        await connection.end()


async def test_an_idle_connection_stays_open() -> None:
    async def same(writer: asyncio.StreamWriter, correlation: bytes) -> None:
        writer.write(struct.pack(">i", len(KNOWN) + 4) + correlation + KNOWN)

    async with broker(same) as port:
        connection = await open_connection("127.0.0.1", port)
        for _ in range(2):
            assert (await connection.send(ApiVersionRequest())).error_code == 0
            await asyncio.sleep(0.2)  # more than twice QUIET_SECONDS
        await connection.end()
