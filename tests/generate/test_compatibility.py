from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from generate.compatibility import unreadable, vanished
from generate.message_schemas import EXAMPLES, MESSAGES, RELEASED, accepted_schema, json_schema, path

Document = dict[str, Any]


def _released(name: str) -> Document:
    schema: Document = json.loads(path(name, RELEASED).read_text(encoding="utf-8"))
    return schema


@pytest.mark.parametrize("name", MESSAGES)
def test_released_messages_can_still_be_read(name: str) -> None:
    assert unreadable(writer=_released(name), reader=accepted_schema(name)) == []


GROWN = {
    # New reasons of failed and unscored results: readers of the last release refuse these; no mean has them.
    "result": {
        "$.error_type: ['verification_timeout', 'metric_error', 'no_quorum'] may be written",
        "$.reason: ['too_long'] may be written",
    }
}
"""By message: values unknown to the last release, each with its reason."""


@pytest.mark.parametrize("name", sorted(MESSAGES.keys() - {"qa_event"}))
def test_consumers_of_the_last_release_read_present_messages(name: str) -> None:
    found = unreadable(writer=json_schema(name), reader=_released(name))
    assert {problem.partition(", only ")[0] for problem in found} == GROWN.get(name, set())
    assert vanished(released=_released(name), current=json_schema(name)) == []


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        # A narrower event schema refuses the events of today.
        ("qa_event", lambda schema: schema["required"].append("labels"), "$.labels"),
        ("qa_event", lambda schema: schema["properties"]["event_id"].update(maxLength=64), "$.event_id"),
        ("qa_event", lambda schema: schema["properties"].update(context={"type": "array"}), "$.context"),
        (
            "qa_event",
            lambda schema: schema["properties"]["labels"]["additionalProperties"].update(maxLength=10),
            "$.labels.*",
        ),
        ("qa_event", lambda schema: schema["properties"].update(reference={"type": "string"}), "$.reference"),
        # A removed, retyped, widened or optional field breaks consumers.
        (
            "alert",
            lambda schema: (schema["properties"].pop("summary"), schema["required"].remove("summary")),
            "$.summary",
        ),
        (
            "alert",
            lambda schema: schema["$defs"]["Estimate"]["properties"].update(mean={"type": "string"}),
            ("$.baseline.mean", "$.current.mean"),
        ),
        ("alert", lambda schema: schema["properties"]["kind"]["enum"].append("rise"), "$.kind"),
        ("alert", lambda schema: schema["required"].remove("threshold"), "$.threshold"),
    ],
)
def test_a_change_that_breaks_a_reader_is_named(
    name: str, change: Callable[[Document], object], field: str | tuple[str, ...]
) -> None:
    changed, current = copy.deepcopy(json_schema(name)), json_schema(name)
    change(changed)
    writer, reader = (current, changed) if name == "qa_event" else (changed, current)
    problems = unreadable(writer=writer, reader=reader)
    assert problems
    assert all(problem.startswith(field) for problem in problems)


def test_a_vanished_optional_field_is_named() -> None:
    changed = copy.deepcopy(json_schema("result"))
    del changed["$defs"]["Scored"]["properties"]["score_exact"]
    assert vanished(released=json_schema("result"), current=changed) == ["$.score_exact"]


def test_a_new_field_is_compatible() -> None:
    wider = copy.deepcopy(json_schema("result"))
    wider["$defs"]["Scored"]["properties"]["language"] = {"type": "string"}
    wider["$defs"]["Scored"]["required"].append("language")
    assert unreadable(writer=wider, reader=json_schema("result")) == []
    assert vanished(released=json_schema("result"), current=wider) == []


@pytest.mark.parametrize("name", MESSAGES)
def test_schema_and_model_take_the_valid_examples_alone(name: str) -> None:
    schema = json.loads(path(name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator, model = Draft202012Validator(schema), MESSAGES[name]
    valid, invalid = (
        [file.read_text(encoding="utf-8") for file in (EXAMPLES / name / kind).glob("*.json")]
        for kind in ("valid", "invalid")
    )
    assert valid
    assert invalid
    for text in valid:
        validator.validate(json.loads(text))
        message = model.validate_json(text)
        written = model.dump_json(message)
        validator.validate(json.loads(written))
        assert model.validate_json(written) == message
    for text in invalid:
        assert not validator.is_valid(json.loads(text)), text
        with pytest.raises(ValidationError):
            model.validate_json(text)
