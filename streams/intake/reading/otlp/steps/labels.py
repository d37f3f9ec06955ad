"""What a span says of tenant, prompt, agent and the like. Pure."""

from __future__ import annotations

from typing import Any, Final

from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.steps.values import Values

_PRIVATE: Final = ("ls_", "lc_", "langgraph_", "langfuse_", "checkpoint_")
_PEOPLE: Final = frozenset(
    {
        "user",
        "user_id",
        "userid",
        "session_id",
        "sessionid",
        "thread_id",
        "conversation_id",
        "chat_id",
        "email",
    }
)
"""No labels: each names a person or a conversation, and has as many values."""


def labels_of(values: Values) -> dict[str, str]:
    """Read the labels of a span; the first table that knows one is believed."""
    found: dict[str, str] = {}
    for family in values.families:
        pairs = [(label, values.attributes.get(name)) for name, label in family.labels.items()]
        for name in family.label_maps:
            opened = loaded(values.attributes.get(name))
            pairs += list(opened.items()) if isinstance(opened, dict) else []
        prefixes = family.label_prefixes
        if prefixes:
            pairs += [
                (name[len(next(one for one in prefixes if name.startswith(one))) :], value)
                for name, value in values.attributes.items()
                if name.startswith(prefixes)
            ]
        for label, value in pairs:
            text = _label(str(label), value)
            if text is not None:
                found.setdefault(str(label), text)
    return found


def _label(name: str, value: Any) -> str | None:
    opened = loaded(value)
    if not name or name.startswith(_PRIVATE) or name.lower() in _PEOPLE or len(name) > 64:
        return None
    if isinstance(opened, bool):
        return "true" if opened else "false"
    return str(opened) if isinstance(opened, str | int | float) and opened != "" else None
