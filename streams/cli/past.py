"""`judgestream replay`: judge past events again, or resend dead letters; prompt first, report at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import typer
from aiokafka.errors import KafkaError

from judge.text.printable import printable
from streams.batch.plan import Plan, begun_at, new_id
from streams.batch.replay import Replay, ReplayReport
from streams.batch.sources import Line, format_of, read_lines
from streams.cli.running import BadUsageError, CommandError, agrees, emit, tell
from streams.cli.session import Session, opened
from streams.errors import SettingsError, StreamsError
from streams.kafka.dead_letters import Matches, Query, select, send_again
from streams.kafka.topics.grants import produce_grants, tail_grants

MAX_PROBLEMS_SHOWN = 10


def plan_of(plan: Plan, call: Session) -> Plan:
    """Add an incident's time, metrics and parts from the verdict store."""
    if plan.incident is None:
        return plan
    with call.snapshot() as snapshot:
        found = call.incident(snapshot, plan.incident)
    labels = [dict(part) for _, part in found.parts]
    return replace(
        plan,
        incident=found.incident_id,
        since=found.started_at,
        until=found.ended_at,
        metrics=plan.metrics or tuple(found.metrics),
        parts=() if {} in labels else tuple(labels),
    )


async def judge_past(
    call: Session, plan: Plan, stop: asyncio.Event, *, resume: str | None, yes: bool, as_json: bool
) -> None:
    topics = call.settings.topics
    rights = [*produce_grants(topics.scores), *tail_grants(topics.scores), *tail_grants(topics.events)]
    again = ""
    try:
        begun = datetime.now(UTC) if resume is None else begun_at(resume, plan)
        replay_id = resume or new_id(plan, begun)
        again = f"continue with --resume {replay_id} and the same options"
        async with call.producer(rights) as producer:
            run = Replay(
                plan,
                replay_id,
                begun,
                call.settings,
                producer=producer,
                lines=lambda: _lines(plan),
                tell=tell,
                agrees=partial(agrees, yes=yes),
            )
            report = await run.run(stop)
    except SettingsError as error:
        if all(one.startswith("--") for one in error.problems):  # an option's
            raise BadUsageError("\n".join(error.problems)) from error
        raise
    except (KafkaError, StreamsError) as error:
        raise CommandError(f"{error}; {again}") from error
    emit(report.as_json(), report.lines(), as_json=as_json)
    _end(report, plan, again)


def _lines(plan: Plan) -> Iterator[Line]:
    assert plan.file is not None  # noqa: S101 - called for files only
    with opened(plan.file) as handle:
        yield from read_lines(handle, format_of(plan.file, None), plan.file.name)


def _end(report: ReplayReport, plan: Plan, again: str) -> None:
    if report.end == "stopped":
        tell(f"stopped; {again}")
        raise typer.Exit(130)
    if report.end == "max_usd":
        raise CommandError(f"--max-usd {plan.max_usd:g} is spent; {again}, and a higher --max-usd")
    if report.end == "outage":
        raise CommandError(f"{report.trouble}; {again}")


async def send_dead_letters(
    call: Session, wanted: Query, stop: asyncio.Event, *, rate: float | None, yes: bool, as_json: bool
) -> None:
    source, found, sent = call.settings.topics.dead_letters, Matches(), 0
    problems: list[str] = []
    reader = await call.reader(source)
    ranges = await reader.between(source, wanted.since)
    async for _ in select(reader.read(source, ranges), wanted, found):
        pass
    by_topic = sorted(found.by_topic.items())
    for (name, reason), count in by_topic:
        tell(f"{count} records of {printable(name)}, set aside as {reason}")
    if found.cut:
        tell(f"{found.cut} are truncated and cannot be sent")
    if found.unreadable:
        tell(f"{found.unreadable} records of the topic are not dead letters")
    if found.count:
        if not (yes or agrees(f"Send {found.count} records again?", yes=yes)):
            raise typer.Abort
        names = sorted({name for name, _ in found.by_topic})
        rights = [grant for name in names for grant in produce_grants(name)]
        async with call.producer(rights) as producer, aclosing(reader.read(source, ranges)) as records:
            originals = select(records, wanted, Matches())
            sent, problems = await send_again(producer, originals, rate=rate, stop=stop)
    summary = {
        "found": found.count,
        "sent": sent,
        "refused": len(problems),
        "cut": found.cut,
        "unreadable": found.unreadable,
        "by_topic": [{"topic": name, "reason": reason, "count": count} for (name, reason), count in by_topic],
    }
    line = f"{sent} of {found.count} records sent again" if found.count else "nothing to send"
    emit(summary, [line], as_json=as_json)
    if problems:
        shown = "\n".join(f"  {printable(one, 300)}" for one in problems[:MAX_PROBLEMS_SHOWN])
        raise CommandError(f"the broker refused {len(problems)} records:\n{shown}")
    if stop.is_set():
        raise typer.Exit(130)
