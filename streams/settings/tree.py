"""The root of the settings, with the checks across sections."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PrivateAttr, SerializeAsAny

from judge.metrics.registry import metric_names, with_option
from schemas.base import MetricName
from streams.settings.base import Problems, Section
from streams.settings.broker import DeadLetterSettings, KafkaSettings, TopicSettings
from streams.settings.intake import IngestSettings, SamplingSettings
from streams.settings.judge import SAMPLING_BUDGET, JudgeSettings, LimitSettings
from streams.settings.metrics import MetricSettings, TwoPhaseSettings, default_metrics
from streams.settings.outputs import (
    MonitorSettings,
    ReviewSettings,
    SinkName,
    SinkSettings,
    StoreSettings,
    TelemetrySettings,
)


class Settings(Section):
    """All settings."""

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
    sinks: Annotated[dict[SinkName, SerializeAsAny[SinkSettings]], Field(max_length=20)] = Field(
        default_factory=dict
    )

    _deprecated: tuple[str, ...] = PrivateAttr(default=())

    def model_post_init(self, context: Any, /) -> None:
        self._deprecated = tuple((context or {}).get("deprecated", ()))

    @property
    def deprecated(self) -> tuple[str, ...]:
        return self._deprecated

    @property
    def sampling_limit(self) -> LimitSettings | None:
        budget = self.sampling.budget
        if budget is None:
            return None
        return LimitSettings(usd_per_day=budget.usd_per_day, calls_per_day=budget.verdicts_per_day)

    @property
    def limits(self) -> tuple[tuple[str, LimitSettings], ...]:
        sampling = self.sampling_limit
        return (*self.judge.budget.limits, *(() if sampling is None else ((SAMPLING_BUDGET, sampling),)))

    def _problems(self) -> Problems:
        for name, metric in self.metrics.items():
            metric.find_class(name)
        yield from _topic_problems(self)
        yield from _name_problems(self)
        for name, metric in self.metrics.items():
            for path, what in _metric_problems(name, metric, self):
                yield f"metrics.{name}{path}", what


def _metric_problems(name: str, metric: MetricSettings, settings: Settings) -> Problems:
    named = metric_names()
    for field in ("citation_pattern", "without_citations"):
        known = with_option(field)
        if name not in known and getattr(metric, field) != MetricSettings.model_fields[field].default:
            yield f".{field}", f"is only for {' and '.join(known)}; remove it"
    if metric.is_check and name in named:
        yield "", "is a built-in metric, which code cannot replace; rename it"
    if metric.prompt_pack is None and not metric.is_check:
        if name not in named:
            remedy = "set prompt_pack, code or python, rename it, or install the package that provides it"
            yield "", f"is not an installed metric (those are {', '.join(named)}); {remedy}"
        elif metric.score_range is not None:
            yield ".score_range", f"is fixed for {name} without a prompt pack; remove it"
    if metric.unit == "conversation":
        yield from _conversation_problems(metric, settings)
    yield from _endpoint_problems(metric, settings)


def _conversation_problems(metric: MetricSettings, settings: Settings) -> Problems:
    if settings.sampling.key != "record_key":
        why = "or only parts of it would be sampled"
        yield ".unit", f"conversation needs sampling.key: record_key, {why}"
    if metric.is_code:
        yield ".unit", "conversation is only for metrics with a judge; remove it"


def _endpoint_problems(metric: MetricSettings, settings: Settings) -> Problems:
    names = [endpoint.name for endpoint in settings.judge.endpoints]
    path = ".panel.endpoints" if metric.panel is not None and metric.panel.endpoints else ".endpoints"
    known = ", ".join(names) or "none"
    for asked in metric.asked:
        if asked not in names:
            remedy = "add it there or remove it"
            yield path, f"must name judge.endpoints (those are {known}), got {asked!r}; {remedy}"
    if metric.two_phase is not None:
        yield from _two_phase_problems(metric, metric.two_phase, settings)
    if len(set(metric.asked)) != len(metric.asked):
        yield path, f"names an endpoint twice (got {list(metric.asked)}); remove one"


def _two_phase_problems(metric: MetricSettings, cheap: TwoPhaseSettings, settings: Settings) -> Problems:
    models = {one.name: one.model for one in settings.judge.endpoints}
    if cheap.endpoint not in models:
        known = f"those are {', '.join(models) or 'none'}"
        what = f"must name judge.endpoints ({known}), got {cheap.endpoint!r}; add it there"
        yield ".two_phase.endpoint", what
        return
    if settings.sampling.key == "record_key":
        what = "needs answers that are sampled one by one, which sampling.key: record_key does not do"
        yield ".two_phase", f"{what}; remove one of them"
    model = cheap.model or models[cheap.endpoint]
    if model in [metric.model or models.get(name) for name in metric.endpoints or models]:
        remedy = "list in metrics.<name>.endpoints those of the strong judge only, or set another model"
        yield ".two_phase", f"asks {model} twice, for the metric's own judge, too; {remedy}"


def _name_problems(settings: Settings) -> Problems:
    known = ", ".join(settings.metrics)
    caps = enumerate(settings.judge.budget.caps)
    named = {f"judge.budget.caps.{at}.metric": cap.metric for at, cap in caps if cap.metric is not None}
    for field in ("objectives", "shares", "targets"):
        named = {f"monitor.{field}.{name}": name for name in getattr(settings.monitor, field)} | named
    for path, name in named.items():
        if name not in settings.metrics:
            yield path, f"names a metric that is not judged (metrics: {known}); remove it"


def _topic_problems(settings: Settings) -> Problems:
    topics = settings.topics
    owners = {topics.task_topic(metric): f"the tasks of metric {metric}" for metric in settings.metrics}
    internal = ("anchors", "evaluations", "observations", "monitor_state", "budget", "batch_tasks", "batches")
    owners |= {getattr(topics, name): "an internal topic" for name in internal}
    # Kafka refuses two topics that differ only in . and _ (they collide in its metrics).
    owners = {topic.replace(".", "_"): owner for topic, owner in owners.items()}
    for name in ("events", "scores", "dead_letters", "alerts", "labels"):
        path, topic = f"topics.{name}", getattr(topics, name)
        owner = owners.setdefault(topic.replace(".", "_"), path)
        if owner != path:
            yield path, f"must differ from {owner} in more than . and _ (got {topic!r}); rename one"
