"""Queries brokers over one connection each, without retries; creates no topic, record or group member."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import InitProducerIdRequest

from streams.kafka.access.connection import BrokerConnection, open_connection
from streams.kafka.topics.grants import GroupWithRights, Operation, TopicsWithRights, rights_of

SHORTEST_SESSION: Final = "group.min.session.timeout.ms"
LONGEST_SESSION: Final = "group.max.session.timeout.ms"
AUTO_CREATE: Final = "auto.create.topics.enable"
TOPIC_SETTINGS: Final = ("cleanup.policy", "max.message.bytes", "min.insync.replicas", "retention.ms",
                         "unclean.leader.election.enable")  # fmt: skip
_TOPIC: Final = 2
_BROKER: Final = 4
_SOON: Final = (GroupLoadInProgressError, GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError)
_AGAIN_SECONDS: Final = 0.2
_PRODUCER_TIMEOUT_MS: Final = 60_000


class Node(NamedTuple):
    node_id: int
    host: str
    port: int


class Partition(NamedTuple):
    """One partition: its leader (-1: none), its replicas, and which of them are in sync."""

    leader: int
    replicas: int
    in_sync: int


class TopicView(NamedTuple):
    """A topic: Kafka's error code (0: none), partitions, and our rights (None: not reported)."""

    name: str
    error_code: int
    partitions: tuple[Partition, ...] = ()
    rights: frozenset[Operation] | None = None


class Cluster(NamedTuple):
    nodes: tuple[Node, ...]
    topics: Mapping[str, TopicView]


class GroupView(NamedTuple):
    """A consumer group: error code, state, assignment and client ids of its members, our rights."""

    error_code: int
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    clients: tuple[str, ...] = ()
    rights: frozenset[Operation] | None = None


class Shown(NamedTuple):
    """Settings of the broker and of topics, and why some are hidden (by topic; "" for the broker)."""

    broker: Mapping[str, str]
    topics: Mapping[str, Mapping[str, str]]
    hidden: Mapping[str, str]


class KafkaProbe:
    """Connections to brokers, each opened on first use; the time limit is of each connection and reply."""

    def __init__(self, options: Mapping[str, Any], *, timeout_seconds: float) -> None:
        self._options = {name: value for name, value in options.items() if name != "bootstrap_servers"}
        self._timeout_seconds = timeout_seconds
        self._connections: dict[tuple[str, int], BrokerConnection] = {}

    async def close(self) -> None:
        await asyncio.gather(*(connection.end() for connection in self._connections.values()))
        self._connections.clear()

    async def meet(self, host: str, port: int) -> ssl.SSLObject | None:
        """Connect with TLS and login as the settings say, and make a first request; return what TLS found."""
        await self._ask((host, port), TopicsWithRights([]))
        return self._connections[host, port].tls

    async def cluster(self, at: tuple[str, int], topics: Sequence[str]) -> Cluster:
        answer = await self._ask(at, TopicsWithRights(topics))
        return Cluster(
            nodes=tuple(Node(node_id, host, port) for node_id, host, port, _ in answer.brokers),
            topics={view.name: view for view in map(_topic_view, answer.topics)},
        )

    async def settings(self, node: Node, topics: Sequence[str]) -> Shown:
        wanted = [(_TOPIC, name, list(TOPIC_SETTINGS)) for name in topics]
        wanted.append((_BROKER, str(node.node_id), [SHORTEST_SESSION, LONGEST_SESSION, AUTO_CREATE]))
        answer = await self._ask((node.host, node.port), DescribeConfigsRequest(wanted))
        shown: dict[str, dict[str, str]] = {}
        hidden: dict[str, str] = {}
        for code, _, kind, name, entries in answer.resources:
            subject = "" if kind == _BROKER else name
            if code:
                hidden[subject] = for_code(code).__name__
            else:
                shown[subject] = {entry[0]: entry[1] or "" for entry in entries}
        return Shown(shown.pop("", {}), shown, hidden)

    async def group(self, at: tuple[str, int], group_id: str) -> GroupView:
        deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        while True:
            view = await self._group(at, group_id)
            # A cluster without any group creates its offsets topic first.
            if for_code(view.error_code) not in _SOON or asyncio.get_running_loop().time() >= deadline:
                return view
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _group(self, at: tuple[str, int], group_id: str) -> GroupView:
        found = await self._ask(at, FindCoordinatorRequest(group_id, 0))
        if found.error_code:
            return GroupView(found.error_code)
        answer = await self._ask((found.host, found.port), GroupWithRights(group_id))
        code, _, state, protocol_type, protocol, members, *rights = answer.groups[0]
        clients = tuple(member[1] for member in members)
        return GroupView(code, state, protocol_type, protocol, clients, rights_of(*rights))

    async def producer_id_error(self, at: tuple[str, int]) -> int:
        """Request an idempotent producer's id, which is not used; return the error code or 0."""
        answer = await self._ask(at, InitProducerIdRequest(None, _PRODUCER_TIMEOUT_MS))
        return int(answer.error_code)

    async def _ask(self, at: tuple[str, int], request: Any) -> Any:
        connection = self._connections.get(at)
        if connection is None or not connection.connected():
            connection = self._connections[at] = await open_connection(
                *at,
                client_id="judgestream-doctor",
                request_timeout_ms=round(self._timeout_seconds * 1000),
                **self._options,
            )
        return await connection.send(request)


def _topic_view(answered: Sequence[Any]) -> TopicView:
    code, name, _, partitions, *rights = answered
    return TopicView(
        name,
        code,
        # Replicas and in-sync replicas are counted from the end: newer versions add fields before them.
        tuple(Partition(one[2], len(one[-3]), len(one[-2])) for one in partitions),
        rights_of(*rights),
    )
