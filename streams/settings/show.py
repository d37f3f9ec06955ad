"""Shows the effective settings with secrets masked, and their JSON Schema."""

from __future__ import annotations

from typing import Any

from streams.settings.tree import Settings


def mask(settings: Settings) -> dict[str, Any]:
    """Return the effective settings as plain JSON values, with secrets masked."""
    return settings.model_dump(mode="json")


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings file."""
    schema = Settings.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "judgestream settings"
    return schema
