"""Events of a file without Kafka: `judge` scores them, `map` shows what becomes of records."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from typer import Argument, Option

from judge.text.printable import printable
from streams.cli.options import BROKERS, CONFIG, MAP, field_names
from streams.cli.running import BadUsageError, CommandError, emit, tell
from streams.cli.session import Session, opened, session

if TYPE_CHECKING:
    from streams.batch.sources import Format
    from streams.intake.trial import TrialOutcome
    from streams.kafka.record import Record

FileFormat = Literal["jsonl", "json", "csv", "parquet"]
FormatName = Literal["json", "otlp", "csv", "parquet"]
MAX_FILE_BYTES = 256 * 1024 * 1024
READ_SECONDS = 10.0
"""How long to wait for a topic that has fewer records."""
SHOWN_CHARS = 300
DECISION = ("problem", "kept", "probability", "stratum", "metrics")
_TABLES: Mapping[str, Format] = {"csv": "csv", "parquet": "parquet"}


# A class, so that its options are declared once: a run inherits them.
@dataclass(kw_only=True)
class JudgeFile:
    """Score the events of a file: one result per event and metric, in file order.

    Uses the endpoint of --base-url, else of --config, else of OPENAI_BASE_URL with OPENAI_API_KEY (the key is
    also sent to --base-url); without any, a rule-based judge in this process, which is free. Settings for
    Kafka, sampling and budgets are ignored. CSV and Parquet results have the texts and labels.

    Exit code 1: a line is not an event, every result failed, the judge is unavailable, or --fail-under or
    --compare report a fall.
    """

    file: Path = Argument(..., metavar="FILE", help="JSON (lines or an array), CSV or Parquet; `-`: stdin.")
    metric: list[str] | None = Option(
        None,
        "--metric",
        "-m",
        help="Built in, of --config, or any name with --prompt-pack; repeatable; default: those of --config.",
    )
    map_: list[str] | None = MAP
    config: Path | None = Option(
        None, "--config", "-c", metavar="FILE", help="A worker's settings, or only ingest, metrics or judge."
    )
    prompt_pack: Path | None = Option(None, metavar="FILE", help="File with the metric's prompts.")
    base_url: str | None = Option(
        None, metavar="URL", help="OpenAI-compatible endpoint with /v1; default: OPENAI_BASE_URL."
    )
    model: str | None = Option(None, help="Model; default: OPENAI_MODEL.")
    output: Path | None = Option(
        None, "--output", "-o", metavar="FILE", help="File for the results; default: standard output."
    )
    overwrite: bool = Option(False, "--overwrite", help="Replace --output at the end of the run.")
    resume: bool = Option(False, "--resume", help="Keep the results in --output and judge the rest.")
    input_format: FileFormat | None = Option(
        None, "--format", help="Of FILE; default: by its name, else jsonl."
    )
    output_format: FileFormat | None = Option(None, help="Format of --output; default: by its name.")
    concurrency: int | None = Option(
        None, min=1, max=1000, help="Concurrent results; default: that of --config, else 16."
    )
    fail_under: list[str] | None = Option(
        None, metavar="METRIC=MEAN", help="Exit with 1 if the mean is lower."
    )
    compare: Path | None = Option(
        None, metavar="RESULTS", help="Earlier results (JSON lines); exit with 1 on a significant fall."
    )
    labels: Path | None = Option(
        None, help="People's scores (event_id, score; metric, who): print agreement."
    )
    html: Path | None = Option(None, metavar="FILE", help="Also write summary and results as HTML.")
    as_json: bool = Option(
        False, "--json", help="Print the summary as JSON: on standard error without --output."
    )

    def __post_init__(self) -> None:
        from streams.cli.file_run import FileRun

        FileRun(**vars(self)).run()


def map_(
    file: Path | None = Argument(None, metavar="FILE", help="As for `judge`, or OTLP; `-`: standard input."),
    topic: str | None = Option(None, "--topic", "-t", help="A topic; its newest records are read."),
    config: Path | None = CONFIG,
    format_: FormatName | None = Option(
        None, "--format", help="Default: of --config, else by name or first bytes."
    ),
    fields: list[str] | None = MAP,
    number: int | None = Option(
        None, "--number", "-n", min=1, help="Default: 10 records, all of an OTLP file."
    ),
    bootstrap_servers: str | None = BROKERS,
    as_json: bool = Option(
        False,
        "--json",
        help="Print JSON, one object per line: of OTLP the event, else also record and decision.",
    ),
) -> None:
    """Show each record's mapped event, its sampling decision and the metrics that judge it.

    Nothing is judged or written. A topic is read without a consumer group, so no offsets change.
    """
    from streams.batch.sources import expressions, format_of, names_of, unmapped
    from streams.intake.trial import SettingsTrial, looks_like_otlp, whole_or_lines

    if (file is None) == (topic is None):
        raise BadUsageError("use either FILE or --topic; for example: judgestream map events.jsonl")
    call = session(config, bootstrap_servers)
    settings = call.settings
    names = field_names(fields or [])

    def is_otlp(first: bytes) -> bool:
        if format_ is not None:
            return format_ == "otlp"
        return looks_like_otlp(first) if config is None else settings.ingest.format == "otlp"

    unread: list[TrialOutcome] = []
    as_table = False
    if file is not None:
        content = _content(file)
        form = format_of(file, _TABLES.get(format_ or ""))
        as_table = form in _TABLES
        otlp = not as_table and is_otlp(content)
        columns = None if settings.ingest.mapping else names
        records = whole_or_lines(content) if otlp else _rows(file, content, form, columns)
    else:
        records, unread = call.run(lambda _: _newest(call, str(topic), number or 10))
        otlp = is_otlp(next((record.value for record in records if record.value), b""))
    limit = number if otlp or number else 10
    found = names_of(records[0].value or b"") if records and not otlp else ()
    mapping = dict(settings.ingest.mapping) | expressions(names, found)
    settings = settings.model_copy(update={"ingest": settings.ingest.model_copy(update={"mapping": mapping})})
    read_as = "otlp" if otlp else "json" if format_ or as_table else None
    outcomes = [*SettingsTrial(settings, format_=read_as).outcomes(records[:limit]), *unread]
    _show(outcomes, otlp=otlp, as_json=as_json)
    hint = "" if mapping or otlp else unmapped(found, names)
    if hint and any(outcome.event is None for outcome in outcomes):
        tell(f"hint: {hint}")
    # Traces that were read but contain no answer are no failure; unreadable records are.
    if not any(outcome.event is not None or (otlp and outcome.before is not None) for outcome in outcomes):
        raise CommandError(f"none of {len(outcomes)} records could be read; see above")


def _content(file: Path) -> bytes:
    with opened(file) as handle:
        content = handle.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise BadUsageError(f"{file}: must have at most {MAX_FILE_BYTES} bytes; cut some records out of it")
    if not content.strip():
        raise BadUsageError(f"{file}: is empty; use a file with at least one record")
    return content


def _rows(file: Path, content: bytes, form: Format, columns: Mapping[str, str] | None) -> list[Record]:
    from streams.batch.sources import read_lines
    from streams.kafka.record import Record

    if form not in _TABLES:
        form = "json" if content.lstrip()[:1] == b"[" else "jsonl"
    lines = read_lines(BytesIO(content), form, str(file), columns)
    if form not in _TABLES:
        return [Record(value=line.value) for line in lines]
    # As `judge` does, a row without an id gets that of its line.
    rows = ((line.number, json.loads(line.value or json.dumps(line.problem))) for line in lines)
    values = [{"event_id": f"line-{n}"} | row if isinstance(row, dict) else row for n, row in rows]
    return [Record(value=json.dumps(value).encode()) for value in values]


async def _newest(call: Session, topic: str, number: int) -> tuple[list[Record], list[TrialOutcome]]:
    """Read a topic's newest records, over all partitions; those in a wire format are decoded."""
    from streams.errors import ReaderDownError
    from streams.intake.reader import open_reader
    from streams.intake.trial import unpack

    reader = await call.reader(topic)
    found = await reader.newest(topic, number, seconds=READ_SECONDS)
    events = open_reader(call.settings, os.environ, patient=False)
    try:
        return await unpack(found, events)
    except ReaderDownError as error:
        raise CommandError(f"schema registry: {error}; check ingest.registry") from error
    finally:
        await events.close()


