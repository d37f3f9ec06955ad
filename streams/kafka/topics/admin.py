"""Check that the topics of a worker exist, and create missing ones."""

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

from streams.errors import Explanation, KafkaAccessError, StreamsError
from streams.kafka.access.access import client_options
from streams.kafka.access.connection import connection_errors
from streams.kafka.access.errors import explain_any
from streams.kafka.topics.grants import Grant, explain_denied, refuse_denied
from streams.kafka.topics.table import WantedTopic, plan_topics
from streams.settings.broker import KafkaSettings
from streams.settings.tree import Settings

_log = structlog.stdlib.get_logger(__name__)

CONNECT_SECONDS: Final = 60.0
TELL_SECONDS: Final = 10.0
"""Interval of the log line about a broker that does not answer yet."""


async def ensure_topics(
    kafka: KafkaSettings, wanted: Sequence[WantedTopic], *, create: bool, grants: Sequence[Grant]
) -> None:
    """Check that topics exist and that permissions suffice; create missing topics if wanted."""
    async with admin_client(kafka) as admin:
        await refuse_denied(admin._client, kafka, grants)  # noqa: SLF001 - the admin client has no such request
        missing = await missing_topics(admin, wanted)
        if missing and not create:
            names = ", ".join(topic.name for topic in missing)
            commands = "\n".join(f"  {topic.command(kafka)}" for topic in missing)
            raise StreamsError(
                f"topics are missing at {kafka.bootstrap_servers}: {names}; create them, with judgestream "
                f"topics or:\n{commands}"
            )
        if missing:
            await create_topics(admin, kafka, missing)


@asynccontextmanager
async def admin_client(
    kafka: KafkaSettings, connect_seconds: float = CONNECT_SECONDS, env: Mapping[str, str] | None = None
) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = await _connect(kafka, connect_seconds, env)
    try:
        with connection_errors() as errors:
            yield admin
    except KafkaError as error:
        trouble = explain_any([*errors, error], kafka)
        if trouble is not None and trouble.lasting:
            raise KafkaAccessError(trouble) from error
        raise StreamsError(f"topics cannot be looked up at {kafka.bootstrap_servers}: {error!r}") from error
    finally:
        await admin.close()


async def _connect(
    kafka: KafkaSettings, connect_seconds: float, env: Mapping[str, str] | None
) -> AIOKafkaAdminClient:
    started = told = time.monotonic()
    options = client_options(kafka, env)
    trouble: Explanation | None = None
    while True:
        admin = AIOKafkaAdminClient(**options)
        try:
            with connection_errors() as errors, _unheard("aiokafka"):
                await admin.start()
        except (KafkaError, OSError) as error:
            await admin.close()
            before, trouble = trouble, explain_any([*errors, error], kafka)
            # Fail on the second occurrence: a starting broker may not have loaded its users yet.
            if trouble is not None and trouble.lasting and trouble == before:
                raise KafkaAccessError(trouble) from error
            waited = time.monotonic() - started
            if waited >= connect_seconds:
                why = f"({error!r}); check kafka.bootstrap_servers, kafka.security and that it runs"
                raise StreamsError(
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
        except asyncio.CancelledError:  # a stop while it starts
            await admin.close()
            raise
        else:
            return admin


@contextmanager
def _unheard(logger: str) -> Iterator[None]:
    """Suppress the library's log: it logs an error at each try, and the caller logs its own."""
    talker = logging.getLogger(logger)
    level = talker.level
    talker.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        talker.setLevel(level)


async def missing_topics(admin: AIOKafkaAdminClient, wanted: Sequence[WantedTopic]) -> list[WantedTopic]:
    # List all topics: a request for one by name can create it.
    there = set(await admin.list_topics())
    return [topic for topic in wanted if topic.name not in there]


async def create_topics(
    admin: AIOKafkaAdminClient, kafka: KafkaSettings, topics: Sequence[WantedTopic]
) -> None:
    """Create topics and wait until the broker lists them. A topic created by another worker is kept."""
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
        if for_code(code) in {TopicAuthorizationFailedError, ClusterAuthorizationFailedError}:
            raise KafkaAccessError(explain_denied([Grant("topic", name, ("Create",))], kafka))
        if code not in {0, TopicAlreadyExistsError.errno}:
            said = reason[0] if reason and reason[0] else for_code(code).__name__
            raise StreamsError(f"topic {name} cannot be created: {said}; create it another way")
    for topic in topics:
        _log.info(
            "topic created",
            topic=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            **{key.replace(".", "_"): value for key, value in topic.config.items()},
        )
    deadline = time.monotonic() + 15
    while missing := await missing_topics(admin, topics):
        if time.monotonic() >= deadline:
            names = ", ".join(topic.name for topic in missing)
            raise StreamsError(f"created topics do not appear: {names}; check the broker's log")
        await asyncio.sleep(0.1)


async def make_topics(
    settings: Settings, *, dry_run: bool = False, connect_seconds: float = CONNECT_SECONDS
) -> tuple[Sequence[WantedTopic], Sequence[WantedTopic]]:
    """Create the topics that are missing, and return all and those; existing ones are not changed."""
    wanted = plan_topics(settings)
    async with admin_client(settings.kafka, connect_seconds) as admin:
        missing = await missing_topics(admin, wanted)
        if missing and not dry_run:
            await create_topics(admin, settings.kafka, missing)
    return wanted, missing
