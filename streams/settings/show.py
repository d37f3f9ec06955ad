"""Shows the settings: as they are in force with secrets masked, and as a JSON Schema."""

from __future__ import annotations

from typing import Any

from streams.settings.tree import Settings


def mask(settings: Settings) -> dict[str, Any]:
    """Give the settings in force as plain JSON values, secrets as asterisks."""
    return settings.model_dump(mode="json")


def settings_schema() -> dict[str, Any]:
    """Give the JSON Schema of the settings file."""
    schema = Settings.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "judgestream settings"
    return schema
