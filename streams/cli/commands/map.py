"""`judgestream map`: show records before and after mapping and sampling."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from judge.text.printable import printable
from streams.cli.errors import BadUsageError, CommandError
from streams.cli.lines import opened
from streams.cli.session import BootstrapOption, Session, session

if TYPE_CHECKING:
    from streams.batch.sources import Format
    from streams.intake.trial import Outcome, RawRecord
    from streams.settings import Settings

DEFAULT_RECORDS = 10
MAX_FILE_BYTES = 256 * 1024 * 1024
READ_SECONDS = 10.0
"""How long to wait for a topic that has fewer records."""
SHOWN_CHARS = 300
_TABLES: Mapping[str, Format] = {"csv": "csv", "parquet": "parquet"}


def map_(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Records: JSON lines, a JSON array, CSV, Parquet, or OTLP; `-` is standard input.",
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="A topic; its newest records are read.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="Settings file: ingest, sampling, metrics, brokers."
        ),
    ] = None,
    format_: Annotated[
        Literal["json", "otlp", "csv", "parquet"] | None,
        typer.Option(
            "--format", help="Format; default: from --config, else by the file's name or first bytes."
        ),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=NAME", help="As for `judge`: question=prompt; repeatable."),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            min=1,
            help=f"Number of records; default: {DEFAULT_RECORDS} of JSON, all of an OTLP file.",
        ),
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help=(
                "Print one JSON object per line: for OTLP the event; for JSON the record, the event and the "
                "sampling decision."
            ),
        ),
    ] = False,
) -> None:
    """Show each record's mapped event, its sampling decision and the metrics that judge it.

    Nothing is judged or written. A topic is read without a consumer group, so no offsets change.
    """
    from streams.batch.sources import expressions, format_of, names_of, unmapped
    from streams.cli.commands.judge import field_names
    from streams.cli.settings import settings_for_command
    from streams.intake.trial import Trial, looks_like_otlp

    if (file is None) == (topic is None):
        raise BadUsageError("use either FILE or --topic; for example: judgestream map events.jsonl")
    settings = settings_for_command(config)
    names = field_names(fields or [])
    unread: list[Outcome] = []
    if file is not None:
        content = _content(file)
        form = format_of(file, _TABLES.get(format_ or ""))
        otlp = form not in _TABLES and _is_otlp(format_, config, settings, looks_like_otlp(content))
        records = _otlp_requests(content) if otlp else _rows(file, content, form, names, settings)
    else:
        where = session(config, bootstrap_servers)
        records, unread = where.run(lambda _: _newest(where, str(topic), number or DEFAULT_RECORDS))
        first = next((record.value for record in records if record.value), b"")
        otlp = _is_otlp(format_, config, settings, looks_like_otlp(first))
    limit = number if otlp or number else DEFAULT_RECORDS
    found = names_of(records[0].value or b"") if records and not otlp else ()
    mapping = dict(settings.ingest.mapping) | expressions(names, found)
    settings = settings.model_copy(update={"ingest": settings.ingest.model_copy(update={"mapping": mapping})})
    outcomes = [*Trial(settings, otlp=otlp).outcomes(records[:limit]), *unread]
    _show(outcomes, otlp=otlp, as_json=as_json)
    hint = "" if mapping or otlp else unmapped(found, names)
    if hint and any(outcome.event is None for outcome in outcomes):
        typer.echo(f"hint: {hint}", err=True)
    # Traces that were read but contain no answer are no failure; unreadable records are.
    if not any(outcome.event is not None or (otlp and outcome.before is not None) for outcome in outcomes):
        raise CommandError(f"none of {len(outcomes)} records could be read; see above")


def _is_otlp(asked: str | None, config: Path | None, settings: Settings, seen: bool) -> bool:
    if asked is not None:
        return asked == "otlp"
    return settings.ingest.format == "otlp" if config is not None else seen


def _content(file: Path) -> bytes:
    with opened(file) as handle:
        content = handle.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise BadUsageError(f"{file}: must have at most {MAX_FILE_BYTES} bytes; cut some records out of it")
    if not content.strip():
        raise BadUsageError(f"{file}: is empty; use a file with at least one record")
    return content


def _otlp_requests(content: bytes) -> list[RawRecord]:
    """Split a file into requests: the whole file, or one per line as the Collector's file exporter writes."""
    from streams.intake.trial import RawRecord

    if content.lstrip()[:1] != b"{":
        return [RawRecord(content)]
    try:
        json.loads(content)
    except ValueError:
        return [RawRecord(line) for line in content.splitlines() if line.strip()]
    return [RawRecord(content)]


