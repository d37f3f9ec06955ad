"""Build the parts of the intake from the settings."""

from __future__ import annotations

from typing import Final

from streams.intake.joining.join import JoinBounds
from streams.intake.sampling import LabelsCondition, Rule, SamplingPolicy
from streams.intake.selector import EventCondition, Route
from streams.settings import SamplingSettings, Settings
from streams.settings.intake import IngestSettings
from streams.settings.metrics import Unit

CONVERSATION_IDLE_SECONDS: Final = 300.0
LONGEST_IDLE_TIMES: Final = 12
GROUP_BYTES: Final = 4_096
"""What an open trace or conversation counts for at least: the memory of many small ones."""


def sampling_policy(sampling: SamplingSettings, *, least_rate: float = 0.0) -> SamplingPolicy:
    """Build the sampling policy; rates above 0 are at least `least_rate`."""

    def rate(own: float) -> float:
        return own and max(own, least_rate)

    return SamplingPolicy(
        default_rate=rate(sampling.default_rate),
        rules=[Rule(one.name, LabelsCondition.of(one.when), rate(one.rate)) for one in sampling.rules],
        key=sampling.key,
        upstream=sampling.upstream,
        floor=sampling.upstream_floor,
    )


def reading_policy(settings: Settings) -> SamplingPolicy:
    """Build the policy of push-down, which keeps the events of metrics that judge more than the sample."""
    least = max((metric.rate for metric in settings.metrics.values() if metric.is_code), default=0.0)
    return sampling_policy(settings.sampling, least_rate=least)


def joining_bounds(ingest: IngestSettings, *, grace: float = 0, idle: float) -> JoinBounds:
    """Return the bounds for joining groups, in seconds; `idle` is the default."""
    size, idle = ingest.max_open_bytes, ingest.idle_seconds or idle
    return JoinBounds(
        grace=grace, idle=idle, longest=LONGEST_IDLE_TIMES * idle, groups=size // GROUP_BYTES, size=size
    )


def conversation_bounds(ingest: IngestSettings) -> JoinBounds:
    """Return the bounds for joining conversations, which are never known to be complete."""
    return joining_bounds(ingest, idle=CONVERSATION_IDLE_SECONDS)


def metric_routes(settings: Settings, unit: Unit = "event") -> tuple[Route, ...]:
    """Build the route of each metric of a unit (event or conversation), in the order of the settings."""
    return tuple(
        Route(
            metric=name,
            when=EventCondition(has=metric.when.has, labels=LabelsCondition.of(metric.when.labels)),
            rate=metric.rate,
            of_all=metric.is_code,
        )
        for name, metric in settings.metrics.items()
        if metric.unit == unit
    )
