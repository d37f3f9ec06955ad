"""Read events from JSON lines, a JSON array, CSV or Parquet, each as the bytes of a record."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import msgspec
import orjson

from judge.rows import fields_of
from schemas import QAEvent
from streams.errors import SettingsError

Format = Literal["jsonl", "json", "csv", "parquet"]
_SUFFIXES: Final[Mapping[str, Format]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
}
_KNOWN: Final = frozenset(QAEvent.model_fields)
_LOOK_BYTES: Final = 65_536
_BATCH_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """One event of a file.

    Args:
        number: Its line; in a JSON array or a table its position. From 1.
        value: A JSON object.
        problem: Why the line is not an event; empty if it is.
    """

    number: int
    value: bytes
    problem: str = ""


def format_of(file: Path, given: Format | None) -> Format:
    """Return the given format, else that of the file's suffix, else JSON lines."""
    return given or _SUFFIXES.get(file.suffix.lower(), "jsonl")


def read_lines(handle: BinaryIO, form: Format, name: str) -> Iterator[Line]:
    """Yield the events of a file.

    Args:
        handle: The file; read lazily to its end.
        form: Its format; for tables see `judge.rows`.
        name: The file's name, for errors.

    Raises:
        SettingsError: The file has another format, or its reader is not installed.
    """
    match form:
        case "jsonl":
            return _json_lines(handle, name)
        case "json":
            return _json_array(handle, name)
        case "csv":
            return _csv(handle, name)
        case "parquet":
            return _parquet(handle, name)


def misspelt(value: bytes) -> list[tuple[str, str]]:
    """Find misspelt field names of an event.

    Returns:
        Pairs of the name and the field that it resembles, for fields that the event does not have.
    """
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return []
    if not isinstance(document, dict):
        return []
    known = [name for name in QAEvent.model_fields if name not in document]
    found = []
    for name in document:
        close = difflib.get_close_matches(name[:64].lower(), known, n=1, cutoff=0.8)
        if close and name not in QAEvent.model_fields:
            found.append((name[:64], close[0]))
    return found


def _json_lines(handle: BinaryIO, name: str) -> Iterator[Line]:
    first = True
    for number, line in enumerate(handle, start=1):
        text = line.lstrip(b"\xef\xbb\xbf \t") if first else line
        if not text.strip():
            continue
        if first:
            _refuse_other(text[:_LOOK_BYTES], name)
            first = False
        yield Line(number, text.rstrip(b"\r\n"))


def _refuse_other(start: bytes, name: str) -> None:
    """Raise if the first line shows another format than JSON lines."""
    if start.startswith(b"["):
        raise SettingsError([f"{name}: is a JSON array, not JSON lines; add --format json"])
    if start.startswith(b"PAR1"):
        raise SettingsError([f"{name}: is a Parquet file, not JSON lines; add --format parquet"])
    if not start.startswith(b"{") and b'"' not in start.split(b",")[0][1:-1] and start.count(b",") >= 1:
        columns = start.split(b"\n")[0].decode("utf-8", "replace").strip()[:80]
        if any(field in columns for field in ("question", "answer", "event_id")):
            raise SettingsError([f"{name}: begins with {columns!r}, a CSV header; add --format csv"])


def _json_array(handle: BinaryIO, name: str) -> Iterator[Line]:
    try:
        rows = msgspec.json.decode(handle.read(), type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError([f"{name}: is not a JSON array of events ({error}); see --format"]) from None
    for number, row in enumerate(rows, start=1):
        yield Line(number, bytes(row))


def _csv(handle: BinaryIO, name: str) -> Iterator[Line]:
    text = io.TextIOWrapper(handle, encoding="utf-8-sig", newline="")
    try:
        heading = text.readline()
        delimiter = _delimiter(heading)
        rows = csv.reader(chain([heading], text), delimiter=delimiter, strict=True)
        columns = next(rows, [])
        twice = [column for column in dict.fromkeys(columns) if column and columns.count(column) > 1]
        if twice:
            raise SettingsError([f"{name}: has the column {twice[0]!r} twice; rename or remove one"])
        for number, row in enumerate(rows, start=2):
            if not row:
                continue
            if any(row[len(columns) :]):
                what = (
                    f"cells: must be at most {len(columns)}, got {len(row)}; quote texts with {delimiter!r}"
                )
                yield Line(number, b"", what)
            else:
                yield Line(number, _json(dict(zip(columns, row, strict=False))))
    except (csv.Error, UnicodeDecodeError) as error:
        what = f"{name}: is not CSV in UTF-8 ({error}); save it as UTF-8, or see --format"
        raise SettingsError([what]) from None
    finally:
        text.detach()  # the caller closes the file


def _delimiter(heading: str) -> str:
    """Return the delimiter that gives the heading the most known fields; the comma by preference."""
    return max(",;\t", key=lambda sign: sum(one.strip('" \r\n') in _KNOWN for one in heading.split(sign)))


def _parquet(handle: BinaryIO, name: str) -> Iterator[Line]:
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - an extra
    except ImportError:
        raise SettingsError([f"{name}: Parquet needs pyarrow; pip install 'judgestream[parquet]'"]) from None
    number = 0
    try:
        for batch in parquet.ParquetFile(handle).iter_batches(batch_size=_BATCH_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield Line(number, _json(row))
    except (ArrowException, OSError) as error:
        raise SettingsError([f"{name}: is not a Parquet file ({error}); see --format"]) from None


def _json(row: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields_of(row), default=str)
