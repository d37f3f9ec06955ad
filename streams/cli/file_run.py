"""One run of `judgestream judge` over a file."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.lines import progress

if TYPE_CHECKING:
    from judge.metric import Metric
    from schemas import Result
    from streams.batch.files import FileJudge, FileWork
    from streams.batch.results import ResultFile, Texts
    from streams.batch.sources import Format, Line
    from streams.batch.tally import Tally
    from streams.settings import EndpointSettings, JudgeSettings, MetricSettings, Settings

MAX_LINE_BYTES: Final = 100 * 1024 * 1024
MOST_EXAMPLES: Final = 3
"""Limit of printed lines that are not events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCall:
    """The options of `judgestream judge`."""

    file: Path
    form: Format
    metrics: tuple[str, ...]
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of an event and their names in the file."""
    config: Path | None = None
    prompt_pack: Path | None = None
    base_url: str | None = None
    model: str | None = None
    output: Path | None = None
    concurrency: int | None = None
    compare: Path | None = None
    labels: Path | None = None
    html: Path | None = None
    fail_under: tuple[tuple[str, float], ...] = ()


class FileRun:
    """Judges the lines of a file, writes the results and summarises them.

    Args:
        settings: The worker's settings; None without --config.
        metrics: The metrics, in the order of the results of one event.
        results: Where results go; None for standard output.
    """

    def __init__(
        self,
        call: FileCall,
        settings: Settings | None,
        judge: JudgeSettings,
        metrics: Sequence[Metric],
        results: ResultFile | None,
        *,
        is_table: bool,
    ) -> None:
        from streams.batch.tally import MetricTally, Tally

        self.summary: Tally = Tally([MetricTally(one.name, one.score_range) for one in metrics])
        self.kept: list[Result] = []
        """All results, if a comparison, a page or labels need them."""
        self.texts: dict[str, Texts] = {}
        """The texts of each answer by result id, if a table or a page needs them."""
        self._call = call
        self._settings = settings
        self._judge = judge
        self._metrics = metrics
        self._results = results
        self._keeps = any(one is not None for one in (call.compare, call.html, call.labels))
        self._keeps_texts = is_table or call.html is not None
        self._warned: set[str] = set()
        self._hint = ""

    @property
    def name(self) -> str:
        """The file's name."""
        return self._call.file.name

    async def judge(self, lines: Iterable[Line], stop: asyncio.Event) -> Tally:
        """Judge until the end of the lines, an outage of the judge, or a stop by the user.

        Raises:
            BadUsageError: An endpoint cannot work as configured.
            CommandError: No endpoint answers.
        """
        from judge.errors import JudgeConfigurationError
        from streams.batch.files import open_file_judge
        from streams.errors import SettingsError

        earlier = [] if self._results is None else self._results.earlier
        if earlier:
            typer.echo(f"{len(earlier)} results of an earlier run are kept", err=True)
        for result in earlier:
            if result.metric in self._call.metrics:
                self._take(result)
        try:
            async with (
                _endpoints(self._call, self._judge, self._named(), self._metrics) as (endpoints, wanted),
                open_file_judge(self._metrics, self._judge, endpoints, wanted) as judge,
            ):
                await self._write(judge, lines, stop)
        except (JudgeConfigurationError, SettingsError) as error:
            kept = None if self._results is None else self._results.leave()
            raise BadUsageError(str(error) + (f"\n{kept}" if kept else "")) from error
        self._warn_of_mixture(earlier)
        return self.summary

    def _named(self) -> Mapping[str, MetricSettings]:
        """Return the settings of each requested metric, or defaults."""
        from streams.settings import MetricSettings

        known = {} if self._settings is None else self._settings.metrics
        return {name: known.get(name) or MetricSettings() for name in self._call.metrics}

    async def _write(self, judge: FileJudge, lines: Iterable[Line], stop: asyncio.Event) -> None:
        """Write results until the end of the lines, an outage of the judge, or a stop by the user."""
        from streams.batch.engine import Batch, Limits

        lines = iter(lines)
        first = next(lines, None)
        whole = [name for name, metric in self._named().items() if metric.unit == "conversation"]
        work = self._work(() if first is None else (first,), whole)
        self.texts = work.texts
        batch = Batch(judge.judges, judge.pool, Limits(at_once=self._judge.max_in_flight), stop=stop)
        try:
            with progress(self._call.file, each=len(self._metrics)) as advance:
                found = self._counted(lines if first is None else chain([first], lines))
                async with contextlib.aclosing(batch.run(work.of(found))) as outcomes:
                    async for outcome in outcomes:
                        self._handle(outcome, advance)
            self.summary.outage, self.summary.interrupted = batch.trouble, batch.end == "stopped"
            for one in self.summary.metrics if batch.end == "done" else ():
                if one.metric in whole and not one.results:
                    typer.echo(
                        f"left out: {one.metric} judges conversations, and no event has a conversation_id",
                        err=True,
                    )
        finally:
            sys.stdout.flush()
            if self._hint and 2 * self.summary.invalid.total() > self.summary.lines:
                typer.echo(f"hint: {self._hint}", err=True)
            for usage, cost_usd in judge.checks.used_up:
                self.summary.checks.add(usage, cost_usd)

    def _work(self, first: Sequence[Line], whole: Sequence[str]) -> FileWork:
        from streams.batch.files import FileWork
        from streams.batch.sources import expressions, names_of
        from streams.intake.reading import Ingest
        from streams.intake.sampling import SamplingPolicy
        from streams.intake.selector import Route, Selector

        names = [name for line in first for name in names_of(line.value)]
        ingest = None if self._settings is None else self._settings.ingest
        mapping = {} if ingest is None else dict(ingest.mapping)
        # The reader of a table takes the columns itself.
        fields = self._call.fields if self._call.form in ("jsonl", "json") else {}
        metrics = {metric.name: metric for metric in self._metrics}
        single, conversations = (
            Selector(SamplingPolicy(), [Route(name) for name in metrics if (name in whole) == joins], metrics)
            for joins in (False, True)
        )
        return FileWork(
            single,
            conversations,
            Ingest(
                max_event_bytes=MAX_LINE_BYTES if ingest is None else ingest.max_event_bytes,
                mapping=mapping | expressions(fields, names),
            ),
            source="stdin" if str(self._call.file) == "-" else self._call.file.name,
            done=frozenset() if self._results is None else self._results.done,
            texts_kept="full" if self._settings is None else self._settings.store.texts,
        )

    def _handle(self, outcome: object, advance: Callable[[], None]) -> None:
        from streams.batch.sources import InvalidLine

        if isinstance(outcome, InvalidLine):
            count = self.summary.invalid.total()
            if count < MOST_EXAMPLES:
                typer.echo(f"error: line {outcome.number}: {outcome.problem}", err=True)
            elif count == MOST_EXAMPLES:
                typer.echo("error: further lines that are not events are counted below", err=True)
            self.summary.invalid[outcome.problem.partition(":")[0][:60]] += 1
            advance()
            return
        result: Result = outcome  # type: ignore[assignment] # the other kinds of outcome
        if self._results is None:
            sys.stdout.write(result.model_dump_json() + "\n")
        else:
            self._results.write(result)
        self._take(result)
        advance()

    def _take(self, result: Result) -> None:
        texts = self.texts.get(result.result_id)
        if not self._keeps_texts:
            self.texts.pop(result.result_id, None)
        self.summary.add(result, ("", "") if texts is None else (texts.question, texts.answer))
        if self._keeps:
            self.kept.append(result)

    def _counted(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Count the lines as they are read, and warn of names that resemble a field or lack one."""
        from streams.batch.sources import misspelt, names_of, unmapped

        mapped = self._settings is not None and self._settings.ingest.mapping
        for line in lines:
            self.summary.lines += 1
            names = () if mapped or line.number > 1_000 else names_of(line.value)
            if names and not self._hint:
                self._hint = unmapped(names, self._call.fields)
            for name, meant in misspelt(names) if len(self._warned) < 20 and not self._call.fields else ():
                if name not in self._warned:
                    self._warned.add(name)
                    typer.echo(
                        f"warning: line {line.number}: {printable(name)!r} is not a field; did you mean "
                        f"{meant}?",
                        err=True,
                    )
            yield line

    def _warn_of_mixture(self, earlier: Sequence[Result]) -> None:
        """Warn if earlier results are of another evaluator than all new ones."""
        before = {(one.metric, one.evaluator.fingerprint): one.evaluator.model for one in earlier}
        for metric in self.summary.metrics:
            now = metric.fingerprints - {key[1] for key in before if key[0] == metric.metric}
            models = sorted({model for key, model in before.items() if key[0] == metric.metric})
            if now and models:
                typer.echo(
                    f"warning: {metric.metric}: earlier results are of another judge or prompt "
                    f"({', '.join(models)}); add --overwrite to judge all again",
                    err=True,
                )


@contextlib.asynccontextmanager
async def _endpoints(
    call: FileCall,
    settings: JudgeSettings,
    named: Mapping[str, MetricSettings],
    metrics: Sequence[Metric],
) -> AsyncIterator[tuple[tuple[EndpointSettings, ...], Mapping[str, MetricSettings]]]:
    """Yield the endpoints, and the metrics' settings; none if the settings do not name the endpoints."""
    from streams.judging.endpoints import judge_endpoints

    free = all(metric.is_code for metric in named.values())
    if call.config is not None and call.base_url is None and (settings.endpoints or free):
        if call.model is not None:
            raise BadUsageError(
                f"--model {call.model} with --config needs --base-url; or name it in {call.config}"
            )
        endpoints = judge_endpoints(settings, os.environ, named)
        for endpoint in endpoints:
            typer.echo(f"judge: {printable(endpoint.model)} at {endpoint.base_url}", err=True)
        yield endpoints, named
        return
    async with _endpoint(call, metrics) as endpoint:
        yield (endpoint,), {}


@contextlib.asynccontextmanager
async def _endpoint(call: FileCall, metrics: Sequence[Metric]) -> AsyncIterator[EndpointSettings]:
    from judge.chat import OFFLINE_MODEL
    from judge.errors import JudgeUnavailableError
    from judge.offline.server import OfflineJudge
    from streams.errors import SettingsError
    from streams.judging.endpoints import chosen_endpoint
    from streams.judging.metrics import beyond_offline_rules
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
    remedy = "set --base-url, OPENAI_BASE_URL or OPENAI_API_KEY"
    if call.model is not None:
        raise BadUsageError(
            f"--model {call.model} needs an endpoint; add --base-url, or set OPENAI_API_KEY or "
            "OPENAI_BASE_URL"
        )
    for problem in beyond_offline_rules({metric.name: metric for metric in metrics}):
        raise BadUsageError(f"--metric {problem}; {remedy}")
    typer.echo(
        f"judge: {OFFLINE_MODEL}, offline rules without a language model ({remedy} for a real one)", err=True
    )
    async with OfflineJudge() as server:
        yield EndpointSettings(name="offline", base_url=server.base_url, model=OFFLINE_MODEL)
