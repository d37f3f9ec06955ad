"""Generate the reference of messages and topics from the message schemas and the table of topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from generate.message_schemas import EXAMPLES, MESSAGES, json_schema
from generate.places import DOCS
from generate.tables import kind_of, table
from streams.kafka.topics.table import TOPICS
from streams.settings.broker import TopicSettings

_INTRODUCTION: Final = """\
# Messages and topics

<!-- Made by `python -m generate --write` from schemas/ and streams/kafka/topics/table.py; changes here are lost. -->

Every message is one JSON object with a `schema_version`. JSON Schemas are in `schemas/json/`, valid and invalid
examples in `schemas/examples/`. Ignore fields that you do not know: any version may add optional fields.

## Topics
"""  # noqa: E501
_HEAD: Final = ("field", "value", "meaning")


def _message(name: str | None) -> str:
    if name is None:
        return ""
    return f"[{name}](#{name})" if name in MESSAGES else "[OTLP log events](sinks.md)"


def page() -> str:
    """Return the page."""
    names = TopicSettings()
    rows = [
        (
            f"`{(kind.names(names, ['<metric>']))[0]}`",
            _message(kind.message),
            ", ".join(kind.writers) or ("producers" if kind.field == "events" else ""),
            ", ".join(kind.readers),
            "compacted" if kind.cleanup == "compact" else f"{kind.keep_hours} h",
        )
        for kind in TOPICS
    ]
    parts = [
        _INTRODUCTION,
        table(("topic (default name)", "message", "written by", "read by", "kept"), rows),
    ]
    for name in MESSAGES:
        schema = json_schema(name)
        parts.append(f"## {name}\n")
        models = _models(schema)
        shared = _shared([model for _, model in models])
        if shared:
            parts.append(table(_HEAD, _rows(schema, shared, models[0][1])))
        for title, model in models:
            if title:
                parts.append(f"### {name}: {title}\n")
            if model.get("description"):
                parts.append(f"{model['description']}\n")
            own = {field: node for field, node in model["properties"].items() if field not in shared}
            parts.append(table(_HEAD, _rows(schema, own, model)))
        example = min((EXAMPLES / name / "valid").glob("*.json"), key=lambda file: file.stat().st_size)
        text = json.dumps(json.loads(example.read_text(encoding="utf-8")), indent=2, ensure_ascii=False)
        parts.append(f"```json\n{text}\n```\n")
    return "\n".join(parts)


def files() -> Mapping[Path, str]:
    """Return the page by its path."""
    return {DOCS / "messages.md": page()}


def _shared(models: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields common to all kinds of a message; empty if there is one kind."""
    first = models[0]["properties"]
    alike = {
        name: node
        for name, node in first.items()
        if all(one["properties"].get(name) == node for one in models)
    }
    return alike if len(models) > 1 else {}


def _rows(
    schema: dict[str, Any], fields: Mapping[str, Any], model: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    required = set(model.get("required", ()))
    return [
        (
            f"`{field}`" + ("" if field in required else " (optional)"),
            kind_of(schema, node),
            _described(schema, node),
        )
        for field, node in fields.items()
    ]


def _models(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the models of a message: one, or one per kind."""
    kinds = schema.get("oneOf")
    if kinds is None:
        return [("", schema)]
    return [(_name(kind["$ref"]), schema["$defs"][_name(kind["$ref"])]) for kind in kinds]


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _described(schema: dict[str, Any], node: dict[str, Any]) -> str:
    own = node.get("description", "")
    if own or "$ref" not in node:
        return str(own)
    return str(schema["$defs"][_name(node["$ref"])].get("description", ""))
