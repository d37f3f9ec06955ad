"""The topics a worker needs: are they there, and if not, what makes them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)

from streams.errors import Explanation, KafkaAccessError, SettingsError, TopicsError
from streams.kafka.access.access import client_options
from streams.kafka.access.errors import explain
from streams.kafka.access.reach import reach
from streams.kafka.topics.broker_settings import find_problems
from streams.kafka.topics.grants import Grant
from streams.kafka.topics.permissions import explain_denied, refuse_denied
from streams.kafka.topics.plan import WantedTopic
from streams.settings import KafkaSettings

_log = structlog.stdlib.get_logger(__name__)

CONNECT_SECONDS: Final = 60.0
APPEAR_SECONDS: Final = 15.0
TELL_SECONDS: Final = 10.0
"""How often the log says that the broker is still waited for."""


async def ensure_topics(
    kafka: KafkaSettings,
    wanted: Sequence[WantedTopic],
    *,
    create: bool,
    connect_seconds: float = CONNECT_SECONDS,
    grants: Sequence[Grant] = (),
) -> None:
    """Ensure that topics exist, that they may be used, and that the broker's settings lose nothing.

    Args:
        kafka: Where the broker is.
        wanted: The topics, and how they are created.
        create: Whether missing ones are created.
        connect_seconds: How long to try to reach a broker that may be starting, too.
        grants: What will be done with the topics, and with which group.

    Raises:
        KafkaAccessError: The broker keeps us out, or from something that is needed, until a person changes
            that.
        TopicsError: The broker does not answer, topics are missing (with the commands that create them), or
            settings of the broker break the promise that nothing is lost.
        SettingsError: A secret or certificate is not where the settings say.
    """
    async with admin_client(kafka, connect_seconds) as admin:
        await refuse_denied(admin._client, kafka, grants)  # noqa: SLF001 - the admin client cannot ask this itself
        missing = await missing_topics(admin, wanted)
        if missing and not create:
            raise TopicsError(_how_to_create(kafka, missing))
        if missing:
            await create_topics(admin, kafka, missing)
        problems = await find_problems(admin, kafka, wanted)
        if problems:
            raise TopicsError(would_lose(problems))


@asynccontextmanager
async def admin_client(
    kafka: KafkaSettings, connect_seconds: float = CONNECT_SECONDS, env: Mapping[str, str] | None = None
) -> AsyncIterator[AIOKafkaAdminClient]:
    """Open an administrative client.

    Args:
        kafka: Where the broker is.
        connect_seconds: How long to try to reach a broker that may be starting, too.
        env: Environment variables with secrets; those of the process by default.

    Raises:
        KafkaAccessError: The broker keeps us out until that is changed.
        TopicsError: The broker does not answer, or breaks off.
        SettingsError: A secret or certificate is not where the settings say.
    """
    admin = await _connect(kafka, connect_seconds, env)
    try:
        yield admin
    except KafkaError as error:
        lasting = await _lasting_trouble(kafka)
        if lasting is not None:
            raise KafkaAccessError(lasting) from error
        raise TopicsError(f"topics cannot be looked up at {kafka.bootstrap_servers}: {error!r}") from error
    finally:
        await admin.close()


def would_lose(problems: Sequence[str]) -> str:
    """Put what `find_problems` found into one message."""
    return "with these settings records would be lost:\n  " + "\n  ".join(problems)


async def _connect(
    kafka: KafkaSettings, connect_seconds: float, env: Mapping[str, str] | None
) -> AIOKafkaAdminClient:
    started = told = time.monotonic()
    options = client_options(kafka, env)
    trouble: Explanation | None = None
    while True:
        admin = AIOKafkaAdminClient(**options)
        try:
            with _unheard("aiokafka"):
                await admin.start()
        except (KafkaError, OSError) as error:
            await admin.close()
            before, trouble = trouble, await _trouble(kafka)
            # Twice: a broker that is just starting may not know its users yet.
            if trouble is not None and trouble.lasting and trouble == before:
                raise KafkaAccessError(trouble) from error
            waited = time.monotonic() - started
            if waited >= connect_seconds:
                why = f"({error!r}); check kafka.bootstrap_servers, kafka.security and that it runs"
                raise TopicsError(
                    f"no Kafka broker answers at {kafka.bootstrap_servers} within {connect_seconds:g} s"
                    + (f" {why}" if trouble is None else f": {trouble}")
                ) from error
            if told == started or time.monotonic() - told >= TELL_SECONDS:
                told = time.monotonic()
                _log.warning(
                    "broker does not answer yet",
                    bootstrap_servers=kafka.bootstrap_servers,
                    error=repr(error) if trouble is None else str(trouble),
                    giving_up_in_seconds=round(connect_seconds - waited),
                )
            await asyncio.sleep(min(1.0, connect_seconds))
        else:
            return admin


async def _trouble(kafka: KafkaSettings) -> Explanation | None:
    """Why the connection fails; None if it succeeds or the reason is unknown."""
    try:
        with _unheard("aiokafka"):
            await reach(kafka)
    except SettingsError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is explained or it is not
        return explain(error, kafka)
    return None


async def _lasting_trouble(kafka: KafkaSettings) -> Explanation | None:
    trouble = await _trouble(kafka)
    return trouble if trouble is not None and trouble.lasting else None


@contextmanager
def _unheard(logger: str) -> Iterator[None]:
    """Leave the telling to us: the library logs an error at each try."""
    talker = logging.getLogger(logger)
    level = talker.level
    talker.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        talker.setLevel(level)


async def missing_topics(admin: AIOKafkaAdminClient, wanted: Sequence[WantedTopic]) -> list[WantedTopic]:
    """Pick the topics that are not there."""
    # All topics are listed: asking for one by name can create it.
    there = set(await admin.list_topics())
    return [topic for topic in wanted if topic.name not in there]


async def create_topics(
    admin: AIOKafkaAdminClient, kafka: KafkaSettings, topics: Sequence[WantedTopic]
) -> None:
    """Create topics and wait until they are there.

    One that another party creates concurrently is left as it is.

    Raises:
        KafkaAccessError: We may not.
        TopicsError: The broker refuses, or does not show them afterwards.
    """
    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=dict(topic.config),
        )
        for topic in topics
    ]
    response = await admin.create_topics(new)
    for name, code, *reason in response.topic_errors:
        # Another worker that starts concurrently may have been quicker.
        if for_code(code) in {TopicAuthorizationFailedError, ClusterAuthorizationFailedError}:
            raise KafkaAccessError(explain_denied([Grant("topic", name, ("Create",))], kafka))
        if code not in {0, TopicAlreadyExistsError.errno}:
            said = reason[0] if reason and reason[0] else for_code(code).__name__
            raise TopicsError(f"topic {name} cannot be created: {said}; create it another way")
    for topic in topics:
        _log.info(
            "topic created",
            topic=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            **{key.replace(".", "_"): value for key, value in topic.config.items()},
        )
    deadline = time.monotonic() + APPEAR_SECONDS
    while missing := await missing_topics(admin, topics):
        if time.monotonic() >= deadline:
            names = ", ".join(topic.name for topic in missing)
            raise TopicsError(f"created topics do not appear: {names}; check the broker's log")
        await asyncio.sleep(0.1)


def _how_to_create(kafka: KafkaSettings, missing: Sequence[WantedTopic]) -> str:
    names = ", ".join(topic.name for topic in missing)
    commands = "\n".join(f"  {topic.command(kafka)}" for topic in missing)
    return (
        f"topics are missing at {kafka.bootstrap_servers}: {names}; create them, with judgestream "
        f"topics or:\n{commands}"
    )
