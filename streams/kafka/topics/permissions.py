"""Check the worker's permissions on the broker at start."""

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
from aiokafka.protocol.coordination import FindCoordinatorRequest

from streams.errors import Explanation, KafkaAccessError
from streams.kafka.access.errors import principal_of
from streams.kafka.topics.grants import Grant, Operation, commands
from streams.kafka.topics.requests import TopicsWithRights
from streams.kafka.topics.rights import Right, rights_of
from streams.settings import KafkaSettings

_RIGHTS: Final[dict[Operation, Right]] = {"Read": Right.READ, "Write": Right.WRITE}
"""The operations that are checked."""
_RIGHTS_TOLD_SINCE: Final = 8
"""The first response version with permissions."""


async def find_denied(client: AIOKafkaClient, grants: Sequence[Grant]) -> list[Grant]:
    """Return the grants that are denied.

    Counted as granted: what brokers before Kafka 2.3 do not report, what cannot be checked in advance
    (permissions on the cluster, creation of topics), and a topic reported as missing.

    Args:
        client: A started client.
        grants: Permissions that are needed.

    Raises:
        KafkaError: The broker does not answer.
    """
    denied: list[Grant] = []
    topics = [grant for grant in grants if grant.resource == "topic"]
    node = client.get_random_node()
    if topics:
        answer = await client.send(node, TopicsWithRights([grant.name for grant in topics]))
        if answer.API_VERSION < _RIGHTS_TOLD_SINCE:
            return []
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
    looked_at = tuple(operation for operation in grant.operations if operation in _RIGHTS)
    error = for_code(code)
    if error is TopicAuthorizationFailedError:
        return looked_at
    rights = rights_of(operations)
    if error is UnknownTopicOrPartitionError or rights is None:
        return ()
    return tuple(operation for operation in looked_at if _RIGHTS[operation] not in rights)


async def refuse_denied(client: AIOKafkaClient, kafka: KafkaSettings, grants: Sequence[Grant]) -> None:
    """Raise if a permission that is needed is denied.

    Raises:
        KafkaAccessError: Permissions are denied; the message names each and a command that grants it.
        KafkaError: The broker does not answer.
    """
    denied = await find_denied(client, grants)
    if denied:
        raise KafkaAccessError(explain_denied(denied, kafka))


def explain_denied(denied: Sequence[Grant], kafka: KafkaSettings) -> Explanation:
    """Explain denied permissions and how to grant them.

    Args:
        denied: The denied permissions; at least one.
        kafka: Settings of the client that lacks them.
    """
    named = ", ".join(
        f"{' and '.join(grant.operations)} on {grant.resource} {grant.name}" for grant in denied
    )
    principal = principal_of(kafka)
    to = principal if principal.startswith("User:") else "User:..."
    granting = commands(denied, to, broker=kafka.bootstrap_servers)
    more = "" if len(denied) == 1 else f" (and {len(denied) - 1} more, see docs/permissions.md)"
    return Explanation("permission", f"{principal} lacks {named}", f"grant it: {granting[0]}{more}")
