"""The embedded broker: connections, framing, versions, and isolation of clients from each other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, Final, Self

from aiokafka.errors import BrokerResponseError, UnsupportedVersionError
from aiokafka.protocol.admin import ApiVersionRequest_v0, ApiVersionRequest_v1
from aiokafka.protocol.api import RequestHeader_v1

from streams.embedded.data_api import DataApis
from streams.embedded.group_api import GroupCoordinator
from streams.embedded.topic_api import TopicApis
from streams.embedded.topics import Topics
from streams.embedded.wire import Api, EmbeddedBrokerError, MalformedRequestError, Request

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
        own = Api(ApiVersionRequest_v1, _NEWEST_API_VERSIONS, self._api_versions)
        self._apis: dict[int, Api] = {api.request.API_KEY: api for api in (*apis, own)}

    async def answer(self, data: bytes, client_host: str) -> bytes | None:
        """Return the framed response; None if the client wants none."""
        stream = BytesIO(data)
        try:
            key, version, correlation_id, client_id = RequestHeader_v1.SCHEMA.decode(stream)
        except ValueError as error:
            raise MalformedRequestError(f"a request's header cannot be read: {error}") from error
        api = self._apis.get(key)
        if api is None:
            raise MalformedRequestError(f"request type {key} is not supported by the embedded broker")
        oldest, kind = api.request.API_VERSION, api.request
        if kind is ApiVersionRequest_v1 and not oldest <= version <= api.newest:
            # The version of this request cannot be negotiated: answer in the oldest encoding, from version 3
            # on with an error.
            code = UnsupportedVersionError.errno if version > api.newest else 0
            return _framed(correlation_id, ApiVersionRequest_v0, (code, self._versions()))
        if not oldest <= version <= api.newest:
            raise MalformedRequestError(
                f"{api.name} version {version} is not supported, only {oldest}..{api.newest}"
            )
        try:
            body = kind.decode(stream)
        except ValueError as error:
            raise MalformedRequestError(f"a request {api.name} cannot be read: {error}") from error
        fields = await api.handle(Request(body, client_id or "", client_host))
        return None if fields is None else _framed(correlation_id, kind, fields)

    async def _api_versions(self, _: Request) -> tuple[Any, ...]:
        return 0, self._versions(), 0

    def _versions(self) -> list[tuple[int, int, int]]:
        # From 0 on, though old ones are refused: librdkafka 2.5 and older know features by versions that they
        # do not use, and would write records in an old format. Kafka 4 does so, too (KAFKA-18659).
        return [(key, 0, api.newest) for key, api in self._apis.items()]


def _framed(correlation_id: int, request: Any, fields: tuple[Any, ...]) -> bytes:
    body: bytes = request.RESPONSE_TYPE(*fields).encode()
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


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
            try:
                self._topics.create(name, partition_count)
            except BrokerResponseError as error:
                raise EmbeddedBrokerError(*error.args) from None
        self._coordinator = GroupCoordinator(self._topics)
        self._apis = ApiTable(
            (
                *DataApis(self._topics).table(),
                *TopicApis(
                    self._topics, self._coordinator, self._address, auto_create_topics=auto_create_topics
                ).table(),
                *self._coordinator.table(),
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
                answer = await self._apis.answer(data, host)
                if answer is not None:
                    writer.write(answer)
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
