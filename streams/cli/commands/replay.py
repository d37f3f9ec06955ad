"""`judgestream replay`: send what was set aside again."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.kafka import BootstrapOption, ConfigOption, Connection, connection, no_topic

if TYPE_CHECKING:
    from streams.kafka.returning import Found, Wanted

MAX_RECORD_BYTES = 64 * 1024 * 1024
MAX_PROBLEMS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class _Call:
    """What the command was asked to do."""

    wanted: Wanted
    rate: float | None
    yes: bool
    as_json: bool


def replay(
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Send the originals of dead letters to their topics again.")
    ] = False,
    reason: Annotated[
        list[str] | None,
        typer.Option("--reason", metavar="REASON", help="Only those set aside for it; repeatable."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="NAME", help="Only those that came from it; repeatable."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Only those set aside from then on (RFC 3339)."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only those set aside before then (RFC 3339).")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", "-r", metavar="R", help="Records a second; else as fast as it goes."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: BootstrapOption = None,
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Send records that were set aside again, once their cause is mended.

    Says first how many there are, by topic and reason, and asks. Key, value, headers and time are as they
    were; a header names the dead letter. What was cut in its dead letter cannot be sent. The dead letters
    stay where they
    are: limit a second run by --from.
    """
    from streams.cli.running import run_until_stopped
    from streams.kafka.returning import Wanted

    if not dead_letters:
        raise BadUsageError(
            "say what to replay: --dead-letters; for example: judgestream replay --dead-letters --config F"
        )
    if rate is not None and not rate > 0:
        raise BadUsageError(
            f"--rate must be above 0 records a second, got {rate:g}; leave it out for no limit"
        )
    wanted = Wanted(
        reasons=tuple(reason or ()),
        topics=tuple(topic or ()),
        since=_moment("--from", from_),
        until=_moment("--to", to),
    )
    call = _Call(wanted, rate, yes, as_json)
    where = connection(bootstrap_servers, config)
    run_until_stopped(lambda stop: _replay(where, call, stop))


def _moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadUsageError(
            f"{option} must be a time as in RFC 3339, got {text!r}; for example 2026-11-21T20:00:00Z"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


async def _replay(where: Connection, call: _Call, stop: asyncio.Event) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    from streams.kafka.returning import Found, ends_of, letters, send_again
    from streams.kafka.topics.grants import produce_grants, tail_grants

    source = where.settings.topics.dead_letters
    consumer = AIOKafkaConsumer(
        **where.client_options(),
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_partition_fetch_bytes=MAX_RECORD_BYTES,
    )
    await where.start(consumer, tail_grants(source))
    try:
        ends = await ends_of(consumer, source)
        if not ends:
            raise no_topic(source, await consumer.topics(), where)
        first = Found()
        async for _ in letters(consumer, ends, call.wanted, first):
            pass
        _ask(first, call)
        sent = 0
        problems: list[str] = []
        if first.count:
            producer = AIOKafkaProducer(
                **where.client_options(),
                acks="all",
                enable_idempotence=True,
                max_request_size=MAX_RECORD_BYTES,
            )
            grants = [
                grant
                for name in sorted({name for name, _ in first.by_topic})
                for grant in produce_grants(name)
            ]
            await where.start(producer, grants)
            try:
                originals = letters(consumer, ends, call.wanted, Found())
                sent, problems = await send_again(producer, originals, rate=call.rate, stop=stop)
            finally:
                await producer.stop()
    finally:
        await consumer.stop()
    _summarise(first, sent, problems, call)
    if problems:
        shown = "\n".join(f"  {printable(one, 300)}" for one in problems[:MAX_PROBLEMS_SHOWN])
        raise CommandError(f"the broker refused {len(problems)} records:\n{shown}")
    if stop.is_set():
        raise typer.Exit(130)


def _ask(found: Found, call: _Call) -> None:
    for (name, reason), count in sorted(found.by_topic.items()):
        typer.echo(f"{count} records of {printable(name)}, set aside as {reason}", err=True)
    if found.cut:
        typer.echo(f"{found.cut} are cut in their dead letters and cannot be sent", err=True)
    if found.unreadable:
        typer.echo(f"{found.unreadable} records of the topic are no dead letters", err=True)
    if not found.count or call.yes:
        return
    if not sys.stdin.isatty():
        raise BadUsageError(f"{found.count} records would be sent again; add --yes where nobody can be asked")
    typer.confirm(f"Send {found.count} records again?", abort=True, err=True)


def _summarise(found: Found, sent: int, problems: list[str], call: _Call) -> None:
    if call.as_json:
        summary: dict[str, Any] = {
            "found": found.count,
            "sent": sent,
            "refused": len(problems),
            "cut": found.cut,
            "unreadable": found.unreadable,
            "by_topic": [
                {"topic": name, "reason": reason, "count": count}
                for (name, reason), count in sorted(found.by_topic.items())
            ],
        }
        typer.echo(json.dumps(summary))
    else:
        typer.echo(
            f"{sent} of {found.count} records sent again" if found.count else "there is nothing to send again"
        )
