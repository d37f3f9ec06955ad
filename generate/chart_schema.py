"""Put the schema of the settings into that of the chart's values, so that a typo fails at `helm install`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from generate.places import ROOT
from streams.settings.load import settings_schema

VALUES_SCHEMA: Final = ROOT / "helm" / "values.schema.json"
_PREFIX: Final = "settings"
_WORDS: Final = frozenset({"title", "description", "default", "examples", "required", "$schema", "$defs"})
"""Left out: words for people, and `required`, for an environment variable may set what `config` does not."""
_NAMED: Final = frozenset({"properties", "patternProperties"})
"""Keywords whose keys are names of the settings."""


def files() -> Mapping[Path, str]:
    """Return the schema of the values with that of the current settings."""
    values = json.loads(VALUES_SCHEMA.read_text(encoding="utf-8"))
    return {VALUES_SCHEMA: json.dumps(with_settings(values), indent=2, ensure_ascii=False) + "\n"}


def with_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of values whose `config` is that of the settings."""
    schema = settings_schema()
    own = {name: part for name, part in values["$defs"].items() if not name.startswith(_PREFIX)}
    settings = {f"{_PREFIX}{name}": _bare(part) for name, part in sorted(schema["$defs"].items())}
    settings[f"{_PREFIX}SinkSettings"] = _open_for_other_kinds(settings[f"{_PREFIX}SinkSettings"])
    return {**values, "$defs": {**own, _PREFIX: _bare(schema), **settings}}


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {}
    for key, value in schema.items():
        if key == "$ref":
            kept[key] = value.replace("#/$defs/", f"#/$defs/{_PREFIX}")
        elif key in _NAMED:
            kept[key] = {name: _bare(one) for name, one in value.items()}
        elif key not in _WORDS and not _says_only_what_is_required(key, value):
            kept[key] = _bare(value)
    if kept.get("type") == "number":  # `helm --set` makes texts of fractions
        kept |= {"type": ["number", "string"], "pattern": "^[0-9.eE+-]+$"}
    return kept


def _says_only_what_is_required(key: str, value: Any) -> bool:
    return key in {"anyOf", "oneOf", "allOf"} and all(set(one) <= {"required"} for one in value)


def _open_for_other_kinds(sink: dict[str, Any]) -> dict[str, Any]:
    """A kind that another package brings has fields of its own."""
    return {
        "type": "object",
        "if": {"properties": {"kind": sink["properties"]["kind"]}},
        "then": sink,
    }
