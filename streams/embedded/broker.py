"""The embedded broker: connections, framing, versions, and isolation of clients from each other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import Iterable, Mapping
from typing import Final, Self

from streams.embedded.data_api import DataApis
from streams.embedded.group_api import GroupApis, GroupCoordinator
from streams.embedded.topic_api import TopicApis
from streams.embedded.topics import Topics
from streams.embedded.wire import (
    Api,
    ApiKey,
    EmbeddedBrokerError,
    ErrorCode,
    MalformedRequestError,
    Reader,
    Request,
    Writer,
)

_log = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"
"""This machine only, because there is neither encryption nor authentication."""
# A request contains batches of several partitions, so it may be much larger than one message.
_MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024
_LENGTH: Final = struct.Struct(">i")
_READ_AHEAD_BYTES: Final = 1024 * 1024
_SHORTEST_REQUEST_BYTES: Final = 8
_NEWEST_API_VERSIONS: Final = 2  # version 3 has another encoding


class ApiTable:
    def __init__(self, apis: Iterable[Api]) -> None:
        own = Api(ApiKey.API_VERSIONS, 0, _NEWEST_API_VERSIONS, self._api_versions)
        self._apis: dict[int, Api] = {int(api.key): api for api in (*apis, own)}

    async def answer(self, data: bytes, client_host: str) -> tuple[int, Writer | None]:
        body = Reader(data)
        key, version, correlation_id = body.int16(), body.int16(), body.int32()
        client_id = body.nullable_string() or ""
        if key == ApiKey.API_VERSIONS and version > _NEWEST_API_VERSIONS:
            # The version of this request cannot be negotiated: answer in the oldest encoding with an error.
            return correlation_id, self._versions(0, ErrorCode.UNSUPPORTED_VERSION)
        api = self._apis.get(key)
        if api is None:
            raise MalformedRequestError(f"request type {key} is not supported by the embedded broker")
        if not api.oldest <= version <= api.newest:
            raise MalformedRequestError(
                f"{api.key.name} version {version} is not supported, only {api.oldest}..{api.newest}"
            )
        return correlation_id, await api.handle(Request(version, client_id, client_host, body))

    async def _api_versions(self, request: Request) -> Writer:
        return self._versions(request.version, ErrorCode.NONE)

    def _versions(self, version: int, error: ErrorCode) -> Writer:
        reply = Writer()
        reply.int16(error)
        # From 0 on, though old ones are refused: librdkafka 2.5 and older know features by versions that they
        # do not use, and would write records in an old format. Kafka 4 does so, too (KAFKA-18659).
        reply.array(self._apis.values(), lambda api: reply.numbers("hhh", api.key, 0, api.newest))
        if version >= 1:
            reply.int32(0)
        return reply


class EmbeddedBroker:
    """A single-node Kafka broker in this process's memory, reachable from this machine only.

    A stopped broker can be restarted: it keeps its port, records and groups, so this simulates an outage.

    Args:
        port: 0 picks a free one.
    """

    def __init__(
        self, *, port: int = 0, topics: Mapping[str, int] | None = None, auto_create_topics: bool = True
    ) -> None:
        self._port = port
        self._listener: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._sessions: asyncio.Task[None] | None = None
        self._topics = Topics()
        for name, partition_count in (topics or {}).items():
            self._topics.create(name, partition_count)
        self._coordinator = GroupCoordinator()
        self._apis = ApiTable(
            (
                *DataApis(self._topics).table(),
                *TopicApis(
                    self._topics, self._coordinator, self._address, auto_create_topics=auto_create_topics
                ).table(),
                *GroupApis(self._coordinator, self._topics).table(),
            )
        )

    @property
    def bootstrap_servers(self) -> str:
        if self._port == 0:
            raise EmbeddedBrokerError(
                "bootstrap_servers is known after the broker's start: await start() first"
            )
        return f"{_HOST}:{self._port}"

    async def start(self) -> None:
        """Start to listen; raises OSError if the port is taken."""
        if self._listener is not None:
            raise EmbeddedBrokerError("the broker is already running: await stop() before another start()")
        self._listener = await asyncio.start_server(self._accept, _HOST, self._port, limit=_READ_AHEAD_BYTES)
        self._port = int(self._listener.sockets[0].getsockname()[1])
        self._sessions = asyncio.create_task(self._coordinator.watch_sessions())
        _log.info("embedded Kafka broker at %s: in memory, loopback only", self.bootstrap_servers)

    async def stop(self) -> None:
        if self._listener is None:
            return
        if self._sessions is not None:
            self._sessions.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sessions
        self._coordinator.close()
        self._listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._listener.wait_closed()
        self._listener = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _address(self) -> tuple[str, int]:
        return _HOST, self._port

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        # Not close(): to a client that no longer reads, Python 3.13 would go on writing and never stop.
        # A callback, because a connection may be cancelled before it is served.
        connection.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = (writer.get_extra_info("peername") or ("?", 0))[:2]
        try:
            while True:
                data = await self._next_request(reader)
                correlation_id, answer = await self._apis.answer(data, host)
                if answer is not None:
                    header = struct.pack(">ii", answer.size + 4, correlation_id)
                    writer.writelines((header, *answer.chunks()))
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client closed the connection
        except MalformedRequestError as error:
            _log.warning("closed the connection from %s:%s: %s", host, port, error)
        except Exception:  # noqa: BLE001 - an error must not affect the other clients
            _log.exception("closed the connection from %s:%s: its request failed", host, port)

    async def _next_request(self, reader: asyncio.StreamReader) -> bytes:
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if not _SHORTEST_REQUEST_BYTES <= size <= _MAX_REQUEST_BYTES:
            raise MalformedRequestError(
                f"a request must have {_SHORTEST_REQUEST_BYTES}..{_MAX_REQUEST_BYTES} bytes, "
                f"its length is {size}"
            )
        return await reader.readexactly(size)
