"""Write results to a file: never partially, and never over another file by mistake.

Results are written to `NAME.partial`, which replaces the file when complete. A run that ends early keeps the
partial file, because its verdicts are paid for, and `--resume` continues from it.
"""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import orjson
from pydantic import ValidationError

from judge.rows import as_cell
from schemas import RESULT, Failed, Scored, Unscored
from streams.errors import SettingsError
from streams.judging.files.reading import Format, read_lines

PARTIAL: Final = ".partial"
_COLUMNS: Final = (
    "event_id",
    "metric",
    "status",
    "score",
    "label",
    "reason",
    "justification",
    "model",
    "fingerprint",
    "cost_usd",
    "result_id",
)


class ResultFile:
    """A result file in progress.

    Args:
        path: The file.
        form: Its format.
        earlier: Results of an earlier run, which are kept.
    """

    def __init__(self, path: Path, form: Format, earlier: list[Scored | Unscored | Failed]) -> None:
        self.path = path
        self.earlier = earlier
        self._form: Format = form
        self._partial = partial_of(path)
        self._handle: TextIO | None = None
        self._count = 0

    @property
    def done(self) -> frozenset[str]:
        """Ids of the existing results."""
        return frozenset(result.result_id for result in self.earlier)

    def write(self, result: Scored | Unscored | Failed) -> None:
        """Add one result."""
        if self._handle is None:
            self._handle = self._partial.open("w", encoding="utf-8")
            for one in self.earlier:
                self._handle.write(one.model_dump_json() + "\n")
        self._handle.write(result.model_dump_json() + "\n")
        self._count += 1

    def finish(self) -> None:
        """Replace the file by the complete results."""
        if self._handle is None:  # no new results
            self._handle = self._partial.open("w", encoding="utf-8")
            for one in self.earlier:
                self._handle.write(one.model_dump_json() + "\n")
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self._handle.close()
        if self._form != "jsonl":
            converted = self.path.with_name(self.path.name + ".converting")
            _convert(self._partial, converted, self._form)
            converted.replace(self.path)
            self._partial.unlink()
        else:
            self._partial.replace(self.path)

    def leave(self) -> str | None:
        """End early: keep the partial file and return a message with its path; None if there is none."""
        if self._handle is None:
            return None
        self._handle.close()
        return f"{self._count + len(self.earlier)} results are in {self._partial}; continue with --resume"


def partial_of(path: Path) -> Path:
    """Return the path of an unfinished run's results."""
    return path.with_name(path.name + PARTIAL)


def open_results(
    path: Path, form: Format, *, source: Path | None, overwrite: bool = False, resume: bool = False
) -> ResultFile:
    """Check that a file may be written, without changing it.

    Args:
        path: The file.
        form: Its format.
        source: The file with the events, if they are in one.
        overwrite: Whether to overwrite existing results.
        resume: Whether to keep existing results and skip their events.

    Raises:
        SettingsError: An existing file must not be overwritten, or the folder is not writable.
    """
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise SettingsError([f"--output {path}: is the input file; name another"])
    if path.is_dir():
        raise SettingsError([f"--output {path}: is a folder; name a file in it"])
    if form == "parquet":
        _need_pyarrow(path)
    partial = partial_of(path)
    earlier: list[Scored | Unscored | Failed] = []
    if resume:
        earlier = _read_results(partial if partial.exists() else path, path)
    elif not overwrite and (path.exists() or partial.exists()):
        there = path if path.exists() else partial
        raise SettingsError([f"--output {path}: {there} exists; add --resume to continue it, or --overwrite"])
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise SettingsError([f"--output {path}: {folder} is not a writable folder; choose another"])
    return ResultFile(path, form, earlier)


def read_results(path: Path) -> Iterator[Scored | Unscored | Failed]:
    """Yield the results of an earlier run, from JSON lines or one JSON array.

    Raises:
        SettingsError: The file cannot be read, or a line is not a result.
    """
    try:
        with path.open("rb") as handle:
            is_array = handle.read(1) == b"["
            handle.seek(0)
            lines = (one.value for one in read_lines(handle, "json", str(path))) if is_array else handle
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _result(line, path, number)
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read ({error.strerror}); check the path"]) from None


def _result(line: bytes, path: Path, number: int) -> Scored | Unscored | Failed:
    try:
        return RESULT.validate_json(line)
    except ValidationError:
        raise SettingsError(
            [
                (
                    f"{path}: line {number} is not a judgestream result; name a file that `judge -o "
                    "FILE.jsonl` wrote"
                )
            ]
        ) from None


def _read_results(there: Path, path: Path) -> list[Scored | Unscored | Failed]:
    """Return the results of an earlier run; its last line may be truncated."""
    if not there.exists():
        return []
    if there == path and path.suffix.lower() in {".csv", ".parquet"}:
        raise SettingsError([f"--resume: cannot resume from {path}, only from JSON; add --overwrite"])
    found: list[Scored | Unscored | Failed] = []
    with contextlib.suppress(SettingsError) if there != path else contextlib.nullcontext():
        found.extend(read_results(there))
    return found


def _convert(source: Path, target: Path, form: Format) -> None:
    if form == "json":
        _as_array(source, target)
    elif form == "csv":
        with target.open("w", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, _COLUMNS)
            writer.writeheader()
            for result in read_results(source):
                writer.writerow({name: as_cell(cell) for name, cell in row_of(result).items()})
    else:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - as above

        rows = [row_of(result) for result in read_results(source)]
        parquet.write_table(pa.Table.from_pylist(rows), target)


def _as_array(source: Path, target: Path) -> None:
    with source.open("rb") as lines, target.open("wb") as handle:
        handle.write(b"[")
        for number, line in enumerate(lines):
            handle.write((b",\n" if number else b"\n") + line.rstrip(b"\n"))
        handle.write(b"\n]\n")


def row_of(result: Scored | Unscored | Failed) -> dict[str, Any]:
    """Return a result as a row of a table: its main fields and ids."""
    verdict = getattr(result, "verdict", None) or {}
    justification = verdict.get("justification", verdict.get("rationale", ""))
    return {
        "event_id": result.event_id,
        "metric": result.metric,
        "status": result.status,
        "score": result.amount if isinstance(result, Scored) else None,
        "label": result.shown
        if isinstance(result, Scored) and isinstance(result.value, bool | str)
        else None,
        "reason": getattr(result, "reason", None) or getattr(result, "error_type", None),
        "justification": justification
        if isinstance(justification, str)
        else orjson.dumps(justification).decode(),
        "model": result.evaluator.model,
        "fingerprint": result.evaluator.fingerprint,
        "cost_usd": result.cost_usd,
        "result_id": result.result_id,
    }


def _need_pyarrow(path: Path) -> None:
    try:
        import pyarrow as pa  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise SettingsError(
            [f"--output {path}: Parquet needs pyarrow; pip install 'judgestream[parquet]'"]
        ) from None
