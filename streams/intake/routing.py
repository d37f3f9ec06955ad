"""Select the metrics that judge a sampled event. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas import QAEvent
from schemas.base import EventField
from streams.intake.decision import Decision
from streams.intake.sampling import LabelsCondition


@dataclass(frozen=True, slots=True)
class EventCondition:
    """A condition on an event: fields that must not be blank, and labels."""

    has: tuple[EventField, ...] = ()
    labels: LabelsCondition = field(default_factory=LabelsCondition)

    def fits(self, event: QAEvent) -> bool:
        """Return whether an event matches.

        A text is blank if it is missing or only white space; a context if none of its pages has text.
        """
        return self.labels.fits(event.labels) and all(_has(event, name) for name in self.has)


@dataclass(frozen=True, slots=True)
class Route:
    """A metric's condition on events, and its rate.

    Args:
        metric: The metric's name.
        when: The condition.
        rate: Share of the sampled events, 0 to 1.
        of_all: Whether the share is of all events, sampled or not: the metric costs nothing.
    """

    metric: str
    when: EventCondition
    rate: float = 1.0
    of_all: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """A metric that judges an event, with its sampling decision."""

    metric: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Routing:
    """The metrics of one sampled event.

    Args:
        fitting: Metrics whose conditions match.
        assignments: Those of them that judge it, each with its own inclusion probability.
    """

    fitting: tuple[str, ...]
    assignments: tuple[Assignment, ...]

    @property
    def unroutable(self) -> bool:
        """Whether no metric's conditions match: the event becomes a dead letter."""
        return not self.fitting

    @property
    def not_sampled(self) -> bool:
        """Whether metrics match but none samples the event: it counts as skipped."""
        return bool(self.fitting) and not self.assignments


def route(
    event: QAEvent, decision: Decision, routes: Sequence[Route], *, lowered: Decision | None = None
) -> Routing:
    """Select the metrics that judge an event.

    Args:
        event: The event.
        decision: Its sampling decision; if it is not kept, only metrics with a rate of all events apply.
        routes: The routes to consider.
        lowered: The decision at the currently lowered rate, for metrics with cost.
    """
    sampled = lowered or decision
    fitting = [one for one in routes if one.when.fits(event)]
    decided = (
        (one.metric, decision.of_all(one.rate) if one.of_all else sampled.for_metric(one.rate))
        for one in fitting
    )
    return Routing(
        fitting=tuple(one.metric for one in fitting),
        assignments=tuple(Assignment(metric, own) for metric, own in decided if own.keep),
    )


def _has(event: QAEvent, name: EventField) -> bool:
    if name == "context":
        return any(page and not page.isspace() for page in (event.context or {}).values())
    if name in {"messages", "tool_calls"}:
        return bool(getattr(event, name))
    text: str | None = getattr(event, name)
    return text is not None and bool(text) and not text.isspace()
