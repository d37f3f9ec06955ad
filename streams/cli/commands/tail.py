"""`judgestream tail`: follow a topic."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streams.cli.errors import BadUsageError
from streams.cli.session import BootstrapOption, ConfigOption, Session, session

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from streams.cli.records import RecordFilter, TaskTexts


def tail(
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", "-t", help="The topic; default: the results topic of --config, else qa.scores."
        ),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the oldest record.")
    ] = False,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", metavar="NAME", help="Only this metric.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Only with this label; repeatable."),
    ] = None,
    max_score: Annotated[
        int | None, typer.Option("--max-score", metavar="N", help="Only scores of at most N.")
    ] = None,
    event_id: Annotated[str | None, typer.Option("--event-id", metavar="ID", help="Only this event.")] = None,
    status: Annotated[
        Literal["scored", "unscored", "failed"] | None,
        typer.Option("--status", help="Only this status."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Start time: 15m, 24h, 2026-03-14, or RFC 3339."),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Show each result's question and answer, from the tasks' topics.")
    ] = False,
    bootstrap_servers: BootstrapOption = None,
    config: ConfigOption = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object per record: topic, partition, offset, key, headers, value."
        ),
    ] = False,
) -> None:
    """Follow a topic until Ctrl-C, one line per record.

    Events, tasks, results, dead letters and alerts are formatted; other records are shown as they are. Reads
    without a consumer group, so no offsets change.
    """
    call = session(config, bootstrap_servers)
    wanted = _wanted(metric, label or [], max_score, event_id, status, since)
    followed, start = topic or call.settings.topics.scores, "earliest" if from_beginning else "latest"
    if texts and (as_json or followed != call.settings.topics.scores):
        raise BadUsageError("--texts is for the results' topic without --json; drop one of them")
    show = _printer(as_json, call)
    call.run(lambda stop: _follow(call, followed, wanted, start, show, stop, texts=texts))


def _wanted(
    metric: str | None,
    labels: list[str],
    max_score: int | None,
    event_id: str | None,
    status: str | None,
    since: str | None,
) -> RecordFilter:
    from datetime import UTC, datetime

    from streams.cli.records import RecordFilter
    from streams.errors import BadFilterError
    from streams.store.query import moment, parse

    try:
        pairs = parse({}, labels, datetime.now(UTC)).labels
        start = None if since is None else moment(since, datetime.now(UTC))
    except BadFilterError as error:
        raise BadUsageError(f"--{error}") from error
    return RecordFilter(
        metric=metric, status=status, event_id=event_id, max_score=max_score, labels=dict(pairs), since=start
    )


def _printer(as_json: bool, call: Session) -> Callable[[Any], str]:
    from streams.cli.records import RecordLines, record_json

    return record_json if as_json else RecordLines(call.settings.topics).line


async def _follow(
    call: Session,
    topic: str,
    wanted: RecordFilter,
    start: str,
    show: Callable[[Any], str],
    stop: asyncio.Event,
    *,
    texts: bool,
) -> None:
    from contextlib import AsyncExitStack

    from streams.kafka.topics.grants import tail_grants

    stopping = asyncio.create_task(stop.wait())
    try:
        async with (
            AsyncExitStack() as stack,
            call.consumer(tail_grants(topic), auto_offset_reset=start) as consumer,
        ):
            known = await consumer.topics()
            if topic not in known:
                raise call.no_topic(topic, known)
            if wanted.since is None:
                consumer.subscribe([topic])  # without a group: all partitions, including later ones
            else:
                await _begin(consumer, topic, wanted.since)
            found = None
            if texts:
                begin = 0 if start == "earliest" else wanted.since or round(time.time() * 1000)
                found = await _texts(call, known, begin, stack)
            while not stop.is_set():
                fetching = asyncio.create_task(consumer.getmany(timeout_ms=1000))
                await asyncio.wait({fetching, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not fetching.done():
                    fetching.cancel()
                    return
                for record in (one for records in fetching.result().values() for one in records):
                    if wanted.fits(record):
                        typer.echo(show(record))
                        if found is not None:
                            typer.echo(await found.lines(_result_id(record)))
    finally:
        stopping.cancel()


async def _texts(call: Session, known: Collection[str], since: int, stack: AsyncExitStack) -> TaskTexts:
    from streams.cli.records import TaskTexts
    from streams.kafka.topics.grants import tail_grants
    from streams.kafka.topics.table import message_of

    topics = sorted(one for one in known if message_of(call.settings.topics, one) == "judge_task")
    grants = [grant for topic in topics for grant in tail_grants(topic)]
    consumer = await stack.enter_async_context(call.consumer(grants, auto_offset_reset="earliest"))
    found = TaskTexts(consumer)
    await found.begin(topics, since)
    return found


def _result_id(record: Any) -> str:
    header = next((value for name, value in record.headers if name == "result_id"), None)
    return (header or b"").decode(errors="replace")


async def _begin(consumer: Any, topic: str, since: int) -> None:
    """Seek each partition to its first record at or after a time."""
    from streams.kafka.past import partitions_of

    partitions = await partitions_of(consumer, topic)
    consumer.assign(partitions)
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, since))
    for partition in partitions:
        if found[partition] is None:
            await consumer.seek_to_end(partition)
        else:
            consumer.seek(partition, found[partition].offset)
