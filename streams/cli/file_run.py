"""One run of `judgestream judge` over a file."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.lines import progress

if TYPE_CHECKING:
    from judge.metric import Metric
    from schemas import Failed, Scored, Unscored
    from streams.batch.files import FileJudge
    from streams.batch.results import ResultFile
    from streams.batch.sources import Line
    from streams.batch.tally import Tally
    from streams.intake.reading import Ingest
    from streams.settings import EndpointSettings, JudgeSettings, MetricSettings, Settings

MAX_LINE_BYTES: Final = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileCall:
    """The options of `judgestream judge`."""

    file: Path
    metrics: tuple[str, ...]
    config: Path | None
    prompt_pack: Path | None
    base_url: str | None
    model: str | None
    output: Path | None
    mode: Literal["evidence", "verbatim"] | None
    concurrency: int | None
    compare: Path | None
    fail_under: tuple[tuple[str, float], ...]


class FileRun:
    """Judges the lines of a file, writes the results and summarises them.

    Args:
        call: The command's options.
        settings: The worker's settings; None without --config.
        judge: Their section `judge`, or defaults for the command line.
        metrics: The metrics, in the order of the results of one event.
        results: Where results go; None for standard output.
        keep: Whether to keep results for a comparison.
    """

    def __init__(
        self,
        call: FileCall,
        settings: Settings | None,
        judge: JudgeSettings,
        metrics: Sequence[Metric],
        results: ResultFile | None,
        *,
        keep: bool,
    ) -> None:
        from streams.batch.tally import MetricTally, Tally

        self.summary: Tally = Tally([MetricTally(one.name, one.score_range) for one in metrics])
        self.kept: list[Scored | Unscored | Failed] = []
        self._call = call
        self._settings = settings
        self._judge = judge
        self._metrics = metrics
        self._results = results
        self._keep = keep
        self._warned: set[str] = set()

    async def judge(self, lines: Iterable[Line], stop: asyncio.Event) -> Tally:
        """Judge until the end of the lines, an outage of the judge, or a stop by the user.

        Raises:
            BadUsageError: An endpoint cannot work as configured.
            CommandError: No endpoint answers.
        """
        from judge.errors import JudgeConfigurationError
        from streams.batch.files import open_file_judge
        from streams.errors import SettingsError

        for result in () if self._results is None else self._results.earlier:
            if result.metric in self._call.metrics:
                self._take(result)
        try:
            async with (
                _endpoints(self._call, self._judge, self._named()) as endpoints,
                open_file_judge(self._metrics, self._judge, endpoints, self._wanted()) as judge,
            ):
                await self._write(judge, lines, stop)
        except (JudgeConfigurationError, SettingsError) as error:
            kept = None if self._results is None else self._results.leave()
            raise BadUsageError(str(error) + (f"\n{kept}" if kept else "")) from error
        return self.summary

    def _wanted(self) -> Mapping[str, MetricSettings]:
        """Return the metrics' settings; none if the command line names the endpoint."""
        return {} if self._settings is None or self._call.base_url is not None else self._settings.metrics

    def _named(self) -> Mapping[str, MetricSettings]:
        """Return the settings of each requested metric, or defaults."""
        from streams.settings import MetricSettings

        known = {} if self._settings is None else self._settings.metrics
        return {name: known.get(name) or MetricSettings() for name in self._call.metrics}

    async def _write(self, judge: FileJudge, lines: Iterable[Line], stop: asyncio.Event) -> None:
        """Write results until the end of the lines, an outage of the judge, or a stop by the user."""
        from streams.batch.engine import Batch, Limits
        from streams.batch.files import FileWork

        whole = [name for name, metric in self._named().items() if metric.unit == "conversation"]
        work = FileWork(
            {metric.name: metric for metric in self._metrics},
            self._ingest(),
            source="stdin" if str(self._call.file) == "-" else self._call.file.name,
            done=frozenset() if self._results is None else self._results.done,
            whole=whole,
        )
        batch = Batch(judge.judges, judge.pool, Limits(at_once=self._judge.max_in_flight), stop=stop)
        try:
            with progress(self._call.file, each=len(self._metrics)) as advance:
                async with contextlib.aclosing(batch.run(work.of(self._counted(lines)))) as outcomes:
                    async for outcome in outcomes:
                        self._handle(outcome, advance)
            self.summary.outage, self.summary.interrupted = batch.trouble, batch.end == "stopped"
            for one in self.summary.metrics if batch.end == "done" else ():
                if one.metric in whole and not one.results:
                    typer.echo(f"{one.metric} judges conversations: no event has a conversation_id", err=True)
        finally:
            sys.stdout.flush()
            for usage, cost_usd in judge.checks.used_up:
                self.summary.checks.add(usage, cost_usd)

    def _handle(self, outcome: object, advance: Callable[[], None]) -> None:
        from streams.batch.sources import InvalidLine

        if isinstance(outcome, InvalidLine):
            typer.echo(f"error: line {outcome.number}: {outcome.problem}", err=True)
            self.summary.invalid[outcome.problem.partition(":")[0][:60]] += 1
            advance()
            return
        result: Scored | Unscored | Failed = outcome  # type: ignore[assignment] # the other kinds of outcome
        if self._results is None:
            sys.stdout.write(result.model_dump_json() + "\n")
        else:
            self._results.write(result)
        self._take(result)
        advance()

    def _take(self, result: Scored | Unscored | Failed) -> None:
        self.summary.add(result)
        if self._keep:
            self.kept.append(result)

    def _counted(self, lines: Iterable[Line]) -> Iterable[Line]:
        """Count the lines as they are read, and warn once of each unknown name that resembles a field."""
        from streams.batch.sources import misspelt

        mapped = self._settings is not None and self._settings.ingest.mapping
        for line in lines:
            self.summary.lines += 1
            if not mapped and len(self._warned) < 20 and line.number <= 1_000:
                for name, meant in misspelt(line.value):
                    if name not in self._warned:
                        self._warned.add(name)
                        typer.echo(
                            (
                                f"warning: line {line.number}: {printable(name)!r} is not a field; did "
                                f"you mean {meant}?"
                            ),
                            err=True,
                        )
            yield line

    def _ingest(self) -> Ingest:
        from streams.intake.reading import Ingest

        if self._settings is None:
            return Ingest(max_event_bytes=MAX_LINE_BYTES)
        ingest = self._settings.ingest
        return Ingest(max_event_bytes=ingest.max_event_bytes, mapping=ingest.mapping)


