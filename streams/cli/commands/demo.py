"""`judgestream demo`: the whole pipeline on one machine."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.errors import BadUsageError, CommandError

if TYPE_CHECKING:
    from streams.demo.displays import LiveDisplay, PlainDisplay
    from streams.demo.run import Ending
    from streams.settings import EndpointSettings

MAX_EVENTS = 10_000_000


def demo(
    events: Annotated[
        int | None,
        typer.Option("--events", "-n", metavar="N", min=1, max=MAX_EVENTS, help="Stop after N events."),
    ] = None,
    events_file: Annotated[
        Path | None,
        typer.Option(
            "--events-file",
            metavar="FILE",
            help="Serve the events of this file once, one JSON object per line.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="A built-in or library metric; repeatable; default: coverage and relevance.",
        ),
    ] = None,
    judge_latency_seconds: Annotated[
        float,
        typer.Option(
            "--judge-latency-seconds", metavar="S", min=0, max=600, help="Latency of the offline judge."
        ),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the summary, as JSON.")] = False,
) -> None:
    """Run the whole pipeline on this machine: broker, judge, worker, events and verdicts.

    The broker is in memory, on loopback. The judge is rule-based unless OPENAI_API_KEY or OPENAI_BASE_URL
    (and OPENAI_MODEL) name a real one. The answers get worse half-way. Without --events or --events-file the
    demo runs until Ctrl-C, while quality falls and recovers in turn.
    """
    from judge.metrics.registry import NAMED

    started = time.monotonic()
    metrics = tuple(dict.fromkeys(metric or ()))
    for name in metrics:
        if name not in NAMED:
            raise BadUsageError(f"--metric must be one of {', '.join(NAMED)}, got {name!r}")
    lines = _lines(events_file, events)
    if lines is not None:
        if events is not None and events > len(lines):
            typer.echo(f"{events_file} has {len(lines)} events: the demo ends after them", err=True)
        events = len(lines)
    from streams.cli.running import run_until_stopped

    ending = run_until_stopped(
        lambda stop: _run(events, lines, metrics, judge_latency_seconds, started, stop, as_json=as_json)
    )
    _show(ending, as_json=as_json)
    if events is None:
        return
    if not ending.complete:
        raise typer.Exit(130)
    if not ending.values["identity_holds"]:
        raise CommandError("some events are unaccounted for: the summary's numbers do not add up")


def _lines(file: Path | None, events: int | None) -> list[bytes] | None:
    if file is None:
        return None
    lines: list[bytes] = []
    try:
        with file.open("rb") as handle:
            for line in handle:
                if events is not None and len(lines) >= events:
                    break
                if text := line.rstrip(b"\r\n"):
                    lines.append(text)
    except OSError as error:
        raise BadUsageError(f"--events-file: cannot read {file}: {error.strerror}; check the path") from error
    if not lines:
        raise BadUsageError(f"--events-file: {file} has no events; it needs one JSON object per line")
    return lines


async def _run(
    events: int | None,
    lines: list[bytes] | None,
    metrics: tuple[str, ...],
    judge_latency_seconds: float,
    started: float,
    stop: asyncio.Event,
    *,
    as_json: bool,
) -> Ending:
    from judge.errors import JudgeConfigurationError
    from streams.demo.run import Plan, run_demo
    from streams.errors import SettingsError, StreamsError

    endpoint = await _endpoint()
    plan = Plan(
        events=events,
        lines=lines,
        endpoint=endpoint,
        judge_latency_seconds=judge_latency_seconds,
        started=started,
        metrics=metrics,
    )
    try:
        with _display(as_json=as_json) as display:
            return await run_demo(plan, display, stop)
    except (SettingsError, JudgeConfigurationError) as error:
        raise BadUsageError(str(error)) from error
    except StreamsError as error:
        raise CommandError(str(error)) from error


async def _endpoint() -> EndpointSettings | None:
    from judge.errors import JudgeUnavailableError
    from streams.errors import SettingsError
    from streams.judging.choice import chosen_endpoint

    try:
        return await chosen_endpoint(os.environ)
    except SettingsError as error:
        raise BadUsageError(str(error)) from error
    except JudgeUnavailableError as error:
        raise CommandError(str(error)) from error


def _display(*, as_json: bool) -> LiveDisplay | PlainDisplay:
    from rich.console import Console

    from streams.demo.displays import LiveDisplay, PlainDisplay
    from streams.settings import TelemetrySettings
    from streams.telemetry.logs import set_up_logs

    console = Console()
    is_live = console.is_terminal and not as_json and not console.is_dumb_terminal
    # A log line would break the live view, which shows the problems that matter.
    set_up_logs(TelemetrySettings(log_level="error" if is_live else "warning"))
    # The display shows alerts; timers are often late because broker and judge share the event loop.
    for name in ("streams.monitoring.keeper", "mode.timers"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if is_live:
        return LiveDisplay(console)
    return PlainDisplay(lambda line: typer.echo(line, err=as_json))


def _show(ending: Ending, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(ending.values, ensure_ascii=False))
        return
    from rich.console import Console

    from streams.demo.summary import as_tables

    Console(file=sys.stdout, highlight=False).print(as_tables(ending.values, complete=ending.complete))
