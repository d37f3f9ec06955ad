"""The topics a worker needs: are they there, and if not, what makes them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from streams.broker_settings import find_problems
from streams.connection import client_options
from streams.errors import StreamsError
from streams.settings import KafkaSettings

_log = structlog.stdlib.get_logger(__name__)

CONNECT_SECONDS: Final = 60.0
APPEAR_SECONDS: Final = 15.0
TELL_SECONDS: Final = 10.0
"""How often the log says that the broker is still waited for."""


class TopicsError(StreamsError):
    """Topics are missing, or the broker does not say."""


async def ensure_topics(
    kafka: KafkaSettings,
    names: Sequence[str],
    *,
    create: bool,
    partitions: int = 4,
    replication_factor: int = 1,
    connect_seconds: float = CONNECT_SECONDS,
) -> None:
    """See to it that topics exist, and that the broker's settings let nothing be lost.

    Args:
        kafka: Where the broker is.
        names: The topics.
        create: Whether missing ones are created.
        partitions: Of created ones.
        replication_factor: Of created ones.
        connect_seconds: How long to try to reach a broker that may be starting, too.

    Raises:
        TopicsError: The broker does not answer, topics are missing (with the commands that create them), or settings of
            the broker break the promise that nothing is lost.
        SettingsError: A secret or certificate is not where the settings say.
    """
    admin = await _connect(kafka, connect_seconds)
    try:
        missing = await _missing(admin, names)
        if missing and not create:
            raise TopicsError(_how_to_create(kafka, missing, partitions, replication_factor))
        if missing:
            await _create(admin, missing, partitions, replication_factor)
        deadline = time.monotonic() + APPEAR_SECONDS
        while missing and time.monotonic() < deadline:
            missing = await _missing(admin, names)
            await asyncio.sleep(0.1 if missing else 0)
        if missing:
            raise TopicsError(
                f"topics were created and do not appear: {', '.join(missing)}; look at the broker's log"
            )
        problems = await find_problems(admin, kafka, names)
        if problems:
            raise TopicsError("with these settings records would be lost:\n  " + "\n  ".join(problems))
    except KafkaError as error:
        raise TopicsError(f"topics cannot be looked up at {kafka.bootstrap_servers}: {error!r}") from error
    finally:
        await admin.close()


async def _connect(kafka: KafkaSettings, connect_seconds: float) -> AIOKafkaAdminClient:
    started = told = time.monotonic()
    options = client_options(kafka)
    while True:
        admin = AIOKafkaAdminClient(**options)
        try:
            with _unheard("aiokafka"):
                await admin.start()
        except (KafkaError, OSError) as error:
            await admin.close()
            waited = time.monotonic() - started
            if waited >= connect_seconds:
                raise TopicsError(
                    f"no Kafka broker answers at {kafka.bootstrap_servers} within {connect_seconds:g} s ({error!r}); "
                    "check kafka.bootstrap_servers, kafka.security and that it runs"
                ) from error
            if told == started or time.monotonic() - told >= TELL_SECONDS:
                told = time.monotonic()
                _log.warning(
                    "broker does not answer yet",
                    bootstrap_servers=kafka.bootstrap_servers,
                    error=repr(error),
                    giving_up_in_seconds=round(connect_seconds - waited),
                )
            await asyncio.sleep(min(1.0, connect_seconds))
        else:
            return admin


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


async def _missing(admin: AIOKafkaAdminClient, names: Sequence[str]) -> list[str]:
    # All topics are listed: asking for one by name can create it.
    there = set(await admin.list_topics())
    return [name for name in names if name not in there]


async def _create(
    admin: AIOKafkaAdminClient, names: Sequence[str], partitions: int, replication_factor: int
) -> None:
    new = [NewTopic(name, num_partitions=partitions, replication_factor=replication_factor) for name in names]
    response = await admin.create_topics(new)
    for name, code, *reason in response.topic_errors:
        # Another worker that starts at the same time may have been quicker.
        if code not in {0, TopicAlreadyExistsError.errno}:
            said = reason[0] if reason and reason[0] else for_code(code).__name__
            raise TopicsError(f"topic {name} cannot be created: {said}; create it by other means")
    _log.info(
        "topics created", topics=list(names), partitions=partitions, replication_factor=replication_factor
    )


def _how_to_create(
    kafka: KafkaSettings, missing: Sequence[str], partitions: int, replication_factor: int
) -> str:
    commands = "\n".join(
        f"  kafka-topics.sh --bootstrap-server {kafka.bootstrap_servers} --create --topic {name} "
        f"--partitions {partitions} --replication-factor {replication_factor}"
        for name in missing
    )
    return f"topics are missing at {kafka.bootstrap_servers}: {', '.join(missing)}; create them:\n{commands}"