def _rows(
    file: Path, content: bytes, form: Format, names: Mapping[str, str], settings: Settings
) -> list[RawRecord]:
    from streams.batch.sources import read_lines
    from streams.errors import SettingsError
    from streams.intake.trial import RawRecord

    if form not in _TABLES:
        return _json_records(content)
    try:
        lines = list(
            read_lines(BytesIO(content), form, str(file), None if settings.ingest.mapping else names)
        )
    except SettingsError as error:
        raise BadUsageError(str(error)) from error
    # As `judge` does, a row without an id gets that of its line.
    documents = [json.loads(line.value or json.dumps(line.problem)) for line in lines]
    rows = zip(lines, documents, strict=True)
    return [
        RawRecord(
            json.dumps({"event_id": f"line-{line.number}"} | row if isinstance(row, dict) else row).encode()
        )
        for line, row in rows
    ]


def _json_records(content: bytes) -> list[RawRecord]:
    from streams.intake.trial import RawRecord

    if content.lstrip()[:1] == b"[":
        try:
            return [RawRecord(json.dumps(item).encode()) for item in json.loads(content)]
        except ValueError as error:
            raise BadUsageError(
                f"the file starts like a JSON array but is invalid, {error}; correct it"
            ) from error
    return [RawRecord(line) for line in content.splitlines() if line.strip()]


async def _newest(where: Session, topic: str, number: int) -> tuple[list[RawRecord], list[Outcome]]:
    """Read the newest records of a topic, at most `number`, spread over its partitions.

    Records in a wire format are decoded with their schemas if the settings name a registry.
    """
    from streams.intake.from_settings import open_registry
    from streams.intake.reading.registry.client import RegistryDownError
    from streams.intake.trial import RawRecord, unpack
    from streams.kafka.topics.grants import tail_grants

    reader = where.reader(tail_grants(topic))
    found = await reader.newest(topic, number, seconds=READ_SECONDS)
    if not found and topic not in (known := await reader.topics()):
        raise where.no_topic(topic, known)
    records = [RawRecord(one.value, one.key, one.headers, one.timestamp_ms) for one in found]
    unpacking = open_registry(where.settings.ingest.registry, os.environ, patient=False)
    try:
        return await unpack(records, unpacking)
    except RegistryDownError as error:
        raise CommandError(f"schema registry: {error}; check ingest.registry") from error
    finally:
        if unpacking is not None:
            await unpacking.close()


def _show(outcomes: Iterable[Outcome], *, otlp: bool, as_json: bool) -> None:
    without: Counter[str] = Counter()
    hints: dict[str, None] = {}
    for outcome in outcomes:
        if otlp and outcome.event is None:
            without[outcome.problem or ""] += 1
            hints |= dict.fromkeys(outcome.hints)
        if as_json and otlp:
            if outcome.event is not None:
                typer.echo(outcome.event.model_dump_json(exclude_none=True))
        elif as_json:
            typer.echo(
                json.dumps(_as_json(outcome), ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
            )
        else:
            _print(outcome)
    for problem, count in without.items():
        typer.echo(f"{count} without an event: {printable(problem, SHOWN_CHARS)}", err=True)
    for hint in hints:
        typer.echo(f"to have content recorded, {hint}", err=True)


def _as_json(outcome: Outcome) -> dict[str, Any]:
    event = outcome.event
    return {
        "record": outcome.before,
        "event": None if event is None else event.model_dump(mode="json", exclude_none=True),
        "problem": outcome.problem,
        "kept": outcome.kept,
        "probability": outcome.probability,
        "stratum": outcome.stratum,
        "metrics": list(outcome.metrics),
    }


def _print(outcome: Outcome) -> None:
    before = (
        outcome.before if isinstance(outcome.before, str) else json.dumps(outcome.before, ensure_ascii=False)
    )
    typer.echo(f"read      {printable(before, SHOWN_CHARS)}")
    event = outcome.event
    if event is not None:
        for name, value in event.model_dump(mode="json", exclude_none=True).items():
            if value not in ({}, ""):
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                typer.echo(f"  {name:<16} {printable(text, SHOWN_CHARS)}")
        said = "kept" if outcome.kept else "skipped"
        typer.echo(
            f"  sampling         {said} with probability {outcome.probability:.4g} ({outcome.stratum})"
        )
        typer.echo(f"  judged by        {', '.join(outcome.metrics) or 'no metric'}")
    if outcome.problem is not None:
        typer.echo(
            f"  no event         {printable(outcome.problem, SHOWN_CHARS)}"
            if event is None
            else f"  but {outcome.problem}"
        )
    for hint in outcome.hints:
        typer.echo(f"  to correct it    {printable(hint, SHOWN_CHARS)}")
