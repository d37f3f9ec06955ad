"""Event labels as metric labels: those named in the settings, each with a bounded number of values.

Values beyond the limit become "other"; a missing label becomes "".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from streams.telemetry.catalogue import CATALOGUE, LABELS

OTHER: Final = "other"
"""Replaces all values of a label beyond its limit."""
MAX_COMBINATIONS: Final = 1_000
"""Maximum combinations of event labels, because even bounded values multiply."""

# Labels next to the event labels: those of the metrics, and `fingerprint`, which recording rules join to
# them.
_RESERVED: Final = {"le", "quantile", "fingerprint"} | {
    label for spec in CATALOGUE if LABELS in spec.labels for label in spec.labels
}


def label_names(names: Sequence[str]) -> dict[str, str]:
    """Return each event label's name as a metric label.

    Characters that Prometheus does not allow become `_`; a name in use gets the prefix `event_`.

    Raises:
        ValueError: Two event labels have the same metric label.
    """
    out: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if plain in _RESERVED or not re.match(r"[A-Za-z]", plain):
            plain = f"event_{plain}"
        if plain in out.values():
            raise ValueError(
                f"telemetry.labels: {name!r} and another label both become {plain!r}; drop one of them"
            )
        out[name] = plain
    return out


class BoundedLabels:
    """Turns an event's labels into metric label values: bounded in number and safe to expose.

    Args:
        names: The event labels to use.
        max_values: Maximum values of each, the first ones seen; at least 1.
        max_combinations: Maximum combinations, likewise; beyond that all labels are `OTHER`.
    """

    def __init__(
        self, names: Sequence[str], max_values: int, max_combinations: int = MAX_COMBINATIONS
    ) -> None:
        self.names = tuple(names)
        self._max_combinations = max_combinations
        self._combinations: set[tuple[str, ...]] = set()
        self._max_values = max_values
        self._seen: tuple[dict[str, str], ...] = tuple({} for _ in self.names)

    def values(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return one value per name, in order."""
        values = tuple(
            self._bound(seen, labels.get(name)) for name, seen in zip(self.names, self._seen, strict=True)
        )
        if values not in self._combinations:
            if len(self._combinations) >= self._max_combinations:
                return (OTHER,) * len(self.names)
            self._combinations.add(values)
        return values

    def _bound(self, seen: dict[str, str], value: str | None) -> str:
        if not value:
            return ""
        known = seen.get(value)
        if known is None:
            if len(seen) >= self._max_values:
                return OTHER
            known = seen[value] = harmless(value)
        return known


def harmless(value: str) -> str:
    """Replace lone surrogates and control characters."""
    text = value.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
