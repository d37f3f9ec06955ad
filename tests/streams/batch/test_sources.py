"""Reading of events from files of four formats, and errors about other content."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.batch.files import read_event
from streams.batch.sources import Format, InvalidLine, Line, format_of, misspelt, names_of, read_lines
from streams.errors import SettingsError
from streams.intake.reading.decode import JsonReader

ROW = {"event_id": "1", "question": "Where?", "answer": "In Paris."}


def lines(data: bytes, form: Format) -> list[tuple[int, object]]:
    return [(line.number, json.loads(line.value)) for line in read_lines(io.BytesIO(data), form, "f")]


@pytest.mark.parametrize(
    ("name", "given", "form"),
    [
        ("a.jsonl", None, "jsonl"),
        ("a.JSON", None, "json"),
        ("a.csv", None, "csv"),
        ("a.parquet", None, "parquet"),
        ("-", None, "jsonl"),
        ("a.txt", None, "jsonl"),
        ("a.csv", "jsonl", "jsonl"),
    ],
)
def test_the_suffix_gives_the_format(name: str, given: Format | None, form: Format) -> None:
    """The file's suffix gives the format unless an option does; the default is JSON lines."""
    assert format_of(Path(name), given) == form


def test_json_lines_keep_their_numbers() -> None:
    """Blank lines are skipped but counted; a byte order mark is ignored."""
    data = b'\xef\xbb\xbf{"event_id": "1"}\r\n\n  \n{"event_id": "2"}'
    assert lines(data, "jsonl") == [(1, {"event_id": "1"}), (4, {"event_id": "2"})]


def test_a_json_array_is_read_element_by_element() -> None:
    """Each element of an array is read; an element that is no event is invalid by itself."""
    assert lines(json.dumps([ROW, 7]).encode(), "json") == [(1, ROW), (2, 7)]


def test_named_texts_and_conversations_stand_in_columns() -> None:
    """A column `fields.policy` is a named text; messages and tool calls are JSON."""
    cells = b'1,Be brief.,"[{""role"": ""user"", ""content"": ""Hi""}]",[]\n'
    ((_, event),) = lines(b"event_id,fields.policy,messages,tool_calls\n" + cells, "csv")
    assert event == {
        "event_id": "1",
        "fields": {"policy": "Be brief."},
        "messages": [{"role": "user", "content": "Hi"}],
        "tool_calls": [],
    }


def test_csv_columns_are_fields_and_labels() -> None:
    """An empty cell is a missing field; structures are JSON; the first row has number 2."""
    data = (
        "\ufeffevent_id,question,answer,reference,labels.app,context\r\n"
        '1,"Where, then?","In\nParis.",,support,"{""Page-1"": ""text""}"\r\n'
    ).encode()
    texts = {"event_id": "1", "question": "Where, then?", "answer": "In\nParis."}
    assert lines(data, "csv") == [(2, texts | {"labels": {"app": "support"}, "context": {"Page-1": "text"}})]


def test_parquet_rows_are_events(tmp_path: Path) -> None:
    """Nested Parquet columns keep their structure, and nulls are missing fields."""
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "events.parquet"
    parquet.write_table(pa.Table.from_pylist([{**ROW, "labels": {"app": "a"}, "reference": None}]), path)
    assert lines(path.read_bytes(), "parquet") == [(1, {**ROW, "labels": {"app": "a"}})]


def test_values_of_another_tools_table_are_normalized(tmp_path: Path) -> None:
    """Numeric ids and labels become text, NaN is missing, and pages may be a map."""
    import pyarrow as pa
    from pyarrow import parquet

    pages = pa.map_(pa.string(), pa.string())
    table = pa.table(
        {
            "event_id": [7.0, 8.0],
            "conversation_id": [1, 1],
            "answer": pa.array(["a", "b"]).dictionary_encode(),
            "reference": [math.nan, 42.5],
            "context": pa.array([[("Page-1", "text")], None], type=pages),
            "labels": [{"tier": 1, "app": None}, {"tier": None, "app": "x"}],
            "labels.beta": [True, None],
            "labels.seconds": [0.25, math.nan],
            "sampling_probability": [0.5, None],
        }
    )
    path = tmp_path / "events.parquet"
    parquet.write_table(table, path)
    assert [event for _, event in lines(path.read_bytes(), "parquet")] == [
        {
            "event_id": "7",
            "conversation_id": "1",
            "answer": "a",
            "context": {"Page-1": "text"},
            "labels": {"tier": "1", "beta": "true", "seconds": "0.25"},
            "sampling_probability": 0.5,
        },
        {"event_id": "8", "conversation_id": "1", "answer": "b", "reference": "42.5", "labels": {"app": "x"}},
    ]


