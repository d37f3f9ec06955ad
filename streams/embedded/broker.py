"""The embedded broker's public class."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final, Self

from streams.embedded.data_api import DataApis
from streams.embedded.group_api import GroupApis, GroupCoordinator
from streams.embedded.server import ApiTable, Server
from streams.embedded.topic_api import TopicApis
from streams.embedded.topics import Topics
from streams.embedded.wire import EmbeddedBrokerError

_log = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"
"""This machine only, because there is neither encryption nor authentication."""
# A request contains batches of several partitions, so it may be much larger than one message.
_MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024


class EmbeddedBroker:
    """A single-node Kafka broker in this process's memory, reachable from this machine only.

    A stopped broker can be restarted: it keeps its port, records and groups, so this simulates an outage.

    Args:
        port: 0 picks a free one.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        topics: Mapping[str, int] | None = None,
        auto_create_topics: bool = True,
    ) -> None:
        self._port = port
        self._is_running = False
        self._sessions: asyncio.Task[None] | None = None
        self._topics = Topics()
        for name, partition_count in (topics or {}).items():
            self._topics.create(name, partition_count)
        self._coordinator = GroupCoordinator()
        apis = ApiTable(
            (
                *DataApis(self._topics).table(),
                *TopicApis(
                    self._topics, self._coordinator, self._address, auto_create_topics=auto_create_topics
                ).table(),
                *GroupApis(self._coordinator, self._topics).table(),
            )
        )
        self._server = Server(apis, max_request_bytes=_MAX_REQUEST_BYTES)

    @property
    def bootstrap_servers(self) -> str:
        """Host and port for clients."""
        if self._port == 0:
            raise EmbeddedBrokerError(
                "bootstrap_servers is known after the broker's start: await start() first"
            )
        return f"{_HOST}:{self._port}"

    async def start(self) -> None:
        """Start to listen; raises OSError if the port is taken."""
        if self._is_running:
            raise EmbeddedBrokerError("the broker is already running: await stop() before another start()")
        self._port = await self._server.start(_HOST, self._port)
        self._is_running = True
        self._sessions = asyncio.create_task(self._coordinator.watch_sessions())
        _log.info("embedded Kafka broker at %s: in memory, loopback only", self.bootstrap_servers)

    async def stop(self) -> None:
        """Close all connections and the port; without effect if it is not running."""
        if self._sessions is not None:
            self._sessions.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sessions
            self._sessions = None
        self._coordinator.close()
        await self._server.stop()
        self._is_running = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _address(self) -> tuple[str, int]:
        return _HOST, self._port
