"""`judgestream produce` and `tail`: send the lines of a file as records; follow a topic."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from typer import Argument, Option

from judge.text.printable import printable
from streams.cli.options import BROKERS, CONFIG, JSON, ONLY_LABEL, ONLY_METRIC, RATE
from streams.cli.running import emit, until
from streams.cli.session import opened, session


def produce(
    file: Path = Argument(..., metavar="FILE", help="JSON lines; `-` reads standard input."),
    topic: str | None = Option(None, "--topic", "-t", help="Default: topics.events of the settings."),
    rate: float | None = RATE,
    key_field: str = Option("event_id", metavar="NAME", help="The field to use as the record's key."),
    bootstrap_servers: str | None = BROKERS,
    config: Path | None = CONFIG,
    as_json: bool = JSON,
) -> None:
    """Send the lines of a file to a topic, unchanged.

    Lines that are not JSON are sent without a key. Empty lines are skipped. Ends when the broker has
    acknowledged every record; exit code 1 if it refused any.
    """
    from streams.cli.records import Sender
    from streams.kafka.topics.grants import produce_grants

    call = session(config, bootstrap_servers)
    target = topic or call.settings.topics.events
    started = time.monotonic()

    async def run(stop: asyncio.Event) -> Sender:
        async with call.producer(produce_grants(target), linger_ms=5) as producer:
            # Unlike the list of all topics, a metadata request that names one may create it or wait for it.
            call.require_topic(target, (await producer.client.fetch_all_metadata()).topics())
            sender = Sender(producer, rate, stop)
            await sender.run(_records(lines, target, key_field))
        return sender

    with opened(file, progress=True) as lines:
        sender = call.run(run)
    seconds = time.monotonic() - started
    counts = {"sent": sender.confirmed, "without_key": sender.without_key, "refused": sender.refused}
    records = "1 record" if sender.confirmed == 1 else f"{sender.confirmed} records"
    keyless = f", {sender.without_key} of them without a key" if sender.without_key else ""
    line = f"{records} on {printable(target)} in {seconds:.1f} s{keyless}"
    emit({"topic": target, **counts, "seconds": round(seconds, 3)}, [line], as_json=as_json)
    sender.end()


async def _records(lines: BinaryIO, topic: str, key_field: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    from streams.batch.sources import bounded_lines, key_of

    source, blocks, number = bounded_lines(lines, "the file"), lines is sys.stdin.buffer, 0
    while line := await asyncio.to_thread(next, source, b"") if blocks else next(source, b""):
        number += 1
        if value := line.rstrip(b"\r\n"):
            yield f"line {number}", {"topic": topic, "value": value, "key": key_of(value, key_field)}


def tail(
    topic: str | None = Option(None, "--topic", "-t", help="Default: topics.scores of the settings."),
    from_beginning: bool = Option(False, "--from-beginning", help="Start with the oldest record."),
    metric: str | None = ONLY_METRIC,
    label: list[str] | None = ONLY_LABEL,
    max_score: int | None = Option(None, metavar="N", help="Only scores of at most N."),
    event_id: str | None = Option(None, metavar="ID", help="Only this event."),
    status: Literal["scored", "unscored", "failed"] | None = Option(None, help="Only this status."),
    since: str | None = Option(None, help="Start time: 15m, 24h, 2026-03-14, or RFC 3339."),
    bootstrap_servers: str | None = BROKERS,
    config: Path | None = CONFIG,
    as_json: bool = Option(False, "--json", help="Print JSON lines, with key, headers and place."),
) -> None:
    """Follow a topic until Ctrl-C, one line per record.

    Events, tasks, results, dead letters and alerts are formatted; other records are shown as they are. Reads
    without a consumer group, so no offsets change.
    """
    from datetime import UTC, datetime

    from streams.cli.records import RecordFilter, RecordLines, follow, record_json
    from streams.kafka.offsets import Start
    from streams.store.query import moment, parse

    call = session(config, bootstrap_servers)
    topics, now = call.settings.topics, datetime.now(UTC)
    exact = {"metric": metric, "status": status, "event_id": event_id}
    wanted = RecordFilter(
        fields={name: value for name, value in exact.items() if value is not None},
        labels=dict(parse({}, label or (), now).labels),
        max_score=max_score,
        since=None if since is None else moment(since, now) / 1000,
    )
    show = record_json if as_json else RecordLines(topics).line
    start: Start = "earliest" if from_beginning else "latest"
    if wanted.since is not None:
        start = datetime.fromtimestamp(wanted.since, UTC)
    followed = topic or topics.scores
    call.run(lambda stop: until(stop, follow(call, followed, wanted, start, show)))
