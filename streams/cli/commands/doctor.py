"""`judgestream doctor`: tests everything a worker needs and reports what fails."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError
from streams.cli.running import run_until_stopped

if TYPE_CHECKING:
    from streams.doctor.examination import Examination
    from streams.doctor.findings import Diagnosis

TELL_SECONDS = 10.0
"""How often the failures that are being retried are printed."""
_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "not tried": "bright_black"}
_WIDTH = 9
Name = TypeVar("Name", bound=str)


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
        typer.Option("--skip", metavar="CHECK", help="Skip a check; repeatable (verdict costs money)."),
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
    from streams.cli.settings import DEBUG_VARIABLE
    from streams.doctor.examination import Examination
    from streams.doctor.findings import CHECKS, Diagnosis, bad_settings
    from streams.errors import SettingsError
    from streams.kafka.topics.table import ALL_AGENTS
    from streams.settings import TelemetrySettings, load_settings
    from streams.telemetry.logs import set_up_logs

    chosen = _chosen("--agents", agents.split(","), ALL_AGENTS)
    skipped = _chosen("--skip", skip, CHECKS) if skip else ()
    env = {name: value for name, value in os.environ.items() if name != DEBUG_VARIABLE}
    # The findings report refused connections and unknown prices.
    set_up_logs(TelemetrySettings(log_level="error"))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        settings = load_settings(config, env)
    except SettingsError as error:
        diagnosis = Diagnosis(tuple(bad_settings("settings", "", problem) for problem in error.problems))
    else:
        examination = Examination(
            settings,
            env=env,
            agents=chosen,
            skip=skipped,
            timeout_seconds=timeout_seconds,
            workers=workers,
        )
        diagnosis = run_until_stopped(lambda stop: _examine(examination, wait_seconds, stop))
    for line in (json.dumps(diagnosis.as_json(), ensure_ascii=False),) if as_json else _lines(diagnosis):
        typer.echo(line)
    raise typer.Exit(diagnosis.exit_code)


def _chosen(option: str, names: Iterable[str], known: tuple[Name, ...]) -> tuple[Name, ...]:
    given = {name.strip() for name in names if name.strip()}
    if not given or given.difference(known):
        got = ", ".join(sorted(given.difference(known))) or "none"
        raise BadUsageError(f"{option} must name one or more of {', '.join(known)}, got {got!r}")
    return tuple(name for name in known if name in given)


async def _examine(examination: Examination, wait_seconds: float, stop: asyncio.Event) -> Diagnosis:
    running = asyncio.create_task(examination.run_until_well(wait_seconds, on_trouble=_teller()))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise typer.Exit(130)
        return running.result()
    finally:
        running.cancel()
        stopping.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)


def _teller() -> Callable[[Diagnosis, float], None]:
    """Print the failures being retried to standard error: at once, on a change, and every `TELL_SECONDS`."""
    last: tuple[float, str] = (float("-inf"), "")

    def tell(diagnosis: Diagnosis, left: float) -> None:
        nonlocal last
        now = time.monotonic()
        what = "; ".join(text for outcome, text, _ in diagnosis.lines() if outcome == "failed")
        if what != last[1] or now - last[0] >= TELL_SECONDS:
            last = (now, what)
            typer.echo(f"waiting, {left:.0f} s left: {printable(what, 500)}", err=True)

    return tell


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    paint = sys.stdout.isatty()
    for outcome, text, remedy in diagnosis.lines():
        word = f"{outcome:<{_WIDTH}}"
        yield f"{typer.style(word, fg=_COLOURS[outcome]) if paint else word} {text}"
        if remedy:
            hint = f"-> {remedy}"
            yield f"{'':<{_WIDTH}} {typer.style(hint, fg='cyan') if paint else hint}"
    counts = diagnosis.counts()
    parts = [f"{counts[name]} {name}" for name in ("failed", "warning", "ok", "not tried") if counts[name]]
    tokens = diagnosis.usage.input_tokens + diagnosis.usage.output_tokens
    if tokens:
        cost = "no price known" if diagnosis.cost_usd is None else f"{diagnosis.cost_usd:.6f} USD"
        parts.append(f"verdicts took {tokens} tokens ({cost})")
    yield f"a worker can{'not do its work' if diagnosis.failures else ' run'}: {', '.join(parts)}"
