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
from streams.printable import printable

if TYPE_CHECKING:
    from judge.metric import Metric
    from streams.cli.judge_tally import Tally
    from streams.settings import EndpointSettings

JUDGE_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class _Call:
    """What the command was asked to do."""

    file: Path
    metric: str
    prompt_pack: Path | None
    base_url: str | None
    model: str | None
    output: Path | None
    mode: Literal["evidence", "verbatim"] | None
    concurrency: int
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
        int, typer.Option("--concurrency", min=1, max=1000, help="Lines judged at the same time.")
    ] = 16,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="The summary as JSON: on standard output with --output, else on standard error.",
        ),
    ] = False,
) -> None:
    """Score the events of a file, one result a line, in the order of the lines.

    Asks the endpoint of --base-url, or of OPENAI_BASE_URL and OPENAI_API_KEY (which is sent to either); without any
    of them a rule-based judge inside this process, which understands nothing and costs nothing.
    """
    from streams.cli.running import run_until_stopped

    call = _Call(file, metric, prompt_pack, base_url, model, output, mode, concurrency, as_json)
    built = _metric(call)
    with opened(file) as lines, _output(output) as out:
        tally = run_until_stopped(lambda stop: _judge(call, built, lines, out, stop))
    text = json.dumps(tally.as_json(), ensure_ascii=False) if as_json else tally.line()
    typer.echo(text, err=not (as_json and output is not None))
    if tally.interrupted:
        raise typer.Exit(130)
    if tally.outage is not None:
        raise CommandError(f"{tally.outage}; {tally.results} results were written before")
    if tally.invalid:
        raise CommandError(f"{tally.invalid} of {tally.lines} lines are no events")


def _metric(call: _Call) -> Metric:
    from pydantic import ValidationError

    from streams.errors import SettingsError
    from streams.judging import build_metric
    from streams.logs import set_up_logs
    from streams.settings import BUILT_IN_METRICS, MetricSettings, TelemetrySettings

    set_up_logs(TelemetrySettings(log_level="warning"))  # a pack's warnings go to standard error
    if call.prompt_pack is None and call.metric not in BUILT_IN_METRICS:
        raise BadUsageError(
            f"--metric must be {' or '.join(BUILT_IN_METRICS)}, got {call.metric!r}; any other name needs --prompt-pack"
        )
    if call.prompt_pack is not None and call.mode == "evidence":
        raise BadUsageError("--mode must be verbatim with a prompt pack, got 'evidence'; leave it out")
    try:
        settings = MetricSettings(prompt_pack=call.prompt_pack, mode=call.mode)
        return build_metric(call.metric, settings)
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


async def _judge(call: _Call, metric: Metric, lines: BinaryIO, out: TextIO, stop: asyncio.Event) -> Tally:
    from judge.errors import JudgeConfigurationError, JudgeUnavailableError
    from streams.cli.judge_tally import Tally
    from streams.file_judging import InvalidLine, judge_lines
    from streams.judging import build_judges, build_prices, open_chat
    from streams.settings import JudgeSettings

    tally = Tally(metric.name, metric.score_range)
    async with _endpoint(call) as endpoint:
        # Its own bound on time: no consumer group waits here.
        settings = JudgeSettings(
            endpoints=(endpoint,), max_in_flight=call.concurrency, timeout_seconds=JUDGE_TIMEOUT_SECONDS
        )
        chat = open_chat(endpoint, settings)
        prices = build_prices((endpoint,))
        judge_ = build_judges({metric.name: metric}, chat, settings, endpoint, prices=prices)[metric.name]
        source = "stdin" if str(call.file) == "-" else call.file.name
        outcomes = judge_lines(lines, judge_, source=source, concurrency=call.concurrency)

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
        try:
            await asyncio.wait({writing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
            else:
                tally.interrupted = True
        except JudgeUnavailableError as error:
            tally.outage = str(error)
        except JudgeConfigurationError as error:
            raise BadUsageError(str(error)) from error
        finally:
            writing.cancel()
            stopping.cancel()
            await asyncio.gather(writing, stopping, return_exceptions=True)
            await outcomes.aclose()
            await chat.close()
            out.flush()
    return tally


@contextlib.asynccontextmanager
async def _endpoint(call: _Call) -> AsyncIterator[EndpointSettings]:
    from judge.errors import JudgeUnavailableError
    from judge.offline import OFFLINE_MODEL
    from judge.offline.server import OfflineJudge
    from streams.errors import SettingsError
    from streams.judge_endpoint import chosen_endpoint
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
