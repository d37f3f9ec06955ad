"""The variables of a prompt's template. Pure."""

from __future__ import annotations

from typing import Any

from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.families.family import Kind
from streams.intake.reading.otlp.steps.values import Values


def variables_of(values: Values, kind: Kind) -> dict[str, Any]:
    """Read the variables of a prompt's template, by name."""
    found: dict[str, Any] = {}
    for name in values.shape.present["variables",]:
        opened = loaded(values.attributes[name])
        if isinstance(opened, dict):
            found |= {str(key): value for key, value in opened.items()}
    for prefix in values.shape.present["variables_flat",]:
        found |= {
            name[len(prefix) :]: value for name, value in values.attributes.items() if name.startswith(prefix)
        }
    if kind == "prompt" and not found:
        opened = loaded(values.first("given"))
        if isinstance(opened, dict) and isinstance(opened.get("inputs"), dict):
            opened = opened["inputs"]
        if isinstance(opened, dict):
            found = {str(key): value for key, value in opened.items()}
    return found
