"""A TCP proxy that decodes enough of the Kafka protocol to inject faults."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final, Literal

from aiokafka.protocol.produce import ProduceRequest_v5, ProduceRequest_v6, ProduceRequest_v7
from aiokafka.protocol.types import Int32, String

Mode = Literal["pass", "slow", "half-open"]
Way = Literal["requests", "answers"]
BOTH_WAYS: Final[tuple[Way, ...]] = ("requests", "answers")
_PRODUCE = 0
_PRODUCE_FORMS = {5: ProduceRequest_v5, 6: ProduceRequest_v6, 7: ProduceRequest_v7}


@dataclass(eq=False, slots=True)
class _Link:
    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    owed: int = 0
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while none is outstanding."""
    lost: Collection[Way] = ()
    """The directions in which this link loses all data for good."""

    def close(self) -> None:
        self.client.close()
        self.broker.close()


class Proxy:
    """A proxy between clients and a broker that advertises it; both ports are on loopback."""

    def __init__(self, port: int, target_port: int) -> None:
        self.mode: Mode = "pass"
        """slow: every frame is delayed; half-open: connections of that time stay so for good."""
        self.delay_seconds = 0.15
        self.produce_error: int | None = None
        """If set, produce requests get this Kafka error and do not reach the broker."""
        self.produce_errors = 0
        self.port = port
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._lost: Collection[Way] = BOTH_WAYS

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def close(self) -> None:
        """Refuse new connections and cut the present ones."""
        if self._server is not None:
            self._server.close()
        self.cut()
        if self._server is not None:
            await self._server.wait_closed()
        self._server = None

    def cut(self) -> None:
        for link in tuple(self._links):
            link.close()

    def go_half_open(self, lost: Collection[Way] = BOTH_WAYS) -> None:
        """Drop these directions on the present connections, and on new ones until the mode changes."""
        self.mode, self._lost = "half-open", lost
        for link in self._links:
            link.lost = lost

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_broker, broker = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.close()
            return
        link = _Link(writer, broker, lost=self._lost if self.mode == "half-open" else ())
        link.settled.set()
        self._links.add(link)
        try:
            ways = [
                asyncio.create_task(self._forward(link, "requests", reader, self._request)),
                asyncio.create_task(self._forward(link, "answers", from_broker, self._answer)),
            ]
            _, other = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in other:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._links.discard(link)
            link.close()

    async def _forward(
        self,
        link: _Link,
        way: Way,
        reader: asyncio.StreamReader,
        deliver: Callable[[_Link, bytes], Awaitable[None]],
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", size)[0])
                if self.mode == "slow":
                    await asyncio.sleep(self.delay_seconds)
                if way not in link.lost:
                    await deliver(link, frame)

    async def _request(self, link: _Link, frame: bytes) -> None:
        error = self.produce_error
        if error is not None and struct.unpack_from(">h", frame)[0] == _PRODUCE:
            await link.settled.wait()  # answers keep the order of requests
            self.produce_errors += 1
            await _send(link.client, refusal(frame, error))
            return
        link.owed += 1
        link.settled.clear()
        await _send(link.broker, frame)

    async def _answer(self, link: _Link, frame: bytes) -> None:
        await _send(link.client, frame)
        link.owed -= 1
        if link.owed == 0:
            link.settled.set()


async def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()


def refusal(request: bytes, error: int) -> bytes:
    """A produce response with one error for all partitions."""
    body = BytesIO(request)
    _, version, correlation_id = struct.unpack(">hhi", body.read(8))
    String("utf-8").decode(body)  # client id
    asked = _PRODUCE_FORMS[version].decode(body)
    topics = [
        (topic, [(number, error, -1, -1, -1) for number, _ in partitions])  # no offset and no times
        for topic, partitions in asked.topics
    ]
    answer: bytes = Int32.encode(correlation_id) + asked.RESPONSE_TYPE(topics, 0).encode()
    return answer
