"""Resending dead letters, for `judgestream replay`."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.kafka import MAX_RECORD_BYTES, Connection, no_topic
from streams.kafka.access.stopping import stop_consumer

if TYPE_CHECKING:
    from streams.kafka.returning import Found, Wanted

MAX_PROBLEMS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class DeadLetterCall:
    """The command's options."""

    wanted: Wanted
    rate: float | None
    yes: bool
    as_json: bool


async def send_dead_letters(where: Connection, call: DeadLetterCall, stop: asyncio.Event) -> None:
    """Print the dead letters found, prompt, and resend them."""
    from aiokafka import AIOKafkaProducer

    from streams.kafka.returning import Found, ends_of, letters, send_again
    from streams.kafka.topics.grants import produce_grants, tail_grants

    source = where.settings.topics.dead_letters
    consumer = where.reader(max_partition_fetch_bytes=MAX_RECORD_BYTES)
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
        await stop_consumer(consumer)
    _summarise(first, sent, problems, call)
    if problems:
        shown = "\n".join(f"  {printable(one, 300)}" for one in problems[:MAX_PROBLEMS_SHOWN])
        raise CommandError(f"the broker refused {len(problems)} records:\n{shown}")
    if stop.is_set():
        raise typer.Exit(130)


def _ask(found: Found, call: DeadLetterCall) -> None:
    for (name, reason), count in sorted(found.by_topic.items()):
        typer.echo(f"{count} records of {printable(name)}, set aside as {reason}", err=True)
    if found.cut:
        typer.echo(f"{found.cut} are truncated and cannot be sent", err=True)
    if found.unreadable:
        typer.echo(f"{found.unreadable} records of the topic are not dead letters", err=True)
    if not found.count or call.yes:
        return
    if not sys.stdin.isatty():
        raise BadUsageError(
            f"{found.count} records would be sent again; add --yes to send them without a prompt"
        )
    typer.confirm(f"Send {found.count} records again?", abort=True, err=True)


def _summarise(found: Found, sent: int, problems: list[str], call: DeadLetterCall) -> None:
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
        typer.echo(f"{sent} of {found.count} records sent again" if found.count else "nothing to send")