@pytest.mark.parametrize("sign", [";", "\t", ","])
def test_a_spreadsheet_may_part_cells_by_another_sign(sign: str) -> None:
    """The delimiter is detected from the header; quoted cells may contain it."""
    rows = [["event_id", "question", "answer"], ["1", f'"a{sign}b"', "x|y"]]
    data = "\n".join(sign.join(row) for row in rows).encode()
    assert lines(data, "csv") == [(2, {"event_id": "1", "question": f"a{sign}b", "answer": "x|y"})]


def test_a_row_with_too_many_cells_is_invalid() -> None:
    """A row with more cells than the header is invalid; the other rows are read."""
    data = b"event_id,question,answer\n1,q,Yes, but,no\n\n2,q,a,,\n"
    first, second = read_lines(io.BytesIO(data), "csv", "f")
    bad = read_event(first, JsonReader(max_event_bytes=1_000))
    assert isinstance(bad, InvalidLine)
    assert bad.problem == "cells: must be at most 3, got 5; quote texts with ','"
    assert (second.number, json.loads(second.value)["answer"]) == (4, "a")


@pytest.mark.parametrize(
    ("data", "form", "words"),
    [
        (b"event_id,answer,answer\n1,a,b\n", "csv", "has the column 'answer' twice; rename or remove one"),
        (b'[{"event_id": "1"}]', "jsonl", "is a JSON array, not JSON lines; add --format json"),
        (b"event_id,question,answer\n1,q,a\n", "jsonl", "a CSV header; add --format csv"),
        (b"PAR1\x15\x04", "jsonl", "is a Parquet file, not JSON lines; add --format parquet"),
        (b'{"event_id": "1"}\n', "json", "is not a JSON array of events"),
        (b'event_id,answer\n1,"x\n', "csv", "is not CSV in UTF-8"),
        (b"event_id,answer\n1,\xff\n", "csv", "is not CSV in UTF-8"),
    ],
)
def test_another_format_is_named(data: bytes, form: Format, words: str) -> None:
    """Content of another format raises an error with the option that reads it."""
    with pytest.raises(SettingsError, match=words.replace("(", r"\(")):
        list(read_lines(io.BytesIO(data), form, "f"))


def test_a_misspelt_field_is_named() -> None:
    """A misspelt field is reported only if the correct field is missing and the names are similar."""
    assert misspelt(["event_id", "refrence", "Answer"]) == [("refrence", "reference"), ("Answer", "answer")]
    assert misspelt(["reference", "refrence", "user", "score"]) == []
    assert names_of(b"[1]") == names_of(b"no json") == ()


def test_an_event_without_an_id_has_its_lines_number() -> None:
    """An event without an id gets its line number as id; other faults are invalid lines."""
    ingest = JsonReader(max_event_bytes=1_000)
    event = read_event(Line(7, b'{"question": "q", "answer": "a"}'), ingest)
    assert not isinstance(event, InvalidLine)
    assert event.event_id == "line-7"
    numbered = read_event(Line(7, b'{"event_id": 12, "question": "q", "answer": "a"}'), ingest)
    assert not isinstance(numbered, InvalidLine)
    assert numbered.event_id == "12"
    bad = read_event(Line(8, b'{"question": "q", "anser": "a"}'), ingest)
    assert isinstance(bad, InvalidLine)
    assert "answer: is required" in bad.problem
    assert "did you mean answer?" in bad.problem
    assert isinstance(read_event(Line(9, b"[]"), ingest), InvalidLine)


@given(st.binary(max_size=200), st.sampled_from(["jsonl", "json", "csv"]))
def test_no_bytes_break_the_reader(data: bytes, form: Format) -> None:
    """Any bytes give lines or a SettingsError, and each line an event or its problem."""
    ingest = JsonReader(max_event_bytes=1_000)
    try:
        for line in read_lines(io.BytesIO(data), form, "f"):
            read_event(line, ingest)
    except SettingsError:
        pass