def _show(outcomes: Iterable[TrialOutcome], *, otlp: bool, as_json: bool) -> None:
    without: Counter[str] = Counter()
    hints: dict[str, None] = {}
    for outcome in outcomes:
        if otlp and outcome.event is None:
            without[outcome.problem or ""] += 1
            hints |= dict.fromkeys(outcome.hints)
        value = outcome.event and outcome.event.model_dump(mode="json", exclude_none=True)
        if not otlp:
            decision = {name: getattr(outcome, name) for name in DECISION}
            value = {"record": outcome.before, "event": value} | decision
        if not as_json or value is not None:
            emit(value, _lines(outcome), as_json=as_json)
    for problem, count in without.items():
        tell(f"{count} without an event: {printable(problem, SHOWN_CHARS)}")
    for hint in hints:
        tell(f"to have content recorded, {hint}")


def _lines(outcome: TrialOutcome) -> Iterator[str]:
    def shown(value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return printable(text, SHOWN_CHARS)

    yield f"read      {shown(outcome.before)}"
    event = outcome.event
    if event is not None:
        for name, value in event.model_dump(mode="json", exclude_none=True).items():
            if value not in ({}, ""):
                yield f"  {name:<16} {shown(value)}"
        decision = "kept" if outcome.kept else "skipped"
        yield f"  sampling         {decision} with probability {outcome.probability:.4g} ({outcome.stratum})"
        yield f"  judged by        {', '.join(outcome.metrics) or 'no metric'}"
    if outcome.problem is not None:
        problem = printable(outcome.problem, SHOWN_CHARS)
        yield f"  no event         {problem}" if event is None else f"  but {outcome.problem}"
    for hint in outcome.hints:
        yield f"  to correct it    {printable(hint, SHOWN_CHARS)}"
