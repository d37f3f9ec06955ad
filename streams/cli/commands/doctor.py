"""`judgestream doctor`: tests everything a worker needs and reports what fails."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError

if TYPE_CHECKING:
    from streams.doctor.finding import CheckName, Diagnosis, Finding
    from streams.kafka.topics.flow import AgentName
    from streams.settings import Settings

TELL_SECONDS = 10.0
"""How often the failures that are being retried are printed."""
_COLOURS = {"ok": "green", "warning": "yellow", "failed": "bold red", "not tried": "dim"}
_WIDTH = 9


def doctor(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The settings file (YAML).")],
    agents: Annotated[
        str, typer.Option("--agents", metavar="NAMES", help="Agents to check for, separated by commas.")
    ] = "intake,judge,monitor",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            help="Number of workers that share the partitions; default: the group's current members.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip",
            metavar="CHECK",
            help="Skip a check; repeatable (verdict costs money).",
        ),
    ] = None,
    timeout_seconds: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=0.1,
            max=600,
            metavar="SECONDS",
            help="Time limit of each connection and reply; for verdicts, judge.timeout_seconds applies.",
        ),
    ] = 10.0,
    wait_seconds: Annotated[
        float,
        typer.Option(
            "--wait",
            min=0,
            max=86_400,
            metavar="SECONDS",
            help="Retry temporary failures for at most SECONDS.",
        ),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as JSON.")] = False,
) -> None:
    """Test everything a worker needs: settings, secrets, broker, topics, rights, judge, verdicts, clock.

    Changes nothing and does not affect running workers. Exit code 0: a worker can run, possibly with
    warnings; 1: a check failed; 2: the settings are invalid.
    """
    from streams.cli.running import run_until_stopped
    from streams.doctor.finding import Diagnosis
    from streams.errors import SettingsError
    from streams.settings import load_settings

    chosen, left_out = _agents(agents), _checks(skip or [])
    try:
        settings = load_settings(config, _environment())
    except SettingsError as error:
        from streams.doctor.finding import bad_settings

        diagnosis = Diagnosis(tuple(bad_settings("settings", "", one) for one in error.problems))
    else:
        diagnosis = run_until_stopped(
            lambda stop: _examine(settings, chosen, left_out, workers, timeout_seconds, wait_seconds, stop)
        )
    if as_json:
        typer.echo(json.dumps(diagnosis.as_json(), ensure_ascii=False))
    else:
        _print(diagnosis)
    raise typer.Exit(diagnosis.exit_code)


def _environment() -> dict[str, str]:
    from streams.cli.settings import DEBUG_VARIABLE

    return {name: value for name, value in os.environ.items() if name != DEBUG_VARIABLE}


def _agents(text: str) -> tuple[AgentName, ...]:
    from streams.kafka.topics.flow import ALL_AGENTS

    named = {name.strip() for name in text.split(",") if name.strip()}
    if not named or named.difference(ALL_AGENTS):
        raise BadUsageError(
            f"--agents must name one or more of {', '.join(ALL_AGENTS)}, separated by commas, got {text!r}"
        )
    return tuple(name for name in ALL_AGENTS if name in named)


def _checks(names: list[str]) -> tuple[CheckName, ...]:
    from streams.doctor.finding import CHECKS

    unknown = set(names).difference(CHECKS)
    if unknown:
        raise BadUsageError(
            f"--skip must name one of {', '.join(CHECKS)}, got {', '.join(sorted(unknown))!r}"
        )
    return tuple(name for name in CHECKS if name in names)


async def _examine(
    settings: Settings,
    agents: tuple[AgentName, ...],
    skip: tuple[CheckName, ...],
    workers: int | None,
    timeout_seconds: float,
    wait_seconds: float,
    stop: asyncio.Event,
) -> Diagnosis:
    import logging

    from streams.doctor.examination import Examination
    from streams.settings import TelemetrySettings
    from streams.telemetry.logs import set_up_logs

    # The findings report refused connections and unknown prices.
    set_up_logs(TelemetrySettings(log_level="error"))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    examination = Examination(
        settings,
        env=_environment(),
        agents=agents,
        skip=skip,
        timeout_seconds=timeout_seconds,
        workers=workers,
    )
    running = asyncio.create_task(examination.run_until_well(wait_seconds, on_trouble=_teller()))
    asked = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise typer.Exit(130)
        return running.result()
    finally:
        running.cancel()
        asked.cancel()
        await asyncio.gather(running, asked, return_exceptions=True)


def _teller() -> Callable[[Diagnosis, float], None]:
    """Print the failures being retried to standard error: at once, on a change, and every `TELL_SECONDS`."""
    told: tuple[float, str] = (float("-inf"), "")

    def tell(diagnosis: Diagnosis, left: float) -> None:
        nonlocal told
        now = time.monotonic()
        what = "; ".join(f"{_name(one)}: {one.detail}" for one in diagnosis.failures)
        if what != told[1] or now - told[0] >= TELL_SECONDS:
            told = (now, what)
            typer.echo(f"waiting, {left:.0f} s left: {printable(what, 500)}", err=True)

    return tell


def _name(finding: Finding) -> str:
    return f"{finding.check} {finding.subject}".rstrip()


def _print(diagnosis: Diagnosis) -> None:
    if sys.stdout.isatty():
        _paint(diagnosis)
        return
    for outcome, text, remedy in _lines(diagnosis):
        typer.echo(f"{outcome:<{_WIDTH}} {text}")
        if remedy:
            typer.echo(f"{'':<{_WIDTH}} -> {remedy}")
    typer.echo(_summary(diagnosis))


def _paint(diagnosis: Diagnosis) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for outcome, text, remedy in _lines(diagnosis):
        row = Table.grid(padding=(0, 1))
        row.add_column(width=_WIDTH)
        row.add_column()
        row.add_row(
            Text(outcome, style=_COLOURS[outcome]), Text(text, style="dim" if outcome == "not tried" else "")
        )
        console.print(row)
        if remedy:
            console.print(Padding(Text(f"→ {remedy}", style="cyan"), (0, 0, 0, _WIDTH + 1)))
    console.print(Text(_summary(diagnosis), style="bold red" if diagnosis.failures else "bold green"))


def _lines(diagnosis: Diagnosis) -> Iterator[tuple[str, str, str]]:
    for one in diagnosis.findings:
        yield one.outcome, printable(f"{_name(one)}: {one.detail}"), printable(one.remedy)


def _summary(diagnosis: Diagnosis) -> str:
    counts = diagnosis.counts()
    parts = [
        f"{counts[outcome]} {outcome}"
        for outcome in ("failed", "warning", "ok", "not tried")
        if counts[outcome]
    ]
    usage = diagnosis.usage
    if usage.input_tokens:
        cost = "no price known" if diagnosis.cost_usd is None else f"{diagnosis.cost_usd:.6f} USD"
        parts.append(f"verdicts took {usage.input_tokens + usage.output_tokens} tokens ({cost})")
    verdict = "a worker can run" if not diagnosis.failures else "a worker cannot do its work"
    return f"{verdict}: {', '.join(parts)}"
