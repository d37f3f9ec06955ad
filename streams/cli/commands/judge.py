"""`judgestream judge`: score a file without Kafka."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, TextIO

import typer

from streams.cli.errors import BadUsageError, CommandError
from streams.cli.lines import opened, progress
from streams.text import printable

if TYPE_CHECKING:
    from judge.metric import Metric
    from streams.cli.judge_tally import Tally
    from streams.judging.lines import FileJudge
    from streams.settings import EndpointSettings, JudgeSettings, Settings

CONCURRENCY = 16
JUDGE_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class _Call:
    """What the command was asked to do."""

    file: Path
    metric: str
    config: Path | None
    prompt_pack: Path | None
    base_url: str | None
    model: str | None
    output: Path | None
    mode: Literal["evidence", "verbatim"] | None
    concurrency: int | None
    as_json: bool


def judge(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Events, one JSON object a line; `-` reads standard input.")
    ],
    metric: Annotated[
        str,
        typer.Option(
            "--metric", "-m", metavar="NAME", help="coverage, relevance, or any name with --prompt-pack."
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="A worker's settings: its endpoints, limits, redaction, prices and cache, and its metric of this name.",
        ),
    ] = None,
    prompt_pack: Annotated[
        Path | None, typer.Option("--prompt-pack", metavar="FILE", help="File with the metric's prompts.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="OpenAI-compatible endpoint, up to and with /v1; else OPENAI_BASE_URL.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model to ask; else OPENAI_MODEL.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where results go; else standard output."),
    ] = None,
    mode: Annotated[
        Literal["evidence", "verbatim"] | None,
        typer.Option(
            "--mode",
            help="evidence: the judge lists, code counts; verbatim: the judge's own score. "
            "Without it evidence, and verbatim with a prompt pack.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            max=1000,
            help=f"Lines judged at the same time; else judge.max_in_flight of --config, else {CONCURRENCY}.",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="The summary as JSON: on standard output with --output, else on standard error.",
        ),
    ] = False,
) -> None:
    """Score the events of a file, one result a line, in the order of the lines.

    Asks the endpoint of --base-url, or those of --config, or that of OPENAI_BASE_URL and OPENAI_API_KEY (which is sent to
    either); without any of them a rule-based judge inside this process, which understands nothing and costs nothing. What
    --config says of Kafka, sampling and budgets means nothing here.
    """
    from streams.cli.running import run_until_stopped

    call = _Call(file, metric, config, prompt_pack, base_url, model, output, mode, concurrency, as_json)
    settings = _settings(call)
    asked = _judge_settings(call, settings)
    built = _metric(call, settings, asked)
    with opened(file) as lines, _output(output) as out:
        tally = run_until_stopped(lambda stop: _judge(call, asked, built, lines, out, stop))
    text = json.dumps(tally.as_json(), ensure_ascii=False) if as_json else tally.line()
    typer.echo(text, err=not (as_json and output is not None))
    if tally.interrupted:
        raise typer.Exit(130)
    if tally.outage is not None:
        raise CommandError(f"{tally.outage}; {tally.results} results were written before")
    if tally.invalid:
        raise CommandError(f"{tally.invalid} of {tally.lines} lines are no events")


def _settings(call: _Call) -> Settings | None:
    from streams.cli.settings import settings_for_command
    from streams.settings import TelemetrySettings
    from streams.telemetry.logs import set_up_logs

    set_up_logs(TelemetrySettings(log_level="warning"))  # a pack's warnings go to standard error
    return None if call.config is None else settings_for_command(call.config)


def _judge_settings(call: _Call, settings: Settings | None) -> JudgeSettings:
    from streams.settings import JudgeSettings

    if settings is None:
        # Its own bound on time: no consumer group waits here.
        return JudgeSettings(
            max_in_flight=call.concurrency or CONCURRENCY, timeout_seconds=JUDGE_TIMEOUT_SECONDS
        )
    if call.concurrency is None:
        return settings.judge
    return settings.judge.model_copy(update={"max_in_flight": call.concurrency})


def _metric(call: _Call, settings: Settings | None, judge: JudgeSettings) -> Metric:
    from pydantic import ValidationError

    from judge.metrics.registry import BUILT_IN
    from streams.errors import SettingsError
    from streams.judging.metrics import build_metric, guarded
    from streams.settings import MetricSettings

    named = None if settings is None else settings.metrics.get(call.metric)
    pack = call.prompt_pack or (None if named is None else named.prompt_pack)
    if pack is None and call.metric not in BUILT_IN:
        known = tuple(BUILT_IN) if settings is None else tuple({**BUILT_IN, **settings.metrics})
        raise BadUsageError(
            f"--metric must be {' or '.join(known)}, got {call.metric!r}; any other name needs --prompt-pack"
        )
    if pack is not None and call.mode == "evidence":
        raise BadUsageError("--mode must be verbatim with a prompt pack, got 'evidence'; leave it out")
    mode = call.mode if call.mode is not None or named is None or call.prompt_pack is not None else named.mode
    try:
        wanted = MetricSettings(
            prompt_pack=pack, mode=mode, score_range=None if named is None else named.score_range
        )
        return guarded(build_metric(call.metric, wanted), judge)
    except (SettingsError, ValidationError) as error:
        raise BadUsageError(str(error)) from error


@contextlib.contextmanager
def _output(file: Path | None) -> Iterator[TextIO]:
    if file is None:
        yield sys.stdout
        return
    try:
        handle = file.open("w", encoding="utf-8")
    except OSError as error:
        raise BadUsageError(f"cannot write {file}: {error.strerror}") from error
    with handle:
        yield handle


async def _judge(
    call: _Call, settings: JudgeSettings, metric: Metric, lines: BinaryIO, out: TextIO, stop: asyncio.Event
) -> Tally:
    from judge.errors import JudgeConfigurationError
    from streams.cli.judge_tally import Tally
    from streams.errors import SettingsError
    from streams.judging.lines import open_file_judge

    tally = Tally(metric.name, metric.score_range)
    try:
        async with (
            _endpoints(call, settings) as endpoints,
            open_file_judge(metric, settings, endpoints) as judge_,
        ):
            await _write(call, settings, judge_, lines, out, tally, stop)
    except (JudgeConfigurationError, SettingsError) as error:
        raise BadUsageError(str(error)) from error
    return tally


async def _write(
    call: _Call,
    settings: JudgeSettings,
    judge: FileJudge,
    lines: BinaryIO,
    out: TextIO,
    tally: Tally,
    stop: asyncio.Event,
) -> None:
    """Write results until the lines are over, the judge is gone, or somebody asks to stop."""
    from streams.judging.lines import InvalidLine, judge_lines, outage

    source = "stdin" if str(call.file) == "-" else call.file.name
    outcomes = judge_lines(lines, judge, source=source, concurrency=settings.max_in_flight)

    async def write() -> None:
        with progress(call.file) as advance:
            async for outcome in outcomes:
                if isinstance(outcome, InvalidLine):
                    typer.echo(f"error: line {outcome.number}: {outcome.problem}", err=True)
                else:
                    out.write(outcome.model_dump_json() + "\n")
                tally.add(outcome)
                advance()

    writing = asyncio.create_task(write())
    stopping = asyncio.create_task(stop.wait())
    failing = asyncio.create_task(outage(judge.pool))
    try:
        await asyncio.wait({writing, stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
        if writing.done():
            writing.result()
        elif failing.done():
            tally.outage = failing.result()
        else:
            tally.interrupted = True
    finally:
        for task in (writing, stopping, failing):
            task.cancel()
        await asyncio.gather(writing, stopping, failing, return_exceptions=True)
        await outcomes.aclose()
        out.flush()
        for usage, cost_usd in judge.checks.used_up:
            tally.add_usage(usage, cost_usd)


@contextlib.asynccontextmanager
async def _endpoints(call: _Call, settings: JudgeSettings) -> AsyncIterator[tuple[EndpointSettings, ...]]:
    from streams.judging.stack import judge_endpoints

    if call.config is not None and call.base_url is None:
        if call.model is not None:
            raise BadUsageError(
                f"--model {call.model} needs --base-url beside --config; or name it in {call.config}"
            )
        endpoints = judge_endpoints(settings, os.environ)
        for endpoint in endpoints:
            typer.echo(f"judge: {printable(endpoint.model)} at {endpoint.base_url}", err=True)
        yield endpoints
        return
    async with _endpoint(call) as endpoint:
        yield (endpoint,)


@contextlib.asynccontextmanager
async def _endpoint(call: _Call) -> AsyncIterator[EndpointSettings]:
    from judge.chat import OFFLINE_MODEL
    from judge.errors import JudgeUnavailableError
    from judge.offline.server import OfflineJudge
    from streams.errors import SettingsError
    from streams.judging.choice import chosen_endpoint
    from streams.settings import EndpointSettings

    try:
        endpoint = await chosen_endpoint(os.environ, base_url=call.base_url, model=call.model)
    except SettingsError as error:
        # Name the place where it was given.
        text = str(error) if call.base_url is None else str(error).replace("OPENAI_BASE_URL", "--base-url")
        raise BadUsageError(text) from error
    except JudgeUnavailableError as error:
        raise CommandError(str(error)) from error
    if endpoint is not None:
        typer.echo(f"judge: {printable(endpoint.model)} at {endpoint.base_url}", err=True)
        yield endpoint
        return
    if call.model is not None:
        raise BadUsageError(
            f"--model {call.model} needs an endpoint; add --base-url, or set OPENAI_API_KEY or OPENAI_BASE_URL"
        )
    typer.echo(
        f"judge: {OFFLINE_MODEL}, offline rules without a language model "
        "(--base-url, OPENAI_BASE_URL or OPENAI_API_KEY name a real one)",
        err=True,
    )
    async with OfflineJudge() as server:
        yield EndpointSettings(name="offline", base_url=server.base_url, model=OFFLINE_MODEL)
