"""Labels as producers write them, made into the short strings that they are here."""

from __future__ import annotations

from collections.abc import Collection

from schemas.base import MAX_LABEL_VALUE_CHARS
from streams.errors import DecodeError
from streams.settings.problems import describe


def normal_label(value: str) -> str:
    """Cut a label's value to its bound: a label too long is still better than an event lost."""
    return value if len(value) <= MAX_LABEL_VALUE_CHARS else value[:MAX_LABEL_VALUE_CHARS]


def normal_labels(raw: object, only: Collection[str] | None = None) -> dict[str, str]:
    """Make labels of what an event has under `labels`.

    Numbers become their usual text, truth values "true" and "false"; a null is a label that is absent.

    Args:
        raw: What the event has; None for none.
        only: Names to look at; None for all.

    Raises:
        DecodeError: It is not a mapping, or a value is a list or mapping.
    """
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise DecodeError(
            "undecodable",
            f"labels: must be a mapping of short texts (got {describe(raw)}); correct the producer",
        )
    labels: dict[str, str] = {}
    for name, value in raw.items():
        if value is None or (only is not None and name not in only):
            continue
        if isinstance(value, str):
            labels[name] = normal_label(value)
        elif isinstance(value, bool):
            labels[name] = "true" if value else "false"
        elif isinstance(value, int | float):
            labels[name] = normal_label(str(value))
        else:
            raise DecodeError(
                "undecodable",
                f"labels.{name[:80]}: must be text, a number or a truth value (got {describe(value)}); "
                "correct the producer or map one value by ingest.mapping",
            )
    return labels
