"""`judgestream judge`: score a file without Kafka."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streams.cli.errors import BadUsageError
from streams.cli.file_run import FileCall, FileRun
from streams.cli.lines import opened

if TYPE_CHECKING:
    from judge.metric import Metric
    from streams.batch.sources import Format
    from streams.settings import JudgeSettings, Settings

CONCURRENCY = 16
JUDGE_TIMEOUT_SECONDS = 120.0

FormatName = Literal["jsonl", "json", "csv", "parquet"]


def judge(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Events: JSON lines, a JSON array, CSV or Parquet; `-` reads standard input."
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="A built-in metric, one of --config, or any name with --prompt-pack; repeatable; default: "
            "all that --config names.",
        ),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=NAME",
            help="Column or JSON field (or JMESPath) of an event's field, as in question=prompt; repeatable.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="A worker's settings file, or only its sections ingest, metrics or judge.",
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
            help="OpenAI-compatible endpoint, including /v1; default: OPENAI_BASE_URL.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Model; default: OPENAI_MODEL.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File for the results; default: standard output."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing --output at the end of the run.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the results in --output and judge the rest.")
    ] = False,
    input_format: Annotated[
        FormatName | None, typer.Option("--format", help="Format of FILE; default: by its name, else jsonl.")
    ] = None,
    output_format: Annotated[
        FormatName | None, typer.Option("--output-format", help="Format of --output; default: by its name.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            max=1000,
            help=f"Concurrent results; default: judge.max_in_flight of --config, else {CONCURRENCY}.",
        ),
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-under", metavar="METRIC=MEAN", help="Exit with 1 if the mean is lower (for CI)."
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="RESULTS",
            help=("Compare with results of an earlier run (JSON lines); exit with 1 on a significant fall."),
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="People's scores (columns event_id and score; metric, who): print agreement with the judge.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write summary and all results as an HTML file."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the summary as JSON: on standard output with --output, else on standard error.",
        ),
    ] = False,
) -> None:
    """Score the events of a file: one result per event and metric, in file order.

    Uses the endpoint of --base-url, else of --config, else of OPENAI_BASE_URL with OPENAI_API_KEY (the key is
    also sent to --base-url); without any, a rule-based judge in this process, which is free. Settings for
    Kafka, sampling and budgets are ignored. CSV and Parquet results have the texts and labels.

    Exit code 1: a line is not an event, every result failed, the judge is unavailable, or --fail-under or
    --compare report a fall.
    """
    from streams.batch.sources import format_of

    if overwrite and resume:
        raise BadUsageError("--overwrite and --resume exclude each other; keep one of them")
    settings = _settings(config)
    metrics = _metrics(metric or [], settings, config)
    call = FileCall(
        file=file,
        form=format_of(file, input_format),
        metrics=metrics,
        fields=field_names(map_ or []),
        config=config,
        prompt_pack=prompt_pack,
        base_url=base_url,
        model=model,
        output=output,
        concurrency=concurrency,
        compare=compare,
        labels=labels,
        html=html,
        fail_under=_thresholds(fail_under or [], metrics),
    )
    written = "jsonl" if output is None else format_of(output, output_format)
    _run(call, settings, written, overwrite=overwrite, resume=resume, as_json=as_json)


def _run(
    call: FileCall,
    settings: Settings | None,
    written: Format,
    *,
    overwrite: bool,
    resume: bool,
    as_json: bool,
) -> None:
    from streams.batch.agreement import agreements, read_human_labels
    from streams.batch.results import open_results, read_results
    from streams.batch.sources import read_lines
    from streams.cli.file_report import report
    from streams.cli.running import run_until_stopped
    from streams.errors import SettingsError

    asked = _judge_settings(call, settings)
    metrics = {name: _metric(name, call, settings, asked) for name in call.metrics}
    source = None if str(call.file) == "-" else call.file
    mapped = settings is not None and settings.ingest.mapping
    try:
        earlier = [] if call.compare is None else list(read_results(call.compare))
        labels = [] if call.labels is None else read_human_labels(call.labels)
        results = (
            None
            if call.output is None
            else open_results(call.output, written, source=source, overwrite=overwrite, resume=resume)
        )
        is_table = call.output is not None and written in ("csv", "parquet")
        with opened(call.file) as handle:
            lines = read_lines(handle, call.form, str(call.file), None if mapped else call.fields)
            run = FileRun(call, settings, asked, list(metrics.values()), results, is_table=is_table)
            run_until_stopped(lambda stop: run.judge(lines, stop))
        agreed = (
            [] if call.labels is None else agreements(labels, [*earlier, *run.kept], metrics, call.labels)
        )
    except SettingsError as error:
        raise BadUsageError(str(error)) from error
    report(call, run, earlier, agreed, results, as_json=as_json)


def field_names(given: Sequence[str]) -> dict[str, str]:
    """Read `--map FIELD=NAME`.

    Raises:
        BadUsageError: One has another form, names no field, or a field twice.
    """
    from streams.settings.mapping import mapping_problems

    found: dict[str, str] = {}
    for one in given:
        field, _, name = one.partition("=")
        if not (field and name) or field in found:
            what = "names a field twice" if field in found else "must be FIELD=NAME"
            raise BadUsageError(f"--map {what}, got {one!r}; write --map question=prompt")
        found[field] = name
    for target, what in mapping_problems(dict.fromkeys(found, "name")):
        raise BadUsageError(f"--map: {target} {what}")
    return found


def _metrics(given: Sequence[str], settings: Settings | None, config: Path | None) -> tuple[str, ...]:
    """Return the metrics to judge, by default those that the settings name."""
    if given:
        return tuple(dict.fromkeys(given))
    if settings is None or "metrics" not in settings.model_fields_set:
        where = "" if config is None else f"; {config} names none"
        raise BadUsageError(f"--metric is required, for example --metric coverage{where}")
    return tuple(settings.metrics)


def _thresholds(given: Sequence[str], metrics: Sequence[str]) -> tuple[tuple[str, float], ...]:
    found = []
    for one in given:
        name, _, text = one.rpartition("=")
        name = name or (metrics[0] if len(set(metrics)) == 1 else "")
        try:
            found.append((name, float(text)))
        except ValueError:
            raise BadUsageError(
                f"--fail-under must be METRIC=MEAN, got {one!r}; write coverage=3.5"
            ) from None
        if name not in metrics:
            raise BadUsageError(f"--fail-under names {name!r}, which is not judged; add --metric {name}")
    return tuple(found)


def _settings(config: Path | None) -> Settings | None:
    from streams.cli.settings import settings_for_file
    from streams.settings import TelemetrySettings
    from streams.telemetry.logs import set_up_logs

    set_up_logs(TelemetrySettings(log_level="warning"))  # a pack's warnings go to standard error
    return None if config is None else settings_for_file(config)


def _judge_settings(call: FileCall, settings: Settings | None) -> JudgeSettings:
    from streams.settings import JudgeSettings

    if settings is None:
        # A longer timeout than a worker's: no consumer group waits.
        return JudgeSettings(
            max_in_flight=call.concurrency or CONCURRENCY, timeout_seconds=JUDGE_TIMEOUT_SECONDS
        )
    if call.concurrency is None:
        return settings.judge
    return settings.judge.model_copy(update={"max_in_flight": call.concurrency})


def _metric(name: str, call: FileCall, settings: Settings | None, judge: JudgeSettings) -> Metric:
    from pydantic import ValidationError

    from judge.metrics.registry import NAMED
    from streams.errors import SettingsError
    from streams.judging.metrics import build_metric, guarded
    from streams.settings import MetricSettings

    if call.prompt_pack is not None and len(call.metrics) > 1:
        raise BadUsageError(
            f"--prompt-pack belongs to one metric, got {len(call.metrics)}; name packs in the "
            "metrics of --config"
        )
    named = None if settings is None else settings.metrics.get(name)
    pack = call.prompt_pack or (None if named is None else named.prompt_pack)
    if pack is None and name not in NAMED and (named is None or not named.is_check):
        known = tuple(dict.fromkeys((*NAMED, *(() if settings is None else settings.metrics))))
        raise BadUsageError(
            f"--metric must be one of {', '.join(known)}, got {name!r}; any other name needs --prompt-pack"
        )
    wanted = MetricSettings() if named is None or call.prompt_pack is not None else named
    try:
        settled = MetricSettings.model_validate({**dict(wanted), "prompt_pack": pack})
        return guarded(build_metric(name, settled), judge)
    except (SettingsError, ValidationError) as error:
        raise BadUsageError(str(error)) from error
