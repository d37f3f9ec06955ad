"""Judging past events again, for `judgestream replay`."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from streams.cli.errors import BadUsageError, CommandError
from streams.cli.lines import opened
from streams.cli.session import Session

if TYPE_CHECKING:
    from streams.batch.plan import Plan
    from streams.batch.replay import Report
    from streams.batch.sources import Line
    from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class PastCall:
    """The command's options."""

    plan: Plan
    resume: str | None
    yes: bool
    as_json: bool


class _Person:
    """The user at the terminal; with --yes there is no prompt."""

    def __init__(self, *, yes: bool) -> None:
        self._yes = yes

    def tell(self, text: str) -> None:
        typer.echo(text, err=True)

    def agrees(self, question: str) -> bool:
        if self._yes:
            self.tell(question.removesuffix("?"))
            return True
        if not sys.stdin.isatty():
            raise BadUsageError(f"{question} add --yes to run without a prompt")
        return typer.confirm(question, err=True)


def plan_of(plan: Plan, settings: Settings) -> Plan:
    """Add an incident's time, metrics and parts from the verdict store.

    Raises:
        BadUsageError: The incident does not exist.
        CommandError: The store cannot be read.
    """
    if plan.incident is None:
        return plan
    from streams.errors import StoreError
    from streams.store.database import Reader
    from streams.store.views.incidents import known_incidents

    reader = Reader(settings.store.path)
    try:
        with reader.snapshot() as snapshot:
            known = {one.incident_id: one for one in known_incidents(snapshot)}
    except StoreError as error:
        raise CommandError(str(error)) from error
    found = known.get(plan.incident)
    if found is None:
        ids = ", ".join(list(known)[:10]) or "none"
        raise BadUsageError(f"--incident must be one of {ids}, got {plan.incident!r}")
    labels = [dict(part) for _, part in found.parts]
    return replace(
        plan,
        since=found.started_at,
        until=found.ended_at,
        metrics=plan.metrics or tuple(found.metrics),
        parts=() if {} in labels else tuple(labels),
    )


async def judge_past(where: Session, call: PastCall, stop: asyncio.Event) -> None:
    """Estimate, prompt, judge and report.

    Raises:
        BadUsageError: The settings or the options are invalid.
        CommandError: It ended early.
    """
    from aiokafka.errors import KafkaError

    from streams.batch.plan import begun_at, new_id
    from streams.batch.replay import Replay
    from streams.errors import SettingsError, StreamsError
    from streams.kafka.topics.grants import produce_grants, tail_grants

    topics = where.settings.topics
    rights = [*produce_grants(topics.scores), *tail_grants(topics.scores), *tail_grants(topics.events)]
    replay_id = call.resume
    try:
        begun = datetime.now(UTC) if call.resume is None else begun_at(call.resume, call.plan)
        replay_id = call.resume or new_id(call.plan, begun)
        async with where.producer(rights) as producer:
            run = Replay(
                call.plan,
                replay_id,
                begun,
                where.settings,
                producer=producer,
                lines=lambda: _lines(call.plan),
                env=os.environ,
            )
            report = await run.run(_Person(yes=call.yes), stop)
    except SettingsError as error:
        if all(one.startswith("--") for one in error.problems):  # an option's
            raise BadUsageError("\n".join(error.problems)) from error
        raise
    except (KafkaError, StreamsError) as error:
        raise CommandError(f"{error}; continue with --resume {replay_id} and the same options") from error
    _tell(report, call)


def _lines(plan: Plan) -> Iterator[Line]:
    from streams.batch.sources import format_of, read_lines

    assert plan.file is not None  # noqa: S101 - called for files only
    with opened(plan.file) as handle:
        yield from read_lines(handle, format_of(plan.file, None), plan.file.name)


def _tell(report: Report, call: PastCall) -> None:
    if call.as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        for line in report.lines():
            typer.echo(line)
    again = f"continue with --resume {report.replay_id} and the same options"
    match report.end:
        case "stopped":
            typer.echo(f"stopped; {again}", err=True)
            raise typer.Exit(130)
        case "max_usd":
            raise CommandError(f"--max-usd {call.plan.max_usd:g} is spent; {again}, and a higher --max-usd")
        case "outage":
            raise CommandError(f"{report.trouble}; {again}")
        case _:
            pass
