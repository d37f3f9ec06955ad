"""The root of the settings, with the checks across sections."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from judge.metrics.registry import BUILT_IN, NAMED
from schemas.base import MetricName
from streams.settings.base import Section, refuse
from streams.settings.sections.intake import IngestSettings, SamplingSettings
from streams.settings.sections.judge import JudgeSettings
from streams.settings.sections.kafka import DeadLetterSettings, KafkaSettings, TopicSettings
from streams.settings.sections.metric import MetricSettings, default_metrics
from streams.settings.sections.monitor import MonitorSettings
from streams.settings.sections.review import ReviewSettings
from streams.settings.sections.sinks import SinkName, SinkSettings
from streams.settings.sections.store import StoreSettings
from streams.settings.sections.telemetry import TelemetrySettings


class Settings(Section):
    """All settings. Built once, by `load_settings`."""

    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    topics: TopicSettings = Field(default_factory=TopicSettings)
    dead_letters: DeadLetterSettings = Field(default_factory=DeadLetterSettings)
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    sampling: SamplingSettings = Field(default_factory=SamplingSettings)
    metrics: Annotated[dict[MetricName, MetricSettings], Field(min_length=1, max_length=50)] = Field(
        default_factory=lambda: dict(default_metrics())
    )
    judge: JudgeSettings = Field(default_factory=JudgeSettings)
    monitor: MonitorSettings = Field(default_factory=MonitorSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    review: ReviewSettings = Field(default_factory=ReviewSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    sinks: Annotated[dict[SinkName, SinkSettings], Field(max_length=20)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _across(self) -> Self:
        refuse(
            [
                *_time_problems(self),
                *_metric_problems(self),
                *_topic_problems(self),
                *_target_problems(self),
                *_unit_problems(self),
                *_endpoint_problems(self),
            ]
        )
        return self


def _time_problems(settings: Settings) -> list[tuple[str, str]]:
    limit = settings.kafka.rebalance_timeout_seconds
    if settings.judge.timeout_seconds < limit:
        return []
    what = (
        f"must be less than kafka.rebalance_timeout_seconds ({limit:g}), or a rebalance would not wait for "
        f"calls in flight (got {settings.judge.timeout_seconds:g}); lower it or raise the other"
    )
    return [("judge.timeout_seconds", what)]


_CITING = tuple(name for name, metric in BUILT_IN.items() if metric.cites)
_OF_BUILT_IN = {"verification": tuple(BUILT_IN), "citation_pattern": _CITING, "without_citations": _CITING}
"""Fields that only these built-in metrics have."""


def _metric_problems(settings: Settings) -> list[tuple[str, str]]:
    problems = []
    for name, metric in settings.metrics.items():
        problems += [
            (f"metrics.{name}.{field}", f"is only for {' and '.join(known)}; remove it")
            for field, known in _OF_BUILT_IN.items()
            if getattr(metric, field) != MetricSettings.model_fields[field].default and name not in known
        ]
        if metric.is_check and name in NAMED:
            what = "is a built-in metric, which code cannot replace; rename it"
            problems.append((f"metrics.{name}", what))
        if metric.prompt_pack is not None or metric.is_check:
            continue
        if name not in NAMED:
            known = ", ".join(NAMED)
            problems.append(
                (
                    f"metrics.{name}",
                    (
                        f"is not a built-in metric (those are {known}); set prompt_pack, code or python, "
                        "or rename it"
                    ),
                )
            )
        elif metric.score_range is not None:
            problems.append(
                (f"metrics.{name}.score_range", f"is fixed for {name} without a prompt pack; remove it")
            )
    return problems


def _unit_problems(settings: Settings) -> list[tuple[str, str]]:
    problems = []
    for name, metric in settings.metrics.items():
        if metric.unit == "event":
            continue
        where = f"metrics.{name}.unit"
        if settings.ingest.format != "json":
            problems.append((where, "conversation is for ingest.format json; an OTLP trace is one event"))
        if settings.sampling.key != "record_key":
            problems.append(
                (where, "conversation needs sampling.key: record_key, or only parts of it would be sampled")
            )
        if metric.is_code:
            problems.append((where, "conversation is only for metrics with a judge; remove it"))
    return problems


def _target_problems(settings: Settings) -> list[tuple[str, str]]:
    known = ", ".join(settings.metrics)
    return [
        (f"monitor.{field}.{name}", f"names a metric that is not judged (metrics: {known}); remove it")
        for field in ("targets", "shares", "label_shares", "objectives")
        for name in getattr(settings.monitor, field)
        if name not in settings.metrics
    ]


def _endpoint_problems(settings: Settings) -> list[tuple[str, str]]:
    names = [endpoint.name for endpoint in settings.judge.endpoints]
    known = ", ".join(names) or "none"
    problems = []
    for metric, asked in settings.metrics.items():
        in_panel = asked.panel is not None and asked.panel.endpoints
        path = f"metrics.{metric}.panel.endpoints" if in_panel else f"metrics.{metric}.endpoints"
        problems += [
            (path, f"must name judge.endpoints (those are {known}), got {name!r}; add it there or remove it")
            for name in asked.asked
            if name not in names
        ]
        if len(set(asked.asked)) != len(asked.asked):
            problems.append((path, f"names an endpoint twice (got {list(asked.asked)}); remove one"))
    return problems


def _topic_problems(settings: Settings) -> list[tuple[str, str]]:
    topics = settings.topics
    names = {
        f"topics.{name}": getattr(topics, name)
        for name in (
            "events",
            "scores",
            "dead_letters",
            "alerts",
            "labels",
            "evaluations",
            "observations",
            "monitor_state",
        )
    }
    names |= {f"topics.tasks_prefix ({metric})": topics.task_topic(metric) for metric in settings.metrics}
    owners: dict[str, str] = {}
    problems = []
    for path, topic in names.items():
        # Kafka refuses two topics that differ only in . and _ (they collide in its metrics).
        owner = owners.setdefault(topic.replace(".", "_"), path)
        if owner != path:
            problems.append(
                (path, f"must differ from {owner} in more than . and _ (got {topic!r}); rename one")
            )
    return problems
