"""`judgestream judge`: score a file without Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from typer import Argument, Option

from streams.cli.session import CONFIG, MAP

FormatName = Literal["jsonl", "json", "csv", "parquet"]


def judge(
    file: Path = Argument(..., metavar="FILE", help="JSON (lines or an array), CSV or Parquet; `-`: stdin."),
    metric: list[str] | None = Option(
        None, "--metric", "-m", help="Repeatable; any name with --prompt-pack; default: those of --config."
    ),
    map_: list[str] | None = MAP,
    config: Path | None = CONFIG,
    prompt_pack: Path | None = Option(None, metavar="FILE", help="File with the metric's prompts."),
    base_url: str | None = Option(None, metavar="URL", help="Endpoint with /v1; default: OPENAI_BASE_URL."),
    model: str | None = Option(None, help="Model; default: OPENAI_MODEL."),
    output: Path | None = Option(None, "--output", "-o", metavar="FILE", help="Default: standard output."),
    overwrite: bool = Option(False, "--overwrite", help="Replace --output at the end of the run."),
    resume: bool = Option(False, "--resume", help="Keep the results in --output and judge the rest."),
    input_format: FormatName | None = Option(None, "--format", help="Of FILE; default: by its name."),
    output_format: FormatName | None = Option(None, help="Format of --output; default: by its name."),
    concurrency: int | None = Option(None, min=1, max=1000, help="Default: of --config, else 16."),
    fail_under: list[str] | None = Option(None, metavar="METRIC=MEAN", help="Exit with 1 below this mean."),
    compare: Path | None = Option(
        None, metavar="RESULTS", help="Earlier results; exit with 1 on a real fall."
    ),
    labels: Path | None = Option(
        None, metavar="FILE", help="People's scores (event_id, score; metric, who)."
    ),
    html: Path | None = Option(None, metavar="FILE", help="Also write summary and results as HTML."),
    as_json: bool = Option(False, "--json", help="Print the summary as JSON; without --output to stderr."),
) -> None:
    """Score the events of a file: one result per event and metric, in file order.

    Uses the endpoint of --base-url, else of --config, else of OPENAI_BASE_URL with OPENAI_API_KEY (the key is
    also sent to --base-url); without any, a rule-based judge in this process, which is free. Settings for
    Kafka, sampling and budgets are ignored. CSV and Parquet results have the texts and labels.

    Exit code 1: a line is not an event, every result failed, the judge is unavailable, or --fail-under or
    --compare report a fall.
    """
    options = dict(locals())
    from streams.cli.file_run import FileRun

    FileRun(**options).run()
