"""`judgestream tail`: follow a topic."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from streams.cli.errors import BadUsageError
from streams.cli.session import BootstrapOption, ConfigOption, Session, session

if TYPE_CHECKING:
    from streams.cli.records import RecordFilter
    from streams.kafka.offsets import Start
    from streams.kafka.record import Record

EARLIER: Final = timedelta(minutes=10)
"""How much earlier than its result a task is looked for."""


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
    followed = topic or call.settings.topics.scores
    start: Start = "earliest" if from_beginning else "latest"
    if wanted.since is not None:
        start = datetime.fromtimestamp(wanted.since, UTC)
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
    from streams.cli.records import RecordFilter
    from streams.errors import BadFilterError
    from streams.store.query import moment, parse

    try:
        pairs = parse({}, labels, datetime.now(UTC)).labels
        begin = None if since is None else moment(since, datetime.now(UTC)) / 1000
    except BadFilterError as error:
        raise BadUsageError(f"--{error}") from error
    return RecordFilter(
        metric=metric, status=status, event_id=event_id, max_score=max_score, labels=dict(pairs), since=begin
    )


def _printer(as_json: bool, call: Session) -> Callable[[Record], str]:
    from streams.cli.records import RecordLines, record_json

    return record_json if as_json else RecordLines(call.settings.topics).line


async def _follow(
    call: Session,
    topic: str,
    wanted: RecordFilter,
    start: Start,
    show: Callable[[Record], str],
    stop: asyncio.Event,
    *,
    texts: bool,
) -> None:
    stopping = asyncio.create_task(stop.wait())
    showing = asyncio.create_task(_show(call, topic, wanted, start, show, texts=texts))
    await asyncio.wait({showing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    showing.cancel()
    with suppress(asyncio.CancelledError):
        await showing


async def _show(
    call: Session,
    topic: str,
    wanted: RecordFilter,
    start: Start,
    show: Callable[[Record], str],
    *,
    texts: bool,
) -> None:
    from streams.cli.records import TEXT_NOT_KEPT, TaskTexts
    from streams.kafka.topics.grants import tail_grants
    from streams.kafka.topics.table import message_of

    reader = call.reader(tail_grants(topic))
    known = await reader.topics()
    if topic not in known:
        raise call.no_topic(topic, known)
    tasks = sorted(one for one in known if texts and message_of(call.settings.topics, one) == "judge_task")
    beside = call.reader([grant for task in tasks for grant in tail_grants(task)])
    async with (
        aclosing(reader.follow([topic], start=start)) as batches,
        aclosing(beside.follow(tasks, start=_earlier(start))) as task_batches,
    ):
        found = TaskTexts(task_batches) if tasks else None
        async for batch in batches:
            for record in batch.records:
                if wanted.fits(record):
                    typer.echo(show(record))
                    if texts:
                        typer.echo(TEXT_NOT_KEPT if found is None else await found.lines(_result_id(record)))


def _earlier(start: Start) -> Start:
    """Return where the tasks of results from `start` on begin."""
    if start == "earliest":
        return start
    return (datetime.now(UTC) if start == "latest" else start) - EARLIER


def _result_id(record: Record) -> str:
    header = next((value for name, value in record.headers if name == "result_id"), None)
    return (header or b"").decode(errors="replace")
