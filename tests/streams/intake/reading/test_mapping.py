from __future__ import annotations

import orjson
import pytest

from streams.errors import DecodeError, SettingsError
from streams.intake.reading.decode import JsonReader
from streams.intake.reading.mapping import Mapper

DOCUMENT = {
    "id": 4711,
    "prompt": {"text": "Why?"},
    "output": [{"text": "Because."}],
    "pages": {"Page-1": "x"},
    "meta": {"app": "chat", "tier": 2, "beta": True, "none": None},
    "labels": ["not", "ours"],
}
MAPPING = {
    "event_id": "id",
    "question": "prompt.text",
    "answer": "output[0].text",
    "context": "pages",
    "labels.app": "meta.app",
    "labels.tier": "meta.tier",
    "labels.beta": "meta.beta",
    "labels.none": "meta.none",
}


def test_a_foreign_shape_becomes_an_event() -> None:
    """Numeric ids and labels become text; a null label is absent."""
    event = JsonReader(max_event_bytes=10_000, mapping=MAPPING).decode(orjson.dumps(DOCUMENT))
    assert event.event_id == "4711"
    assert (event.question, event.answer, event.context) == ("Why?", "Because.", {"Page-1": "x"})
    assert event.labels == {"app": "chat", "tier": "2", "beta": "true"}


def test_named_texts_are_filled() -> None:
    fields = {f"fields.{name}": f"meta.{name}" for name in ("app", "none", "tier")} | {"fields.meta": "meta"}
    ingest = JsonReader(max_event_bytes=10_000, mapping=MAPPING | fields)
    event = ingest.decode(orjson.dumps(DOCUMENT | {"fields": {"own": "kept"}}))
    meta = '{"app":"chat","tier":2,"beta":true,"none":null}'
    assert event.fields == {"own": "kept", "app": "chat", "meta": meta, "tier": "2"}
    with pytest.raises(SettingsError, match=r"fields\.1st: a name in fields must be a letter"):
        Mapper({"fields.1st": "x"})


def test_fields_without_an_expression_are_taken_by_name() -> None:
    """Fields without an expression are read by name; mapped labels add to the document's labels."""
    ingest = JsonReader(max_event_bytes=10_000, mapping={"answer": "reply", "labels.extra": "x"})
    document = {"event_id": "e", "question": "q", "reply": "a", "x": "1", "labels": {"app": "b"}}
    event = ingest.decode(orjson.dumps(document))
    assert (event.question, event.answer, event.labels) == ("q", "a", {"app": "b", "extra": "1"})


def test_every_wrong_expression_is_named() -> None:
    with pytest.raises(SettingsError) as caught:
        Mapper({"anser": "a", "question": "a[", "labels.": "x", "answer": "nope(@"})
    assert (
        caught.value.problems[0] == "ingest.mapping.anser: is not a field of an event; did you mean answer?"
    )
    assert caught.value.problems[1].startswith("ingest.mapping.question: is not valid JMESPath, ")
    assert "(got 'a[')" in caught.value.problems[1]
    assert caught.value.problems[2].startswith(
        "ingest.mapping.labels.: a label's name must have 1 to 64 characters"
    )
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize(
    "expression",
    ["length(id)", "nope(@)", "sort(@)", "sum(meta)", "avg(`[]`) || length(`1`)", "to_number(@).a.length(@)"],
)
def test_an_expression_that_fails_names_itself(expression: str) -> None:
    ingest = JsonReader(max_event_bytes=10_000, mapping=MAPPING | {"answer": expression})
    with pytest.raises(DecodeError, match="answer") as caught:
        ingest.decode(orjson.dumps(DOCUMENT))
    assert caught.value.reason == "undecodable"


@pytest.mark.parametrize("expression", ["nothing.here", "&id", "meta", '`"\\ud800"`', "pages.*"])
def test_a_result_of_the_wrong_kind_is_refused(expression: str) -> None:
    ingest = JsonReader(max_event_bytes=10_000, mapping=MAPPING | {"answer": expression})
    with pytest.raises(DecodeError, match=r"^(ingest\.mapping\.)?answer: "):
        ingest.decode(orjson.dumps(DOCUMENT))
