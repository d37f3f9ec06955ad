"""`judgestream tail`: follow a topic."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

from pathlib import Path
from typing import Literal

from typer import Option

from streams.cli.running import BadUsageError, until
from streams.cli.session import BROKERS, CONFIG, ONLY_LABEL, ONLY_METRIC, session


def tail(
    topic: str | None = Option(
        None, "--topic", "-t", help="The topic; default: the results topic of --config, else qa.scores."
    ),
    from_beginning: bool = Option(False, "--from-beginning", help="Start with the oldest record."),
    metric: str | None = ONLY_METRIC,
    label: list[str] | None = ONLY_LABEL,
    max_score: int | None = Option(None, metavar="N", help="Only scores of at most N."),
    event_id: str | None = Option(None, metavar="ID", help="Only this event."),
    status: Literal["scored", "unscored", "failed"] | None = Option(None, help="Only this status."),
    since: str | None = Option(None, help="Start time: 15m, 24h, 2026-03-14, or RFC 3339."),
    texts: bool = Option(
        False, "--texts", help="Show each result's question and answer, from the tasks' topics."
    ),
    bootstrap_servers: str | None = BROKERS,
    config: Path | None = CONFIG,
    as_json: bool = Option(
        False,
        "--json",
        help="Print one JSON object per record: topic, partition, offset, key, headers, value.",
    ),
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
    wanted = RecordFilter(
        metric=metric,
        status=status,
        event_id=event_id,
        max_score=max_score,
        labels=dict(parse({}, label or (), now).labels),
        since=None if since is None else moment(since, now) / 1000,
    )
    if texts and (as_json or (topic or topics.scores) != topics.scores):
        raise BadUsageError("--texts is for the results' topic without --json; drop one of them")
    show = record_json if as_json else RecordLines(topics).line
    start: Start = "earliest" if from_beginning else "latest"
    if wanted.since is not None:
        start = datetime.fromtimestamp(wanted.since, UTC)
    followed = topic or topics.scores
    call.run(lambda stop: until(stop, follow(call, followed, wanted, start, show, texts=texts)))
