"""The committed JSON Schemas, their examples, and what they promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from schemas import json_schema

EXAMPLES = Path(json_schema.__file__).parent / "examples"


def _examples(kind: str) -> list[Any]:
    files = sorted(EXAMPLES.glob(f"*/{kind}/*.json"))
    return [
        pytest.param(file.parent.parent.name, file, id=f"{file.parent.parent.name}/{file.stem}")
        for file in files
    ]


def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(json_schema.path(name).read_text(encoding="utf-8")))


def test_the_committed_schemas_are_those_of_the_models() -> None:
    """`make schemas` was run after the last change of a model."""
    assert json_schema.stale() == []


def test_a_stale_schema_is_noticed(tmp_path: Path) -> None:
    """The check names a schema that differs and one that is missing."""
    for name in json_schema.MESSAGES:
        json_schema.path(name, tmp_path).write_text(
            json_schema.render(json_schema.json_schema(name)), encoding="utf-8"
        )
    json_schema.path("alert", tmp_path).write_text("{}", encoding="utf-8")
    json_schema.path("result", tmp_path).unlink()
    assert json_schema.stale(tmp_path) == ["result", "alert"]


@pytest.mark.parametrize("name", json_schema.MESSAGES)
def test_each_schema_is_one_and_has_examples_of_both_kinds(name: str) -> None:
    """Each schema follows the dialect that it names, and is shown by valid and invalid documents."""
    Draft202012Validator.check_schema(_validator(name).schema)
    for kind in ("valid", "invalid"):
        assert list((EXAMPLES / name / kind).glob("*.json")), f"no {kind} example"


@pytest.mark.parametrize(("name", "file"), _examples("valid"))
def test_valid_examples_pass_schema_and_model(name: str, file: Path) -> None:
    """What the schema calls valid, the model reads; and what the model writes, the schema calls valid."""
    text = file.read_text(encoding="utf-8")
    _validator(name).validate(json.loads(text))
    message = json_schema.MESSAGES[name].validate_json(text)
    written = json_schema.MESSAGES[name].dump_json(message)
    _validator(name).validate(json.loads(written))
    assert json_schema.MESSAGES[name].validate_json(written) == message


@pytest.mark.parametrize(("name", "file"), _examples("invalid"))
def test_invalid_examples_are_refused_by_schema_and_model(name: str, file: Path) -> None:
    """The checker can fail: each invalid document is refused by both."""
    text = file.read_text(encoding="utf-8")
    assert not _validator(name).is_valid(json.loads(text))
    with pytest.raises(ValidationError):
        json_schema.MESSAGES[name].validate_json(text)
