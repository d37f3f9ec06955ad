"""Conditions on an event: labels it must have, fields that must not be blank. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas import QAEvent
from schemas.base import EventField


@dataclass(frozen=True, slots=True)
class LabelsCondition:
    """Every named label has one of its values; without names, every event fits."""

    values: tuple[tuple[str, frozenset[str]], ...] = ()

    @classmethod
    def of(cls, labels: Mapping[str, Iterable[str]]) -> LabelsCondition:
        """Build a condition from label names and the values that each may have."""
        return cls(tuple((name, frozenset(values)) for name, values in labels.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The labels that the condition looks at."""
        return tuple(name for name, _ in self.values)

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Say whether an event with these labels fits. A missing label never does."""
        # A plain loop: this runs on every record that push-down looks into, and a generator costs twice as
        # much.
        for name, values in self.values:  # noqa: SIM110 - see above
            if labels.get(name) not in values:  # a missing label gives None, which no set of strings contains
                return False
        return True


@dataclass(frozen=True, slots=True)
class EventCondition:
    """Fields that must not be blank, and labels."""

    has: tuple[EventField, ...] = ()
    labels: LabelsCondition = LabelsCondition()

    def fits(self, event: QAEvent) -> bool:
        """Say whether an event fits.

        A text is blank when it is missing or holds white space alone; a context when none of its pages has
        text.
        """
        return self.labels.fits(event.labels) and all(_has(event, name) for name in self.has)


def _has(event: QAEvent, name: EventField) -> bool:
    if name == "context":
        return any(page and not page.isspace() for page in (event.context or {}).values())
    if name in {"messages", "tool_calls"}:
        return bool(getattr(event, name))
    text: str | None = getattr(event, name)
    return text is not None and bool(text) and not text.isspace()
