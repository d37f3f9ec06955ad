"""One run of `judgestream judge` over a file: its metrics and judge, its results, its report."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import typer

from judge.chat import OFFLINE_MODEL
from judge.errors import JudgeConfigurationError
from judge.metric import Metric
from judge.metrics.registry import metric_names
from judge.offline.server import OfflineJudge
from judge.text.printable import printable
from schemas import Result
from streams.batch.comparison import Comparison, agreements, compare, read_human_labels
from streams.batch.engine import Batch, Outcome, open_batch
from streams.batch.results import ResultFile, Texts, open_results, page, page_row, read_results
from streams.batch.selection import FileWork
from streams.batch.sources import (
    MAX_LINE_BYTES,
    Format,
    Line,
    expressions,
    format_of,
    misspelt,
    names_of,
    read_lines,
    unmapped,
)
from streams.batch.tally import MetricTally, Tally
from streams.cli.commands.files import JudgeFile
from streams.cli.options import field_names, require_one_of
from streams.cli.running import BadUsageError, CommandError, json_text, run_until_stopped, tell
from streams.cli.session import log_to_stderr, opened, settings_for_command
from streams.errors import SettingsError
from streams.intake.reading.decode import JsonReader
from streams.intake.sampling import SamplingPolicy
from streams.intake.selector import Route, Selector
from streams.judging.endpoints import chosen_endpoint, judge_endpoints
from streams.judging.metrics import beyond_offline_rules, build_metric, guarded
from streams.settings.judge import EndpointSettings, JudgeSettings
from streams.settings.metrics import MetricSettings
from streams.store.views.labels import Agreement

MOST_EXAMPLES: Final = 3
MOST_WARNINGS: Final = 20
CONCURRENCY: Final = 16
JUDGE_TIMEOUT_SECONDS: Final = 120.0
"""Longer than a worker's: no consumer group waits."""


