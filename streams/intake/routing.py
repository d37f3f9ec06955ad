"""Which metrics judge a sampled event. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas import QAEvent
from schemas.base import EventField
from streams.intake.decision import Decision
from streams.intake.sampling import LabelsCondition


@dataclass(frozen=True, slots=True)
class EventCondition:
    """Fields that must not be blank, and labels."""

    has: tuple[EventField, ...] = ()
    labels: LabelsCondition = field(default_factory=LabelsCondition)

    def fits(self, event: QAEvent) -> bool:
        """Say whether an event fits.

        A text is blank when it is missing or holds white space alone; a context when none of its pages has
        text.
        """
        return self.labels.fits(event.labels) and all(_has(event, name) for name in self.has)


@dataclass(frozen=True, slots=True)
class Route:
    """When a metric judges an event, and which share of them.

    Args:
        metric: The metric's name.
        when: What the event must have.
        rate: Share of the sampled events, 0 to 1.
        of_all: The share is of all events, sampled or not: the metric costs nothing.
    """

    metric: str
    when: EventCondition
    rate: float = 1.0
    of_all: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """One metric that judges an event, with the decision that its result carries."""

    metric: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Routing:
    """What happens to one sampled event.

    Args:
        fitting: The metrics whose conditions the event fits.
        assignments: Those of them that judge it, each with its own inclusion probability.
    """

    fitting: tuple[str, ...]
    assignments: tuple[Assignment, ...]

    @property
    def unroutable(self) -> bool:
        """Whether no metric's conditions match: the event is a dead letter."""
        return not self.fitting

    @property
    def not_sampled(self) -> bool:
        """Whether metrics fit and the rates of all of them pass the event by: it counts as skipped."""
        return bool(self.fitting) and not self.assignments


def route(
    event: QAEvent, decision: Decision, routes: Sequence[Route], *, lowered: Decision | None = None
) -> Routing:
    """Find the metrics that judge an event.

    Args:
        event: The event.
        decision: What sampling said of it; where it was not kept there are assignments of those metrics alone
            whose rate is of all events.
        routes: All metrics.
        lowered: The same at the rate of the moment, for metrics that cost something.
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
