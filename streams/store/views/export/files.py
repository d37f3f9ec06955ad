"""Writes rows to a stream, or to a folder with a file per day."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal, TextIO

import orjson

from judge.rows import as_cell
from streams.errors import ExportError
from streams.store.views.export.rows import COLUMNS

Format = Literal["csv", "jsonl", "parquet"]

MAX_OPEN_DAYS: Final = 64
"""Maximum open files; rows are ordered by time, and a closed file is appended to."""


def write_stream(rows: Iterable[Mapping[str, Any]], stream: TextIO, form: Format) -> int:
    """Write rows to a stream.

    Args:
        rows: From `rows.flat`.
        stream: The stream.
        form: "csv" or "jsonl".

    Returns:
        How many.
    """
    write = _writer(stream, form, heading=True)
    count = 0
    for row in rows:
        write(row)
        count += 1
    return count


def _writer(stream: TextIO, form: Format, *, heading: bool) -> Any:
    if form == "jsonl":
        return lambda row: stream.write(orjson.dumps(row).decode() + "\n")
    table = csv.writer(stream)
    if heading:
        table.writerow(COLUMNS)
    return lambda row: table.writerow([as_cell(row[name]) for name in COLUMNS])


def write_days(rows: Iterable[Mapping[str, Any]], folder: Path, form: Format) -> int:
    """Write a file per day (`day=2026-11-21/verdicts.csv`), the partition layout of DuckDB and Spark.

    Args:
        rows: From `rows.flat`, oldest first.
        folder: The folder; it must be empty or missing, so that no day is written twice.
        form: The format.

    Returns:
        How many.

    Raises:
        ExportError: The folder is not empty, or DuckDB is missing for Parquet.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ExportError(f"--output: {folder} is not empty; name another folder, or empty it")
    if form != "parquet":
        return _write_text(rows, folder, form)
    duckdb = _duckdb()
    with tempfile.TemporaryDirectory(prefix="judgestream-export-") as temporary:
        lines = Path(temporary) / "rows.jsonl"
        with lines.open("w", encoding="utf-8") as stream:
            count = write_stream(rows, stream, "jsonl")
        folder.mkdir(parents=True, exist_ok=True)
        if count:
            with duckdb.connect() as db:
                types = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS.items())
                source = f"read_json('{_quoted(lines)}', format = 'newline_delimited', columns = {{{types}}})"
                options = (
                    "FORMAT parquet, COMPRESSION zstd, PARTITION_BY (day), FILENAME_PATTERN 'verdicts_{i}'"
                )
                db.execute(
                    "COPY (SELECT * REPLACE (labels::JSON AS labels, verdict::JSON AS verdict) "
                    f"FROM {source}) TO '{_quoted(folder)}' ({options})"
                )
    return count


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _duckdb() -> Any:
    try:
        import duckdb  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ExportError(
            "--format parquet needs DuckDB: pip install 'judgestream[duckdb]', or choose csv or jsonl"
        ) from error
    return duckdb


def _write_text(rows: Iterable[Mapping[str, Any]], folder: Path, form: Format) -> int:
    count = 0
    seen: set[str] = set()
    open_days: dict[str, tuple[TextIO, Any]] = {}
    with ExitStack() as stack:
        for row in rows:
            day = row["day"]
            if day not in open_days:
                if len(open_days) >= MAX_OPEN_DAYS:
                    for stream, _ in open_days.values():
                        stream.close()
                    open_days.clear()
                path = folder / f"day={day}" / f"verdicts.{form}"
                path.parent.mkdir(parents=True, exist_ok=True)
                stream = stack.enter_context(path.open("a", encoding="utf-8", newline=""))
                open_days[day] = stream, _writer(stream, form, heading=day not in seen)
                seen.add(day)
            open_days[day][1](row)
            count += 1
    return count


def sql(engine: Literal["duckdb", "clickhouse"], **names: str) -> str:
    """Return the SQL views or tables of an engine.

    Args:
        engine: The engine.
        names: Values of the placeholders: `brokers` and `topic` for ClickHouse, `folder` for DuckDB.
    """
    from importlib import resources  # noqa: PLC0415 - used here only

    text = (
        resources.files("streams.store.views.export.sql")
        .joinpath(f"{engine}.sql")
        .read_text(encoding="utf-8")
    )
    for name, value in names.items():
        text = text.replace("{" + name + "}", value.replace("'", "''"))
    return text


def lines(text: str) -> Iterator[str]:
    """Return the statements of an SQL file, without semicolons."""
    for statement in text.split(";\n"):
        kept = "\n".join(
            line for line in statement.splitlines() if not line.lstrip().startswith("--")
        ).strip()
        if kept:
            yield kept
