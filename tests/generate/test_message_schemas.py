"""The committed JSON Schemas and their examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from generate import message_schemas as json_schema


def _examples(kind: str) -> list[Any]:
    files = sorted(json_schema.EXAMPLES.glob(f"*/{kind}/*.json"))
    return [
        pytest.param(file.parent.parent.name, file, id=f"{file.parent.parent.name}/{file.stem}")
        for file in files
    ]


def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(json_schema.path(name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", json_schema.MESSAGES)
def test_each_schema_is_one_and_has_examples_of_both_kinds(name: str) -> None:
    Draft202012Validator.check_schema(_validator(name).schema)
    for kind in ("valid", "invalid"):
        assert list((json_schema.EXAMPLES / name / kind).glob("*.json")), f"no {kind} example"


@pytest.mark.parametrize(("name", "file"), _examples("valid"))
def test_valid_examples_pass_schema_and_model(name: str, file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    _validator(name).validate(json.loads(text))
    message = json_schema.MESSAGES[name].validate_json(text)
    written = json_schema.MESSAGES[name].dump_json(message)
    _validator(name).validate(json.loads(written))
    assert json_schema.MESSAGES[name].validate_json(written) == message


@pytest.mark.parametrize(("name", "file"), _examples("invalid"))
def test_invalid_examples_are_refused_by_schema_and_model(name: str, file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not _validator(name).is_valid(json.loads(text))
    with pytest.raises(ValidationError):
        json_schema.MESSAGES[name].validate_json(text)
