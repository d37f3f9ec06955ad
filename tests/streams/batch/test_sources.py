"""Reading of events from files of four formats, and errors about other content."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.batch.selection import read_event
from streams.batch.sources import Format, Line, format_of, misspelt, names_of, read_lines
from streams.errors import SettingsError
from streams.intake.reading.decode import JsonReader

ROW = {"event_id": "1", "question": "Where?", "answer": "In Paris."}


def lines(data: bytes, form: Format) -> list[tuple[int, object]]:
    return [(line.number, json.loads(line.value)) for line in read_lines(io.BytesIO(data), form, "f")]


@pytest.mark.parametrize(
    ("name", "given", "form"),
    [("a.JSON", None, "json"), ("a.csv", None, "csv"), ("-", None, "jsonl"), ("a.csv", "jsonl", "jsonl")],
)
def test_the_suffix_gives_the_format(name: str, given: Format | None, form: Format) -> None:
    assert format_of(Path(name), given) == form


TEXTS = {"event_id": "1", "question": "Where, then?", "answer": "In\nParis."}
CELLS = '1,"Where, then?","In\nParis.",,support,"{""Page-1"": ""text""}"\r\n'
TURN = {"role": "user"}


@pytest.mark.parametrize(
    ("form", "text", "events"),
    [
        # Blank lines are skipped but counted; a byte order mark is ignored.
        (
            "jsonl",
            '\ufeff{"event_id": "1"}\r\n\n  \n{"event_id": "2"}',
            [(1, {"event_id": "1"}), (4, {"event_id": "2"})],
        ),
        # An element that is no event is invalid by itself.
        ("json", json.dumps([ROW, 7]), [(1, ROW), (2, 7)]),
        # A column `fields.policy` is a named text; messages and tool calls are JSON.
        (
            "csv",
            'event_id,fields.policy,messages,tool_calls\n1,Be brief.,"[{""role"": ""user""}]",[]\n',
            [(2, {"event_id": "1", "fields": {"policy": "Be brief."}, "messages": [TURN], "tool_calls": []})],
        ),
        # An empty cell is a missing field; structures are JSON; the first row has number 2.
        (
            "csv",
            "\ufeffevent_id,question,answer,reference,labels.app,context\r\n" + CELLS,
            [(2, TEXTS | {"labels": {"app": "support"}, "context": {"Page-1": "text"}})],
        ),
        # The delimiter is detected from the header; quoted cells may contain it.
        *(
            (
                "csv",
                f'event_id{sign}question{sign}answer\n1{sign}"a{sign}b"{sign}x|y',
                [(2, {"event_id": "1", "question": f"a{sign}b", "answer": "x|y"})],
            )
            for sign in ";\t,"
        ),
    ],
)
def test_lines_and_rows_are_events(form: Format, text: str, events: list[tuple[int, object]]) -> None:
    assert lines(text.encode(), form) == events


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


def test_a_row_with_too_many_cells_is_invalid() -> None:
    """A row with more cells than the header is invalid; the other rows are read."""
    data = b"event_id,question,answer\n1,q,Yes, but,no\n\n2,q,a,,\n"
    first, second = read_lines(io.BytesIO(data), "csv", "f")
    assert first.problem == "cells: must be at most 3, got 5; quote texts with ','"
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


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"question": "q", "answer": "a"}', "line-7"),
        (b'{"event_id": 12, "question": "q", "answer": "a"}', "12"),
        (b'{"question": "q", "anser": "a"}', "answer: is required.*did you mean answer?"),
        (b"[]", "must be"),
    ],
)
def test_an_event_without_an_id_has_its_lines_number(value: bytes, found: str) -> None:
    """A numeric id becomes text; other faults are invalid lines."""
    event = read_event(Line(7, value), JsonReader(max_event_bytes=1_000))
    if isinstance(event, Line):
        assert re.search(found, event.problem)
    else:
        assert event.event_id == found


@given(st.binary(max_size=200), st.sampled_from(["jsonl", "json", "csv"]))
def test_no_bytes_break_the_reader(data: bytes, form: Format) -> None:
    """Any bytes give lines or a SettingsError, and each line an event or its problem."""
    ingest = JsonReader(max_event_bytes=1_000)
    try:
        for line in read_lines(io.BytesIO(data), form, "f"):
            read_event(line, ingest)
    except SettingsError:
        pass
