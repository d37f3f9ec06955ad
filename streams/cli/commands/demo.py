"""`judgestream demo`: the whole pipeline on one machine."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Exit, Option, echo

from streams.cli.running import BadUsageError, CommandError, emit, run_until_stopped
from streams.cli.session import log_to_stderr

if TYPE_CHECKING:
    from streams.demo.run import Display, Ending
    from streams.demo.stage import DemoPlan
    from streams.settings.judge import EndpointSettings

MAX_EVENTS = 10_000_000


def demo(
    events: int | None = Option(
        None, "--events", "-n", metavar="N", min=1, max=MAX_EVENTS, help="Stop after N events."
    ),
    events_file: Path | None = Option(None, metavar="FILE", help="Serve these events (JSON lines) once."),
    metric: list[str] | None = Option(
        None, "--metric", "-m", metavar="NAME", help="Repeatable; default: coverage and relevance."
    ),
    judge_latency_seconds: float = Option(0.0, metavar="S", min=0, max=600, help="Of the offline judge."),
    model: str | None = Option(None, metavar="NAME", help="Ask this model instead of the offline judge."),
    base_url: str | None = Option(
        None, metavar="URL", help="Its address; default: OPENAI_BASE_URL, else OpenAI's."
    ),
    max_usd: float = Option(0.5, metavar="USD", min=0.01, max=10_000, help="Stop at this cost."),
    as_json: bool = Option(False, "--json", help="Print only the summary, as JSON."),
) -> None:
    """Run the whole pipeline on this machine: broker, judge, worker, events and verdicts.

    The broker is in memory, on loopback. The judge is rule-based and free, unless --model or --base-url (or
    OPENAI_MODEL or OPENAI_BASE_URL) name a real one; its key is OPENAI_API_KEY. The answers get worse
    half-way. Without --events or --events-file the demo runs until Ctrl-C, and quality falls and recovers.
    """
    started = time.monotonic()
    from judge.metrics.registry import metric_names
    from streams.demo.stage import DemoPlan

    metrics = tuple(dict.fromkeys(metric or ()))
    for name in metrics:
        if name not in metric_names():
            raise BadUsageError(f"--metric must be one of {', '.join(metric_names())}, got {name!r}")
    lines = None if events_file is None else _lines(events_file, events)
    if lines is not None:
        if events is not None and events > len(lines):
            echo(f"{events_file} has {len(lines)} events: the demo ends after them", err=True)
        events = len(lines)
    plan = DemoPlan(
        events=events,
        lines=lines,
        endpoint=None,
        judge_latency_seconds=judge_latency_seconds,
        started=started,
        metrics=metrics,
        max_usd=max_usd,
    )
    ending = run_until_stopped(lambda stop: _run(plan, base_url, model, stop, as_json=as_json))
    from streams.demo.screen import summary_lines

    emit(ending.values, summary_lines(ending.values, complete=ending.early is None), as_json=as_json)
    if ending.early == "limit":
        echo(f"the demo stopped at its limit: {ending.values['limit']}", err=True)
    elif events is not None and ending.early is not None:
        raise Exit(130)
    elif events is not None and not ending.values["identity_holds"]:
        raise CommandError("some events are unaccounted for: the summary's numbers do not add up")


def _lines(file: Path, events: int | None) -> list[bytes]:
    from streams.batch.sources import bounded_lines
    from streams.errors import SettingsError

    try:
        with file.open("rb") as handle:
            texts = (line.rstrip(b"\r\n") for line in bounded_lines(handle, str(file)))
            lines = list(islice(filter(None, texts), events))
    except OSError as error:
        raise BadUsageError(f"--events-file: cannot read {file}: {error.strerror}; check the path") from error
    except SettingsError as error:
        raise BadUsageError(f"--events-file: {error}") from error
    if not lines:
        raise BadUsageError(f"--events-file: {file} has no events; it needs one JSON object per line")
    return lines


async def _run(
    plan: DemoPlan, base_url: str | None, model: str | None, stop: asyncio.Event, *, as_json: bool
) -> Ending:
    from streams.demo.run import run_demo

    endpoint = await _endpoint(base_url, model)
    with _display(as_json=as_json) as display:
        return await run_demo(replace(plan, endpoint=endpoint), display, stop)


async def _endpoint(base_url: str | None, model: str | None) -> EndpointSettings | None:
    """Return the real judge; None for the offline one. A key alone names none."""
    from streams.judging.endpoints import chosen_endpoint

    named = {"--model": model, "--base-url": base_url}
    named |= {name: os.environ.get(name, "").strip() for name in ("OPENAI_MODEL", "OPENAI_BASE_URL")}
    source = next((name for name, value in named.items() if value), None)
    if source is None:
        return None
    endpoint = await chosen_endpoint(os.environ, base_url=base_url, model=model)
    if endpoint is None:
        raise BadUsageError(
            f"OPENAI_API_KEY: is required with {source}; set it, or name an address with --base-url"
        )
    echo(f"asking {endpoint.model} at {endpoint.base_url} once ...", err=True)
    return endpoint


def _display(*, as_json: bool) -> AbstractContextManager[Display]:
    from rich.console import Console

    from streams.demo.screen import PlainDisplay, live

    console = Console()
    is_live = console.is_terminal and not as_json and not console.is_dumb_terminal
    # A log line would break the live view, which shows the problems that matter.
    log_to_stderr("error" if is_live else "warning")
    # The display shows alerts and outages, the summary what is in flight; timers are often late because
    # everything shares the event loop.
    for name in ("streams.monitoring", "streams.judging", "streams.worker", "mode.timers"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return live(console) if is_live else nullcontext(PlainDisplay(lambda line: echo(line, err=as_json)))