@contextlib.asynccontextmanager
async def _endpoints(
    call: FileCall, settings: JudgeSettings, metrics: Mapping[str, MetricSettings]
) -> AsyncIterator[tuple[EndpointSettings, ...]]:
    from streams.judging.stack import judge_endpoints

    if call.config is not None and call.base_url is None:
        if call.model is not None:
            raise BadUsageError(
                f"--model {call.model} with --config needs --base-url; or name it in {call.config}"
            )
        endpoints = judge_endpoints(settings, os.environ, metrics)
        for endpoint in endpoints:
            typer.echo(f"judge: {printable(endpoint.model)} at {endpoint.base_url}", err=True)
        yield endpoints
        return
    async with _endpoint(call) as endpoint:
        yield (endpoint,)


@contextlib.asynccontextmanager
async def _endpoint(call: FileCall) -> AsyncIterator[EndpointSettings]:
    from judge.chat import OFFLINE_MODEL
    from judge.errors import JudgeUnavailableError
    from judge.offline.server import OfflineJudge
    from streams.errors import SettingsError
    from streams.judging.choice import chosen_endpoint
    from streams.settings import EndpointSettings

    try:
        endpoint = await chosen_endpoint(os.environ, base_url=call.base_url, model=call.model)
    except SettingsError as error:
        # Name the option instead of the variable.
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
            f"--model {call.model} needs an endpoint; add --base-url, or set OPENAI_API_KEY or "
            "OPENAI_BASE_URL"
        )
    typer.echo(
        f"judge: {OFFLINE_MODEL}, offline rules without a language model "
        "(set --base-url, OPENAI_BASE_URL or OPENAI_API_KEY for a real one)",
        err=True,
    )
    async with OfflineJudge() as server:
        yield EndpointSettings(name="offline", base_url=server.base_url, model=OFFLINE_MODEL)
