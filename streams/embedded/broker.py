"""The embedded broker's public class."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
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

# A request contains batches of several partitions, so it may be much larger than one message.
_LEAST_MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024


class EmbeddedBroker:
    """A single-node Kafka broker in this process's memory, reachable from this machine only.

    A stopped broker can be restarted: it keeps its port, records and groups, so this simulates an outage.

    Args:
        host: A loopback address; others are refused, because there is neither encryption nor authentication.
        port: 0 picks a free one.
        default_partitions: Partitions of topics created without a number.
        max_bytes_per_partition: Delete a partition's oldest records beyond this size; None keeps all.
        max_message_bytes: The largest record batch, unless the topic's `max.message.bytes` says otherwise.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        topics: Mapping[str, int] | None = None,
        default_partitions: int = 4,
        auto_create_topics: bool = True,
        max_bytes_per_partition: int | None = None,
        max_message_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        _require(name="default_partitions", value=default_partitions, least=1)
        _require(name="max_message_bytes", value=max_message_bytes, least=1)
        if max_bytes_per_partition is not None:
            _require(name="max_bytes_per_partition", value=max_bytes_per_partition, least=1)
        self._host = _loopback(host)
        self._port = port
        self._is_running = False
        self._sessions: asyncio.Task[None] | None = None
        self._topics = Topics(
            default_partitions=default_partitions,
            max_message_bytes=max_message_bytes,
            max_bytes_per_partition=max_bytes_per_partition,
        )
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
        self._server = Server(
            apis, max_request_bytes=max(_LEAST_MAX_REQUEST_BYTES, max_message_bytes + 1024 * 1024)
        )

    @property
    def bootstrap_servers(self) -> str:
        """Host and port for clients."""
        if self._port == 0:
            raise EmbeddedBrokerError(
                "bootstrap_servers is known after the broker's start: await start() first"
            )
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    async def start(self) -> None:
        """Start to listen; raises OSError if the port is taken."""
        if self._is_running:
            raise EmbeddedBrokerError("the broker is already running: await stop() before another start()")
        self._port = await self._server.start(self._host, self._port)
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
        return self._host, self._port


def _loopback(host: str) -> str:
    if host == "localhost":  # one address, so that there is one port
        return "127.0.0.1"
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ValueError(
            f"host must be a loopback address such as 127.0.0.1, got {host!r}: the embedded broker has "
            "neither encryption nor authentication; use Apache Kafka for a broker on the network"
        )
    return host


def _require(*, name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
