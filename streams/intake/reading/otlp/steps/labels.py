"""The labels of a span: tenant, prompt, agent and others. Pure."""

from __future__ import annotations

from typing import Any

from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.families.shape import is_label
from streams.intake.reading.otlp.steps.values import Values


def labels_of(values: Values) -> dict[str, str]:
    """Read the labels of a span; the first table with a label has precedence."""
    found: dict[str, str] = {}
    for own, maps in values.shape.labels:
        pairs: list[tuple[str, Any]] = [(label, values.attributes[name]) for name, label in own]
        for name in maps:
            opened = loaded(values.attributes[name])
            if isinstance(opened, dict):
                pairs += [(label, value) for label, value in opened.items() if is_label(label)]
        for label, value in pairs:
            if label not in found and (text := _text(value)) is not None:
                found[label] = text
    return found


def _text(value: Any) -> str | None:
    opened = loaded(value)
    if isinstance(opened, str):
        return opened or None
    if isinstance(opened, bool):
        return "true" if opened else "false"
    return str(opened) if isinstance(opened, int | float) else None
