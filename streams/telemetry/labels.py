"""Event labels as metric labels: only those that the settings name, each with a bounded number of values.

Beyond the bound a value is "other"; a label that an event lacks is "".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from streams.telemetry.catalogue import CATALOGUE, LABELS

OTHER: Final = "other"
"""Stands for all values of a label beyond its bound."""
MAX_COMBINATIONS: Final = 1_000
"""Combinations of event labels that have series of their own; bounded values alone still multiply."""

# What stands beside event labels: in their own metrics, and `fingerprint`, which the recording rules join
# to these.
_RESERVED: Final = {"le", "quantile", "fingerprint"} | {
    label for spec in CATALOGUE if LABELS in spec.labels for label in spec.labels
}


def label_names(names: Sequence[str]) -> dict[str, str]:
    """Give each event label the name it has as a metric label.

    Characters that Prometheus does not allow become `_`; a name that has a meaning of its own beside them
    gets `event_` in front.

    Raises:
        ValueError: Two event labels would share a name.
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
    """Turns the labels of an event into metric label values, few and harmless.

    Args:
        names: The event labels that count.
        max_values: Values that each may have; the first ones seen are kept. At least 1.
        max_combinations: Combinations of them, likewise; beyond that all labels are `OTHER`.
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
        """One value for each name, in their order."""
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
    """A text that can stand in an exposition: no lone surrogates, no control characters."""
    text = value.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