class FileRun(JudgeFile):
    """Judges the lines of a file, writes the results and reports them."""

    def __post_init__(self) -> None:
        if self.overwrite and self.resume:
            raise BadUsageError("--overwrite and --resume exclude each other; keep one of them")
        log_to_stderr("warning")  # a pack's warnings
        # Settings for Kafka are not used, so the sampling key meets each condition that others put on it.
        without_kafka = {"JUDGESTREAM_SAMPLING__KEY": "record_key"}
        self.settings = None if self.config is None else settings_for_command(self.config, without_kafka)
        self.names = self._names()
        self.fields = field_names(self.map_ or ())
        self._thresholds = [self._threshold(one) for one in self.fail_under or ()]
        self._form = format_of(self.file, self.input_format)
        self._judge, known = JudgeSettings(timeout_seconds=JUDGE_TIMEOUT_SECONDS), {}
        if self.settings is not None:
            self._judge, known = self.settings.judge, self.settings.metrics
        if self.concurrency is not None or self.settings is None:
            self._judge = self._judge.model_copy(update={"max_in_flight": self.concurrency or CONCURRENCY})
        self._named = {name: known.get(name) or MetricSettings().find_class(name) for name in self.names}
        self.metrics = {name: self._metric(name, known) for name in self.names}
        self._mapped = self.settings is not None and bool(self.settings.ingest.mapping)
        self._results: ResultFile | None = None
        self._summary = Tally([MetricTally(one.name, one.score_range) for one in self.metrics.values()])
        self._kept: list[Result] = []
        self._written: Format = "jsonl" if self.output is None else format_of(self.output, self.output_format)
        self._texts: dict[str, Texts] = {}
        self._earlier: list[Result] = []
        self._compared: list[Comparison] = []
        self._agreed: list[Agreement] = []

    def _names(self) -> tuple[str, ...]:
        if self.metric:
            return tuple(dict.fromkeys(self.metric))
        if self.settings is None or "metrics" not in self.settings.model_fields_set:
            where = "" if self.config is None else f"; {self.config} names none"
            raise BadUsageError(f"--metric is required, for example --metric coverage{where}")
        return tuple(self.settings.metrics)

    def _threshold(self, given: str) -> tuple[str, float]:
        """Read METRIC=MEAN, or only the mean of a single metric."""
        name, _, text = given.rpartition("=")
        name = name or (self.names[0] if len(self.names) == 1 else "")
        try:
            least = float(text)
        except ValueError:
            problem = f"must be METRIC=MEAN, got {given!r}; write coverage=3.5"
            raise BadUsageError(f"--fail-under {problem}") from None
        if name not in self.names:
            raise BadUsageError(f"--fail-under names {name!r}, which is not judged; add --metric {name}")
        return name, least

    def _metric(self, name: str, known: Mapping[str, MetricSettings]) -> Metric:
        pack = self.prompt_pack
        if pack is not None and len(self.names) > 1:
            remedy = "name packs in the metrics of --config"
            raise BadUsageError(f"--prompt-pack belongs to one metric, got {len(self.names)}; {remedy}")
        if pack is None:
            names = list(dict.fromkeys((*metric_names(), *known)))
            require_one_of("--metric", name, names, "any other name needs --prompt-pack")
        settings = self._named[name] if pack is None else MetricSettings(prompt_pack=pack)
        return guarded(build_metric(name, settings), self._judge)

    def run(self) -> None:
        if self.compare is not None:
            self._earlier = list(read_results(self.compare))
        labels = [] if self.labels is None else read_human_labels(self.labels)
        if self.output is not None:
            source = None if str(self.file) == "-" else self.file
            again = {"overwrite": self.overwrite, "resume": self.resume}
            self._results = open_results(self.output, self._written, source=source, **again)
        with opened(self.file, progress=True) as handle:
            lines = read_lines(handle, self._form, str(self.file), None if self._mapped else self.fields)
            run_until_stopped(lambda stop: self._judge_lines(lines, stop))
        if self.labels is not None:
            self._agreed = agreements(labels, [*self._earlier, *self._kept], self.metrics, self.labels)
        if self.compare is not None:
            self._compared = [compare(one, self._earlier, self._kept) for one in self.names]
        self._tell()
        if self.html is not None:
            self._write_page(self.html)
        self._end()

    async def _judge_lines(self, lines: Iterable[Line], stop: asyncio.Event) -> None:
        earlier = [] if self._results is None else self._results.earlier
        if earlier:
            tell(f"{len(earlier)} results of an earlier run are kept")
        for result in earlier:
            if result.metric in self.metrics:
                self._take(result)
        try:
            async with (
                self._endpoints() as (endpoints, wanted),
                open_batch(self.metrics, wanted, self._judge, endpoints, stop=stop) as batch,
            ):
                self._summary.checks = batch.checks
                await self._write(batch, iter(lines))
        except (JudgeConfigurationError, SettingsError) as error:
            kept = None if self._results is None else self._results.leave()
            raise BadUsageError(str(error) + (f"\n{kept}" if kept else "")) from error
        self._warn_of_mixture(earlier)

    async def _write(self, batch: Batch, lines: Iterator[Line]) -> None:
        first = next(lines, None)
        names = () if first is None else names_of(first.value)
        whole = [name for name, one in self._named.items() if one.unit == "conversation"]
        work = self._work(names, whole)
        self._texts = work.texts
        for name, meant in () if self.fields or self._mapped else misspelt(names)[:MOST_WARNINGS]:
            tell(f"warning: {printable(name)!r} is not a field; did you mean {meant}?")
        try:
            every = lines if first is None else chain([first], lines)
            async with contextlib.aclosing(batch.run(work.of(every))) as outcomes:
                async for outcome in outcomes:
                    self._handle(outcome)
            self._summary.outage, self._summary.interrupted = batch.trouble, batch.end == "stopped"
            for one in self._summary.metrics if batch.end == "done" else ():
                if one.metric in whole and not one.results:
                    why = "judges conversations, and no event has a conversation_id"
                    tell(f"left out: {one.metric} {why}")
        finally:
            sys.stdout.flush()
            self._summary.lines = work.counted.records
            hint = unmapped(names, self.fields) if names and not self._mapped else ""
            if hint and 2 * self._summary.invalid.total() > self._summary.lines:
                tell(f"hint: {hint}")

    def _work(self, names: Sequence[str], whole: Sequence[str]) -> FileWork:
        settings = self.settings
        # The reader of a table takes the columns itself.
        mapping = expressions(self.fields if self._form in ("jsonl", "json") else {}, names)
        max_event_bytes = MAX_LINE_BYTES
        if settings is not None:
            mapping, max_event_bytes = settings.ingest.mapping | mapping, settings.ingest.max_event_bytes
        routes = [Route(name) for name in self.metrics]
        single = [one for one in routes if one.metric not in whole]
        together = [one for one in routes if one.metric in whole]
        return FileWork(
            single=Selector(SamplingPolicy(), single, self.metrics),
            whole=Selector(SamplingPolicy(), together, self.metrics),
            reader=JsonReader(max_event_bytes=max_event_bytes, mapping=mapping),
            source="stdin" if str(self.file) == "-" else self.file.name,
            done=frozenset() if self._results is None else self._results.done,
            texts_kept="full" if settings is None else settings.store.texts,
        )

    def _handle(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Line):
            if self._results is None:
                sys.stdout.write(outcome.model_dump_json() + "\n")
            else:
                self._results.write(outcome)
            self._take(outcome)
            return
        count = self._summary.invalid.total()
        if count < MOST_EXAMPLES:
            tell(f"error: line {outcome.number}: {outcome.problem}")
        elif count == MOST_EXAMPLES:
            tell("error: further lines that are not events are counted below")
        self._summary.invalid[outcome.problem.partition(":")[0][:60]] += 1

    def _take(self, result: Result) -> None:
        texts = self._texts.get(result.result_id)
        if self.html is None and self._written in ("jsonl", "json"):
            self._texts.pop(result.result_id, None)
        self._summary.add(result, ("", "") if texts is None else (texts.question, texts.answer))
        if any((self.compare, self.html, self.labels)):
            self._kept.append(result)

    def _warn_of_mixture(self, earlier: Sequence[Result]) -> None:
        """Warn if earlier results are of another evaluator than all new ones."""
        for metric in self._summary.metrics:
            before = [one.evaluator for one in earlier if one.metric == metric.metric]
            models = sorted({one.model for one in before})
            if models and metric.fingerprints - {one.fingerprint for one in before}:
                others = f"of another judge or prompt ({', '.join(models)})"
                remedy = "add --overwrite to judge all again"
                tell(f"warning: {metric.metric}: earlier results are {others}; {remedy}")

    @contextlib.asynccontextmanager
    async def _endpoints(
        self,
    ) -> AsyncIterator[tuple[tuple[EndpointSettings, ...], Mapping[str, MetricSettings]]]:
        """Yield the endpoints, and the metrics' settings; none if the settings do not name the endpoints."""
        named = self._judge.endpoints or all(metric.is_code for metric in self._named.values())
        wanted: Mapping[str, MetricSettings] = {}
        if self.config is not None and self.base_url is None and named:
            if self.model is not None:
                remedy = f"needs --base-url; or name it in {self.config}"
                raise BadUsageError(f"--model {self.model} with --config {remedy}")
            endpoints, wanted = judge_endpoints(self._judge, os.environ, self._named), self._named
        else:
            try:
                chosen = await chosen_endpoint(os.environ, base_url=self.base_url, model=self.model)
            except SettingsError as error:
                # Name the option instead of the variable.
                name = "OPENAI_BASE_URL" if self.base_url is None else "--base-url"
                raise BadUsageError(str(error).replace("OPENAI_BASE_URL", name)) from error
            endpoints = () if chosen is None else (chosen,)
        for endpoint in endpoints:
            tell(f"judge: {printable(endpoint.model)} at {endpoint.base_url}")
        if endpoints or wanted:
            yield endpoints, wanted
            return
        remedy = "set --base-url, OPENAI_BASE_URL or OPENAI_API_KEY"
        if self.model is not None:
            raise BadUsageError(f"--model {self.model} needs an endpoint; {remedy}")
        for problem in beyond_offline_rules(self.metrics):
            raise BadUsageError(f"--metric {problem}; {remedy}")
        rules = f"{OFFLINE_MODEL}, offline rules without a language model"
        tell(f"judge: {rules} ({remedy} for a real one)")
        async with OfflineJudge() as server:
            yield (EndpointSettings(name="offline", base_url=server.base_url, model=OFFLINE_MODEL),), {}

    def _tell(self) -> None:
        if self.as_json:
            told = self._summary.as_json()
            if self._compared:
                told["comparisons"] = [one.as_json() for one in self._compared]
            if self.labels is not None:
                told["agreement"] = [one.as_json() for one in self._agreed]
            text = json_text(told)
        else:
            lines = [self._summary.text(), *(one.text() for one in self._compared)]
            lines += [line for one in self._agreed for line in one.lines()]
            if self.labels is not None and not self._agreed:
                lines.append(f"--labels {self.labels}: no label is of a scored answer; compare the event ids")
            text = "\n".join(lines)
        typer.echo(text, err=not (self.as_json and self.output is not None))

    def _write_page(self, html: Path) -> None:
        before = {(one.event_id, one.metric): one for one in self._earlier}
        people = {(key, one.metric): scores for one in self._agreed for key, scores in one.people.items()}
        rows = []
        for one in self._kept:
            key, texts = (one.event_id, one.metric), self._texts.get(one.result_id)
            rows.append(page_row(one, texts, before.get(key), people.get(key, ())))
        text = page(self.file.name, self._summary, rows, self._compared, self._agreed)
        try:
            html.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadUsageError(f"cannot write {html}: {error.strerror}") from error

    def _end(self) -> None:
        summary, results = self._summary, self._results
        if summary.interrupted or summary.outage is not None:
            kept = None if results is None else results.leave()
            if summary.outage is not None:
                written = f"{summary.results} results were written before" if results is None else kept
                raise CommandError("; ".join(filter(None, (summary.outage, written))))
            if kept is not None:
                tell(kept)
            raise typer.Exit(130)
        if results is not None and summary.all_failed:
            results.leave()
        elif results is not None and summary.results:
            results.finish(self._texts)
        problems = [*self._problems()]
        if problems:
            raise CommandError("; ".join(problems))

    def _problems(self) -> Iterator[str]:
        summary = self._summary
        if summary.invalid:
            yield f"{summary.invalid.total()} of {summary.lines} lines are not events"
        if summary.all_failed:
            whys = ", ".join(f"{why} {n}" for one in summary.metrics for why, n in one.failed.most_common(3))
            yield f"judging failed for all events ({whys})"
        for name, least in self._thresholds:
            mean = next(one for one in summary.metrics if one.metric == name).scored.mean
            if mean is None or mean < least:
                shown = "nothing was scored" if mean is None else f"the mean is {mean:.2f}"
                yield f"--fail-under {name}={least:g}: {shown}"
        yield from (f"--compare {self.compare}: {one.text()}" for one in self._compared if one.is_worse)
