"""`judgestream judge`: score a file without Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from typer import Argument, Option

from streams.cli.running import BadUsageError
from streams.cli.session import WITHOUT_KAFKA, field_names, log_to_stderr, settings_for_command

if TYPE_CHECKING:
    from streams.settings.tree import Settings

CONCURRENCY = 16
FormatName = Literal["jsonl", "json", "csv", "parquet"]


def judge(
    file: Path = Argument(
        ..., metavar="FILE", help="JSON lines, a JSON array, CSV or Parquet; `-`: standard input."
    ),
    metric: list[str] | None = Option(
        None,
        "--metric",
        "-m",
        metavar="NAME",
        help="Built in, of --config, or any name with --prompt-pack; repeatable; default: those of --config.",
    ),
    map_: list[str] | None = Option(
        None,
        "--map",
        metavar="FIELD=NAME",
        help="The name (or JMESPath) of a field in FILE, as in question=prompt; repeatable.",
    ),
    config: Path | None = Option(
        None, "--config", "-c", metavar="FILE", help="A worker's settings, or only ingest, metrics or judge."
    ),
    prompt_pack: Path | None = Option(None, metavar="FILE", help="File with the metric's prompts."),
    base_url: str | None = Option(
        None, metavar="URL", help="OpenAI-compatible endpoint with /v1; default: OPENAI_BASE_URL."
    ),
    model: str | None = Option(None, help="Model; default: OPENAI_MODEL."),
    output: Path | None = Option(
        None, "--output", "-o", metavar="FILE", help="File for the results; default: standard output."
    ),
    overwrite: bool = Option(False, "--overwrite", help="Replace --output at the end of the run."),
    resume: bool = Option(False, "--resume", help="Keep the results in --output and judge the rest."),
    input_format: FormatName | None = Option(
        None, "--format", help="Of FILE; default: by its name, else jsonl."
    ),
    output_format: FormatName | None = Option(None, help="Format of --output; default: by its name."),
    concurrency: int | None = Option(
        None, min=1, max=1000, help=f"Concurrent results; default: that of --config, else {CONCURRENCY}."
    ),
    fail_under: list[str] | None = Option(
        None, metavar="METRIC=MEAN", help="Exit with 1 if the mean is lower."
    ),
    compare: Path | None = Option(
        None, metavar="RESULTS", help="Earlier results (JSON lines); exit with 1 on a significant fall."
    ),
    labels: Path | None = Option(
        None, metavar="FILE", help="People's scores (event_id, score; metric, who): print agreement."
    ),
    html: Path | None = Option(None, metavar="FILE", help="Also write summary and results as HTML."),
    as_json: bool = Option(
        False, "--json", help="Print the summary as JSON: on standard error without --output."
    ),
) -> None:
    """Score the events of a file: one result per event and metric, in file order.

    Uses the endpoint of --base-url, else of --config, else of OPENAI_BASE_URL with OPENAI_API_KEY (the key is
    also sent to --base-url); without any, a rule-based judge in this process, which is free. Settings for
    Kafka, sampling and budgets are ignored. CSV and Parquet results have the texts and labels.

    Exit code 1: a line is not an event, every result failed, the judge is unavailable, or --fail-under or
    --compare report a fall.
    """
    from streams.cli.file_run import FileRun

    if overwrite and resume:
        raise BadUsageError("--overwrite and --resume exclude each other; keep one of them")
    log_to_stderr("warning")  # a pack's warnings
    settings = None if config is None else settings_for_command(config, WITHOUT_KAFKA)
    metrics = _metrics(metric or [], settings, config)
    FileRun(
        file=file,
        form=input_format,
        names=metrics,
        fields=field_names(map_ or []),
        config=config,
        settings=settings,
        prompt_pack=prompt_pack,
        base_url=base_url,
        model=model,
        output=output,
        written=output_format,
        overwrite=overwrite,
        resume=resume,
        concurrency=CONCURRENCY if concurrency is None and settings is None else concurrency,
        compare=compare,
        labels=labels,
        html=html,
        fail_under=_thresholds(fail_under or [], metrics),
        as_json=as_json,
    ).run()


def _metrics(given: Sequence[str], settings: Settings | None, config: Path | None) -> tuple[str, ...]:
    """Return the metrics to judge, by default those that the settings name."""
    if given:
        return tuple(dict.fromkeys(given))
    if settings is None or "metrics" not in settings.model_fields_set:
        where = "" if config is None else f"; {config} names none"
        raise BadUsageError(f"--metric is required, for example --metric coverage{where}")
    return tuple(settings.metrics)


def _thresholds(given: Sequence[str], metrics: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Read `--fail-under METRIC=MEAN`, or only the mean of a single metric."""
    found = []
    for one in given:
        name, _, text = one.rpartition("=")
        name = name or (metrics[0] if len(metrics) == 1 else "")
        try:
            found.append((name, float(text)))
        except ValueError:
            raise BadUsageError(
                f"--fail-under must be METRIC=MEAN, got {one!r}; write coverage=3.5"
            ) from None
        if name not in metrics:
            raise BadUsageError(f"--fail-under names {name!r}, which is not judged; add --metric {name}")
    return tuple(found)
