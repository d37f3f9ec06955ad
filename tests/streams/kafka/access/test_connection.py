"""One connection to a broker that does not answer as brokers do."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.admin import ApiVersionRequest
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest

from streams.kafka.access import connection as module
from streams.kafka.access.connections import open_connection

HEARTBEAT, SYNC, API_VERSIONS = 12, 14, 18
KNOWN = struct.pack(">hi9h", 0, 3, HEARTBEAT, 0, 1, SYNC, 0, 0, API_VERSIONS, 0, 0)

Answer = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]


@asynccontextmanager
async def broker(answer: Answer) -> AsyncIterator[int]:
    """Say which requests it knows, and then answer in its own way: gets the correlation id."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        known = False
        try:
            while size := await reader.read(4):
                request = await reader.readexactly(int.from_bytes(size))
                correlation = request[4:8]
                if known:
                    await answer(writer, correlation)
                else:
                    writer.write(struct.pack(">i", len(KNOWN) + 4) + correlation + KNOWN)
                known = True
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def nothing(_writer: asyncio.StreamWriter, _correlation: bytes) -> None:
    """Take the request, and that is all."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.08)


async def test_a_half_open_connection_is_closed() -> None:
    """Whatever was sent on it fails as on a connection that was cut, in the time of `QUIET_SECONDS`.

    Else a heartbeat waits for the 40 s that aiokafka gives it, and the session is over.
    """
    async with broker(nothing) as port:
        connection = await open_connection("127.0.0.1", port)
        first, second = (connection.send(HeartbeatRequest("g", 1, "m")) for _ in range(2))
        async with asyncio.timeout(30):
            for answer in (first, second):
                with pytest.raises(KafkaConnectionError):
                    await answer
        await connection.end()


async def test_a_join_is_waited_for() -> None:
    """It takes as long as the slowest member of the group: here four times `QUIET_SECONDS`."""

    async def late(writer: asyncio.StreamWriter, correlation: bytes) -> None:
        await asyncio.sleep(0.32)  # the broker's own pace
        answer = correlation + struct.pack(">hi", 0, 0)
        writer.write(struct.pack(">i", len(answer)) + answer)

    async with broker(late) as port:
        connection = await open_connection("127.0.0.1", port)
        answer = await connection.send(SyncGroupRequest("g", 1, "m", "", []))
        assert answer.error_code == 0
        await connection.end()


async def test_an_answer_that_comes_in_small_pieces_is_waited_for() -> None:
    """A slow line is none that is half-open: here an answer takes seven times `QUIET_SECONDS`."""

    async def drip(writer: asyncio.StreamWriter, correlation: bytes) -> None:
        answer = struct.pack(">i", 10) + correlation + struct.pack(">ih", 0, 0)
        for byte in answer:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.04)  # the line's own pace

    async with broker(drip) as port:
        connection = await open_connection("127.0.0.1", port)
        answer = await connection.send(HeartbeatRequest("g", 1, "m"))
        assert answer.error_code == 0
        await connection.end()


async def test_a_broker_that_throttles_is_waited_for() -> None:
    """It answers, says for how long it will not read on, and then answers again: after four times
    `QUIET_SECONDS`.
    """
    reads_on = asyncio.Event()

    async def throttle(writer: asyncio.StreamWriter, correlation: bytes) -> None:
        if reads_on.is_set():
            await asyncio.sleep(0.32)  # the broker's own pace
        reads_on.set()
        writer.write(struct.pack(">i", 10) + correlation + struct.pack(">ih", 5_000, 0))

    async with broker(throttle) as port:
        connection = await open_connection("127.0.0.1", port)
        for _ in range(2):
            assert (await connection.send(HeartbeatRequest("g", 1, "m"))).error_code == 0
        await connection.end()


async def test_a_connection_that_nobody_uses_stays() -> None:
    """Where nothing is owed, silence says nothing."""

    async def same(writer: asyncio.StreamWriter, correlation: bytes) -> None:
        writer.write(struct.pack(">i", len(KNOWN) + 4) + correlation + KNOWN)

    async with broker(same) as port:
        connection = await open_connection("127.0.0.1", port)
        for _ in range(2):
            assert (await connection.send(ApiVersionRequest())).error_code == 0
            await asyncio.sleep(0.2)  # more than twice as long as a broker may be quiet
        await connection.end()
