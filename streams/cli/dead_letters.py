"""Resending dead letters, for `judgestream replay`."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.session import Session, emit

if TYPE_CHECKING:
    from streams.kafka.dead_letters import Matches, Query

MAX_PROBLEMS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class DeadLetterCall:
    """The command's options."""

    wanted: Query
    rate: float | None
    yes: bool
    as_json: bool


async def send_dead_letters(where: Session, call: DeadLetterCall, stop: asyncio.Event) -> None:
    """Print the dead letters found, prompt, and resend them."""
    from streams.kafka.dead_letters import Matches, select, send_again
    from streams.kafka.topics.grants import produce_grants, tail_grants

    source, first, sent = where.settings.topics.dead_letters, Matches(), 0
    problems: list[str] = []
    reader = where.reader(tail_grants(source))
    ranges = await reader.between(source, call.wanted.since)
    if not ranges and source not in (known := await reader.topics()):
        raise where.no_topic(source, known)
    async for _ in select(reader.read(source, ranges), call.wanted, first):
        pass
    _ask(first, call)
    topics = sorted({name for name, _ in first.by_topic})
    if first.count:
        async with (
            where.producer([grant for name in topics for grant in produce_grants(name)]) as producer,
            aclosing(reader.read(source, ranges)) as records,
        ):
            originals = select(records, call.wanted, Matches())
            sent, problems = await send_again(producer, originals, rate=call.rate, stop=stop)
    _summarise(first, sent, problems, call)
    if problems:
        shown = "\n".join(f"  {printable(one, 300)}" for one in problems[:MAX_PROBLEMS_SHOWN])
        raise CommandError(f"the broker refused {len(problems)} records:\n{shown}")
    if stop.is_set():
        raise typer.Exit(130)


def _ask(found: Matches, call: DeadLetterCall) -> None:
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


def _summarise(found: Matches, sent: int, problems: list[str], call: DeadLetterCall) -> None:
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
