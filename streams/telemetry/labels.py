"""Event labels as metric labels: those named in the settings, each with a bounded number of values.

Values beyond the limit become "other", the rarest ones first; a missing label becomes "".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from streams.telemetry.catalogue import CATALOGUE, LABELS

OTHER: Final = "other"
MAX_COMBINATIONS: Final = 1_000
"""Maximum combinations of event labels, because even bounded values multiply."""

ENOUGH: Final = 8
"""Results with a value before it takes the place of a rarer one."""
OTHERS_PER_PLACE: Final = 10
HALVED_EVERY: Final = 2_000
"""Results after which the counts of shown values are halved, so that those no longer seen give way."""

# Labels next to the event labels: those of the metrics, and `fingerprint`, which recording rules join to
# them.
_RESERVED: Final = {"le", "quantile", "fingerprint"} | {
    label for spec in CATALOGUE if LABELS in spec.labels for label in spec.labels
}


def label_names(names: Sequence[str]) -> dict[str, str]:
    """Return each event label's name as a legal metric label; a name in use gets the prefix `event_`."""
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

    `forget` gets the place of a label and its shown value that gives way to a more frequent one.
    """

    def __init__(
        self,
        names: Sequence[str],
        max_values: int,
        max_combinations: int = MAX_COMBINATIONS,
        forget: Callable[[int, str], None] = lambda _place, _value: None,
    ) -> None:
        self.names = tuple(names)
        self._max_combinations = max_combinations
        self._combinations: set[tuple[str, ...]] = set()
        self._places = tuple(_Places(max_values) for _ in self.names)
        self._forget = forget

    def values(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        values = tuple(self._bound(place, labels.get(name)) for place, name in enumerate(self.names))
        if values not in self._combinations:
            if len(self._combinations) >= self._max_combinations:
                return (OTHER,) * len(self.names)
            self._combinations.add(values)
        return values

    def _bound(self, place: int, value: str | None) -> str:
        if not value:
            return ""
        shown, gone = self._places[place].show(harmless(value))
        if gone is not None:
            self._combinations = {one for one in self._combinations if one[place] != gone}
            self._forget(place, gone)
        return shown


class _Places:
    """The shown values of one label, and the most frequent others (Misra and Gries)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shown: dict[str, int] = {}
        self._others: dict[str, int] = {}
        self._seen = 0

    def show(self, value: str) -> tuple[str, str | None]:
        """Count a value; return what is shown for it, and the value whose place it took."""
        self._seen += 1
        if self._seen % HALVED_EVERY == 0:
            self._shown = {one: count // 2 for one, count in self._shown.items()}
        if value in self._shown or len(self._shown) < self._limit:
            self._shown[value] = self._shown.get(value, 0) + 1
            return value, None
        count = self._others[value] = self._others.get(value, 0) + 1
        if len(self._others) > OTHERS_PER_PLACE * self._limit:
            self._others = {one: count - 1 for one, count in self._others.items() if count > 1}
        rarest = min(self._shown, key=self._shown.__getitem__)
        if count < ENOUGH or count <= 2 * self._shown[rarest]:
            return OTHER, None
        self._others.pop(value, None)
        del self._shown[rarest]
        self._shown[value] = count
        return value, rarest


def harmless(value: str) -> str:
    if value.isprintable():
        return value
    text = value.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
