"""The file of results is replaced only when the new results are complete."""

from __future__ import annotations

import csv
import gc
import io
import json
from pathlib import Path

import pytest

from streams.batch.results import Texts, open_results, partial_of, read_results
from streams.batch.sources import Format
from streams.errors import SettingsError
from tests.streams.results import failed, scored


def test_the_file_that_is_read_is_never_written(tmp_path: Path) -> None:
    """The input file is refused as output, also by a link or another path."""
    source = tmp_path / "self.jsonl"
    source.write_text("events")
    (tmp_path / "link.jsonl").symlink_to(source)
    for name in ("self.jsonl", "link.jsonl", "../" + tmp_path.name + "/self.jsonl"):
        with pytest.raises(SettingsError, match="is the input file"):
            open_results(tmp_path / name, "jsonl", source=source, overwrite=True)
    assert source.read_text() == "events"


def test_results_that_are_there_stay_until_others_are_complete(tmp_path: Path) -> None:
    """Existing results are an error; with `overwrite` they are replaced when the new ones are complete."""
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    with pytest.raises(SettingsError, match=r"exists; add --resume .* or --overwrite"):
        open_results(out, "jsonl", source=None)
    results = open_results(out, "jsonl", source=None, overwrite=True)
    results.write(scored(1, 4))
    assert out.read_text() == "old"
    results.finish()
    assert [one.result_id for one in read_results(out)] == [scored(1, 4).result_id]
    assert not partial_of(out).exists()


def test_a_run_that_wrote_nothing_leaves_nothing(tmp_path: Path) -> None:
    """A run without results changes no file."""
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    assert open_results(out, "jsonl", source=None, overwrite=True).leave() is None
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert out.read_text() == "old"


def test_a_run_that_ended_early_is_resumed(tmp_path: Path) -> None:
    """The next run keeps the complete scores, not what failed nor a truncated last line."""
    out = tmp_path / "out.jsonl"
    first = open_results(out, "jsonl", source=None)
    first.write(scored(1, 4), scored(2, 5), failed(7))
    assert "3 results are in" in (first.leave() or "")
    with partial_of(out).open("a") as handle:
        handle.write('{"result_id": "cut')
    assert open_results(out, "jsonl", source=None, overwrite=True).done == frozenset()
    second = open_results(out, "jsonl", source=None)
    assert second.done == {scored(1, 4).result_id, scored(2, 5).result_id}
    second.write(scored(3, 1))
    second.finish()
    assert len(list(read_results(out))) == 3
    third = open_results(out, "jsonl", source=None, resume=True)
    assert len(third.done) == 3
    third.finish()
    assert len(list(read_results(out))) == 3


def test_tables_have_texts_and_labels(tmp_path: Path) -> None:
    """CSV has each answer's texts as given, a column for each label, and the reason of a score."""
    from pyarrow import parquet

    one = scored(1, 4, labels={"model": "a"})
    two = scored(2, 2, labels={"lang": "en"}, justification="Vague.")
    forms: tuple[Format, ...] = ("csv", "parquet")
    for form in forms:
        results = open_results(tmp_path / f"out.{form}", form, source=None)
        results.write(one, two)
        results.finish({one.result_id: Texts("Where?", "=1+1", "In Paris.")})
    assert [row["score"] for row in parquet.read_table(tmp_path / "out.parquet").to_pylist()] == [4, 2]
    first, second = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(), newline=""))
    assert (first["question"], first["answer"], first["reference"]) == ("Where?", "'=1+1", "In Paris.")
    assert (first["labels.model"], first["labels.lang"]) == ("a", "")
    assert (second["question"], second["labels.lang"], second["reason"]) == ("", "en", "Vague.")


def test_tables_and_arrays(tmp_path: Path) -> None:
    """CSV has one row per result and escapes formulas; JSON is an array, which can be resumed."""
    for form in ("csv", "json"):
        results = open_results(tmp_path / f"out.{form}", form, source=None)
        results.write(scored(1, 4, justification='Says "so",\nor not.'))
        results.write(failed(2))
        results.write(scored(3, 1, justification="=HYPERLINK(1)"))
        results.finish()
    again = open_results(tmp_path / "out.json", "json", source=None, resume=True)
    assert len(again.done) == 3
    again.write(scored(4, 2))
    again.finish()
    assert len(list(read_results(tmp_path / "out.json"))) == 4
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(), newline="")))
    assert [(row["status"], row["score"], row["justification"]) for row in rows] == [
        ("scored", "4", 'Says "so",\nor not.'),
        ("failed", "", ""),
        ("scored", "1", "'=HYPERLINK(1)"),
    ]
    statuses = [one["status"] for one in json.loads((tmp_path / "out.json").read_text())]
    assert statuses == ["scored", "failed", "scored", "scored"]


def test_a_full_disk_closes_the_file_and_names_it(tmp_path: Path) -> None:
    """A write error is raised with the file's name, and nothing is left open (a warning is an error here)."""
    out = tmp_path / "out.jsonl"
    partial_of(out).symlink_to("/dev/full")
    results = open_results(out, "jsonl", source=None, overwrite=True)
    with pytest.raises(OSError, match=r"out\.jsonl\.partial"):
        results.write(*(scored(number, 4) for number in range(100)))
    del results
    gc.collect()


def test_a_file_that_cannot_be_resumed_is_named(tmp_path: Path) -> None:
    """Resuming a table or another file, and writing to a folder or a missing folder, are errors."""
    table, other = tmp_path / "out.csv", tmp_path / "out.jsonl"
    table.write_text("a,b")
    other.write_text('{"event_id": "1"}\n')
    with pytest.raises(SettingsError, match="only from JSON"):
        open_results(table, "csv", source=None, resume=True)
    with pytest.raises(SettingsError, match="line 1 is not a judgestream result"):
        open_results(other, "jsonl", source=None, resume=True)
    with pytest.raises(SettingsError, match="is a folder"):
        open_results(tmp_path, "jsonl", source=None)
    with pytest.raises(SettingsError, match="not a writable folder"):
        open_results(tmp_path / "no" / "out.jsonl", "jsonl", source=None)
