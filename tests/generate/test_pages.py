"""The generated reference pages are complete, and their examples are valid."""

from __future__ import annotations

import pytest

from generate import command_page, message_page, settings_page
from generate.json_words import kind_of
from generate.message_schemas import MESSAGES
from streams.kafka.topics.table import TOPICS
from streams.settings.load import settings_schema
from streams.settings.tree import Settings


def test_every_setting_is_described() -> None:
    schema = settings_schema()
    rows = [
        row
        for name, field in schema["properties"].items()
        for row in settings_page.rows_of(schema, name, field)
    ]
    assert len(rows) > 100
    assert [row.path for row in rows if not row.description] == []
    assert [row.path for row in rows if row.kind == "any"] == []


@pytest.mark.parametrize("section", list(Settings.model_fields))
def test_every_section_has_an_example_that_is_read(section: str) -> None:
    assert getattr(settings_page.example(section), section) != getattr(Settings(), section)


def test_defaults_and_bounds_are_those_of_the_models() -> None:
    """Three rows, written by hand, are on the page."""
    page = settings_page.page()
    assert "| `sampling.default_rate` | number, from 0 to 1 | `1.0` |" in page
    assert "| `judge.endpoints[].name` | text | `required` |" in page
    assert "| `sampling.rules[].when` | mapping | `required` |" in page


def test_every_command_has_a_heading() -> None:
    page = command_page.page()
    assert all(
        f"\n## {name}\n" in page for name in ("demo", "worker", "judge", "config check", "offline-judge")
    )
    assert "`--metric`" in page


def test_every_message_and_topic_is_there() -> None:
    page = message_page.page()
    assert all(f"\n## {name}\n" in page for name in MESSAGES)
    assert page.count("\n| `qa.") + page.count("\n| `judge.") >= len(TOPICS)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": "number", "minimum": 0, "exclusiveMaximum": 2}, "number, from 0 below 2"),
        ({"type": "array", "items": {"type": "integer"}}, "list of whole number"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, "text or null"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
        ({"const": 1}, "`1`"),
        ({"$ref": "#/$defs/X"}, "object X"),
        ({"type": "string", "format": "date-time"}, "date and time"),
    ],
)
def test_json_schema_in_words(node: dict[str, object], words: str) -> None:
    assert kind_of({"$defs": {"X": {"properties": {}}}}, node) == words
