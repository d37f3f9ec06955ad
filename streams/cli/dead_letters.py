"""Resending dead letters, for `judgestream replay`."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.session import Session, emit

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


async def send_dead_letters(where: Session, call: DeadLetterCall, stop: asyncio.Event) -> None:
    """Print the dead letters found, prompt, and resend them."""
    from streams.kafka.returning import Found, ends_of, letters, send_again
    from streams.kafka.topics.grants import produce_grants, tail_grants

    source, first, sent = where.settings.topics.dead_letters, Found(), 0
    problems: list[str] = []
    async with where.consumer(tail_grants(source)) as consumer:
        ends = await ends_of(consumer, source)
        if not ends:
            raise where.no_topic(source, await consumer.topics())
        async for _ in letters(consumer, ends, call.wanted, first):
            pass
        _ask(first, call)
        topics = sorted({name for name, _ in first.by_topic})
        if first.count:
            async with where.producer(
                [grant for name in topics for grant in produce_grants(name)]
            ) as producer:
                originals = letters(consumer, ends, call.wanted, Found())
                sent, problems = await send_again(producer, originals, rate=call.rate, stop=stop)
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
    summary = {
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
    line = f"{sent} of {found.count} records sent again" if found.count else "nothing to send"
    emit(summary, [line], as_json=call.as_json)
