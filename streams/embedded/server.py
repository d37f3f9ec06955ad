"""Connections: framing, versions, and isolation of clients from each other."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterable
from typing import Final

from streams.embedded.wire import Api, ApiKey, ErrorCode, MalformedRequestError, Reader, Request, Writer

_log = logging.getLogger(__name__)

_LENGTH: Final = struct.Struct(">i")
_READ_AHEAD_BYTES: Final = 1024 * 1024
_SHORTEST_REQUEST_BYTES: Final = 8
_NEWEST_API_VERSIONS: Final = 2  # version 3 has another encoding


class ApiTable:
    """The supported request types and versions with their handlers."""

    def __init__(self, apis: Iterable[Api]) -> None:
        own = Api(ApiKey.API_VERSIONS, 0, _NEWEST_API_VERSIONS, self._api_versions)
        self._apis: dict[int, Api] = {int(api.key): api for api in (*apis, own)}

    async def answer(self, data: bytes, client_host: str) -> tuple[int, Writer | None]:
        """Answer one request."""
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
        reply.array(self._apis.values(), lambda api: reply.numbers("hhh", api.key, api.oldest, api.newest))
        if version >= 1:
            reply.int32(0)
        return reply


class Server:
    """Listens on one address and answers each connection's requests in order."""

    def __init__(self, apis: ApiTable, *, max_request_bytes: int) -> None:
        self._apis = apis
        self._max_request_bytes = max_request_bytes
        self._listener: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        self._listener = await asyncio.start_server(self._accept, host, port, limit=_READ_AHEAD_BYTES)
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._listener is None:
            return
        self._listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._listener.wait_closed()
        self._listener = None

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
        if not _SHORTEST_REQUEST_BYTES <= size <= self._max_request_bytes:
            raise MalformedRequestError(
                f"a request must have {_SHORTEST_REQUEST_BYTES}..{self._max_request_bytes} bytes, "
                f"its length is {size}"
            )
        return await reader.readexactly(size)
