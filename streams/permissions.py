"""Asks the broker what its authoriser allows us, before anything is begun that would fail half-way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from streams.acls import Grant, Operation, commands
from streams.kafka_errors import Explanation, KafkaAccessError, principal_of
from streams.settings import KafkaSettings

_BITS: Final[dict[Operation, int]] = {"Read": 3, "Write": 4}
"""Kafka's numbers of the operations that are looked at: each is a bit of what a topic allows."""
_METADATA: Final = 3


class _Answer(Response):  # type: ignore[misc]  # aiokafka is not annotated
    API_KEY = _METADATA
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            Array(("node_id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8"))),
        ),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String("utf-8")),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _Question(RequestStruct):  # type: ignore[misc]  # aiokafka is not annotated
    """The first version of this request that asks for what is allowed; aiokafka's own go up to 5."""

    API_KEY = _METADATA
    API_VERSION = 8
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _AllowedOnTopics(Request[_Question]):  # type: ignore[misc]  # aiokafka is not annotated
    API_KEY = _METADATA

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = list(topics)

    def build(self, request_struct_class: type[_Question]) -> _Question:
        return request_struct_class(self._topics, False, False, True)  # noqa: FBT003 - by position, as it is sent


async def find_denied(client: AIOKafkaClient, grants: Sequence[Grant]) -> list[Grant]:
    """Give those of some grants that we do not have.

    What a broker does not tell (before Kafka 2.3) and what cannot be asked for in advance (the cluster, the creation
    of topics) counts as granted. So does a topic that does not exist, if one may know that.

    Args:
        client: A client that is started.
        grants: What is needed.

    Raises:
        KafkaError: The broker does not answer.
    """
    denied: list[Grant] = []
    topics = [grant for grant in grants if grant.resource == "topic"]
    node = client.get_random_node()
    if topics:
        try:
            answer = await client.send(node, _AllowedOnTopics([grant.name for grant in topics]))
        except NotImplementedError:
            return []  # an older broker
        allowed = {topic[1]: (topic[0], topic[4]) for topic in answer.topics}
        for grant in topics:
            missing = _missing(grant, *allowed.get(grant.name, (NoError.errno, -1)))
            if missing:
                denied.append(Grant("topic", grant.name, missing))
    for grant in grants:
        if grant.resource == "group":
            found: Any = await client.send(node, FindCoordinatorRequest(grant.name, 0))
            if for_code(found.error_code) is GroupAuthorizationFailedError:
                denied.append(grant)
    return denied


def _missing(grant: Grant, code: int, operations: int) -> tuple[Operation, ...]:
    looked_at = tuple(operation for operation in grant.operations if operation in _BITS)
    error = for_code(code)
    if error is TopicAuthorizationFailedError:
        return looked_at
    if error is UnknownTopicOrPartitionError:
        return ()
    return tuple(operation for operation in looked_at if not operations >> _BITS[operation] & 1)


async def refuse_denied(client: AIOKafkaClient, kafka: KafkaSettings, grants: Sequence[Grant]) -> None:
    """Go on only with all grants that are needed.

    Raises:
        KafkaAccessError: Some are missing; the message names each, and what grants it.
        KafkaError: The broker does not answer.
    """
    denied = await find_denied(client, grants)
    if denied:
        raise KafkaAccessError(explain_denied(denied, kafka))


def explain_denied(denied: Sequence[Grant], kafka: KafkaSettings) -> Explanation:
    """Say what is missing and what grants it.

    Args:
        denied: What is missing; at least one.
        kafka: The settings of the client that misses it.
    """
    named = ", ".join(
        f"{' and '.join(grant.operations)} on {grant.resource} {grant.name}" for grant in denied
    )
    principal = principal_of(kafka)
    to = principal if principal.startswith("User:") else "User:..."
    granting = commands(denied, to, broker=kafka.bootstrap_servers)
    more = "" if len(denied) == 1 else f" (and {len(denied) - 1} more, see docs/security.md)"
    return Explanation("permission", f"{principal} lacks {named}", f"grant it: {granting[0]}{more}")
