"""Which records `judgestream tail` shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Conditions on a record's value, all of which must hold; a record without the field does not match.

    Attributes:
        metric: Only this metric.
        status: Only this status.
        event_id: Only this event.
        max_score: Only this score or a lower one.
        labels: Only records with all of these labels.
        since: Only records of this time or later, in milliseconds since 1970.
    """

    metric: str | None = None
    status: str | None = None
    event_id: str | None = None
    max_score: int | None = None
    labels: Mapping[str, str]
    since: int | None = None

    def fits(self, record: Any) -> bool:
        """Return whether a record matches."""
        if self.since is not None and (record.timestamp or 0) < self.since:
            return False
        if self == RecordFilter(labels={}, since=self.since):
            return True
        try:
            value = msgspec.json.decode(record.value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return isinstance(value, dict) and self._fits_value(value)

    def _fits_value(self, value: Mapping[str, Any]) -> bool:
        named = (("metric", self.metric), ("status", self.status), ("event_id", self.event_id))
        if any(wanted is not None and value.get(name) != wanted for name, wanted in named):
            return False
        score, labels = value.get("score"), value.get("labels")
        if self.max_score is not None and not (isinstance(score, int | float) and score <= self.max_score):
            return False
        if not self.labels:
            return True
        return isinstance(labels, dict) and all(
            labels.get(name) == wanted for name, wanted in self.labels.items()
        )
