"""What decides about a record, built from the settings."""

from __future__ import annotations

from streams.intake.conditions import EventCondition, LabelsCondition
from streams.intake.routing import Route
from streams.intake.sampling import Rule, SamplingPolicy
from streams.settings import SamplingSettings, Settings


def sampling_policy(sampling: SamplingSettings) -> SamplingPolicy:
    """Build the policy that decides which events are judged."""
    rules = [
        Rule(name=rule.name, when=LabelsCondition.of(rule.when), rate=rule.rate) for rule in sampling.rules
    ]
    return SamplingPolicy(default_rate=sampling.default_rate, rules=rules, key=sampling.key)


def metric_routes(settings: Settings) -> tuple[Route, ...]:
    """Build the route that leads events to each metric, in the order of the settings."""
    return tuple(
        Route(
            metric=name,
            when=EventCondition(has=metric.when.has, labels=LabelsCondition.of(metric.when.labels)),
            rate=metric.rate,
        )
        for name, metric in settings.metrics.items()
    )
