"""`judgestream tail`: follow a topic."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import typer

from streams.cli.kafka import BootstrapOption, ConfigOption, Connection, connection, no_topic

MAX_RECORD_BYTES = 64 * 1024 * 1024


def tail(
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", help="The topic; else the results' topic of --config, else qa.scores."),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the oldest record, not with the next one.")
    ] = False,
    bootstrap_servers: BootstrapOption = None,
    config: ConfigOption = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="One JSON object a record: topic, partition, offset, key, headers, value."
        ),
    ] = False,
) -> None:
    """Follow a topic until Ctrl-C, one line a record.

    Events, tasks, results, dead letters and alerts are shown in their own way, anything else as it is. Reads
    without a consumer group: nobody's offsets move.
    """
    from streams.cli.running import run_until_stopped

    where = connection(bootstrap_servers, config)
    followed = topic or where.settings.topics.scores
    run_until_stopped(
        lambda stop: _follow(
            where, followed, from_beginning=from_beginning, show=_printer(as_json, where), stop=stop
        )
    )


def _printer(as_json: bool, where: Connection) -> Callable[[Any], str]:
    from streams.cli.records import RecordLines, record_json

    return record_json if as_json else RecordLines(where.settings.topics).line


async def _follow(
    where: Connection, topic: str, *, from_beginning: bool, show: Callable[[Any], str], stop: asyncio.Event
) -> None:
    from aiokafka import AIOKafkaConsumer

    from streams.kafka.topics.grants import tail_grants

    consumer = AIOKafkaConsumer(
        **where.client_options(),
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest" if from_beginning else "latest",
        max_partition_fetch_bytes=MAX_RECORD_BYTES,
    )
    await where.start(consumer, tail_grants(topic))
    stopping = asyncio.create_task(stop.wait())
    try:
        known = await consumer.topics()
        if topic not in known:
            raise no_topic(topic, known, where)
        consumer.subscribe([topic])  # without a group: all partitions, those to come included
        while not stop.is_set():
            fetching = asyncio.create_task(consumer.getmany(timeout_ms=1000))
            await asyncio.wait({fetching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not fetching.done():
                fetching.cancel()
                return
            for records in fetching.result().values():
                for record in records:
                    typer.echo(show(record))
    finally:
        stopping.cancel()
        await consumer.stop()
