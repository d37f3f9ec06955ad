"""The catalogue of what a worker measures, and the one place that writes it.

`CATALOGUE` is the reference: dashboards, rules and documentation are held against it. Event labels become metric
labels only where the settings name them; each has a bounded number of values, the rest is "other", and a label that
an event lacks is "".
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily

from schemas import Failed, Scored, Unscored, Usage
from streams.settings.base import PERIODS, Period
from streams.telemetry.partitions import PartitionState

OTHER: Final = "other"
"""Stands for all values of a label beyond its bound."""
MAX_COMBINATIONS: Final = 1_000
"""Combinations of event labels that have series of their own; bounded values alone still multiply."""
LABELS: Final = "<labels>"
"""In the catalogue: the event labels that the settings name."""

MetricType = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Spec:
    """One entry of the catalogue.

    Args:
        name: As Prometheus shows it (counters with `_total`).
        type: Its type.
        unit: What one is: a unit, or the thing counted.
        help: One sentence.
        labels: Names, with `LABELS` where the event labels go.
        buckets: Upper bounds of a histogram.
    """

    name: str
    type: MetricType
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_CALL_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
_WAIT_BUCKETS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

SUMS: Final = {
    "weight": "Sum of w = 1 / inclusion probability over scored results.",
    "weighted": "Sum of w * score.",
    "weighted_square": "Sum of w * score^2.",
    "weight_square": "Sum of w^2.",
    "weight_square_score": "Sum of w^2 * score.",
    "weight_square_score_square": "Sum of w^2 * score^2.",
}
"""The six sums from which a weighted mean and its interval follow, over any window."""

MONITOR_GAUGES: Final = (
    ("state", "1", "Where a measure of a series stands: 0 learning, 1 watching, 2 dropped."),
    ("evidence", "1", "Evidence for a drop; while dropped, that with which it was called."),
    ("threshold", "1", "Where the evidence calls a drop."),
    ("baseline", "points or share", "What is normal."),
    ("tolerated", "points or share", "The worst level that is all right, apart from season and mix."),
)
"""What the owner of a series tells of each of its measures."""

CATALOGUE: Final[tuple[Spec, ...]] = (
    Spec("judgestream_events_total", "counter", "events", "Events read, by what became of them.", ("outcome", "reason")),
    Spec("judgestream_results_total", "counter", "results", "Results written.", ("metric", "status", "reason", LABELS)),
    Spec("judgestream_scores_total", "counter", "results", "Scored results, by score.", ("metric", "score", LABELS)),
    *(
        Spec(f"judgestream_score_{name}_total", "counter", "1", text, ("metric", "fingerprint", LABELS))
        for name, text in SUMS.items()
    ),
    Spec(
        "judgestream_judge_call_seconds", "histogram", "seconds", "Wall-clock time of judge calls.",
        ("endpoint", "model", "outcome"), _CALL_BUCKETS,
    ),
    Spec("judgestream_judge_tokens_total", "counter", "tokens", "Tokens, as the endpoint counts them.", ("endpoint", "model", "kind")),
    Spec("judgestream_judge_cost_usd_total", "counter", "US dollars", "Cost of judging, where prices are known.", ("endpoint", "model")),
    Spec("judgestream_judge_in_flight", "gauge", "calls", "Judge calls under way.", ("endpoint",)),
    Spec("judgestream_judge_breaker_open", "gauge", "1", "1 while an endpoint is taken for down.", ("endpoint",)),
    Spec("judgestream_judge_budget_spent_ratio", "gauge", "1", "Share of the judging budget of this worker that is spent, of the limit of which most is; only with a budget.", ("period",)),
    Spec("judgestream_verdict_corrections_total", "counter", "corrections", "What the judge claimed and code found otherwise.", ("metric", "kind")),
    Spec("judgestream_verdict_suspicions_total", "counter", "verdicts", "Verdicts with a suspicion of a kind: what code finds odd and cannot show to be wrong.", ("metric", "kind")),
    Spec(
        "judgestream_event_to_result_seconds", "histogram", "seconds", "From the event's own time to its result.",
        ("metric",), _WAIT_BUCKETS,
    ),
    Spec("judgestream_consumer_lag_records", "gauge", "records", "Records that are not finished, up to the partition's end.", ("topic", "partition")),
    Spec("judgestream_oldest_unfinished_seconds", "gauge", "seconds", "Age of the oldest record in hand; 0 without one.", ("topic", "partition")),
    Spec("judgestream_traces_open", "gauge", "traces", "Traces whose spans are being joined.", ()),
    Spec("judgestream_traces_closed_total", "counter", "traces", "Traces closed, by why: root, idle, longest, room.", ("reason",)),
    Spec("judgestream_traces_late_records", "gauge", "records", "Records that came after their trace was closed, since the start.", ()),
    Spec("judgestream_traces_without_content_total", "counter", "traces", "Traces with models whose words were not recorded, by instrumentation.", ("instrumentation",)),
    Spec("judgestream_sink_verdicts_total", "counter", "verdicts", "Verdicts handed to a sink, by what became of them: delivered, skipped, refused.", ("sink", "outcome")),
    Spec("judgestream_dead_letters_total", "counter", "records", "Records set aside.", ("reason",)),
    Spec("judgestream_dead_letters_skipped_total", "counter", "records", "Records skipped because no form of their dead letter fits (dead_letters.when_refused: skip).", ("reason",)),
    Spec("judgestream_lost_records_total", "counter", "records", "Offsets that retention removed before they were read.", ("topic",)),
    Spec("judgestream_offset_moves_total", "counter", "moves", "Partitions that went on elsewhere because their offset was out of range.", ("topic", "why")),
    Spec("judgestream_removed_metric_tasks", "gauge", "records", "Tasks of a metric that is not in the settings any more: nobody judges them.", ("metric",)),
    Spec("judgestream_results_repeated_total", "counter", "results", "Results written again after a redelivery, and therefore counted nowhere else.", ("metric",)),
    *(
        Spec(f"judgestream_monitor_{name}", "gauge", unit, text, ("metric", "fingerprint", "slice", "measure"))
        for name, unit, text in MONITOR_GAUGES
    ),
    Spec("judgestream_monitor_missing_strata", "gauge", "strata", "Sampling rules that had answers in the past week and none in the window.", ("metric", "fingerprint", "slice")),
    Spec("judgestream_score_range", "gauge", "points", "Ends of a metric's scale.", ("metric", "end")),
    Spec("judgestream_evaluator_info", "gauge", "1", "1 for each evaluator whose numbers these are.", ("metric", "fingerprint", "model")),
)  # fmt: skip

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPECS: Final = {spec.name: spec for spec in CATALOGUE}
# What stands beside event labels: in their own metrics, and `fingerprint`, which the recording rules join to these.
_RESERVED: Final = {"le", "quantile", "fingerprint"} | {
    label for spec in CATALOGUE if LABELS in spec.labels for label in spec.labels
}


def label_names(names: Sequence[str]) -> dict[str, str]:
    """Give each event label the name it has as a metric label.

    Characters that Prometheus does not allow become `_`; a name that has a meaning of its own beside them gets `event_`
    in front.

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
            known = seen[value] = _harmless(value)
        return known


def _harmless(value: str) -> str:
    """A text that can stand in an exposition: no lone surrogates, no control characters."""
    text = value.encode("utf-8", "replace").decode()
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


class _EventsCollector:
    """Counts events in plain integers, so that a skip costs an addition and is still counted exactly."""

    def __init__(self) -> None:
        self.counts: Tally[tuple[str, str]] = Tally()
        self.skips: list[Callable[[], Mapping[str, int]]] = []

    def total(self) -> Tally[tuple[str, str]]:
        counts = Tally(self.counts)
        for source in self.skips:
            for reason, count in source().items():
                counts["skipped", reason] += count
        return counts

    def describe(self) -> Iterable[MetricFamily]:
        return ()

    def collect(self) -> Iterator[MetricFamily]:
        spec = _SPECS["judgestream_events_total"]
        family = CounterMetricFamily(spec.name, spec.help, labels=spec.labels)
        for labels, count in sorted(self.total().items()):
            family.add_metric(labels, count)
        yield family


class _PartitionsCollector:
    """Reads lag and age at the moment they are asked for."""

    def __init__(self, partitions: Callable[[], Iterable[PartitionState]], now: Callable[[], float]) -> None:
        self._partitions = partitions
        self._now = now

    def describe(self) -> Iterable[MetricFamily]:
        return ()

    def collect(self) -> Iterator[MetricFamily]:
        lag_spec, age_spec = (
            _SPECS["judgestream_consumer_lag_records"],
            _SPECS["judgestream_oldest_unfinished_seconds"],
        )
        lag = GaugeMetricFamily(lag_spec.name, lag_spec.help, labels=lag_spec.labels)
        age = GaugeMetricFamily(age_spec.name, age_spec.help, labels=age_spec.labels)
        now = self._now()
        for state in self._partitions():
            labels = (state.topic, str(state.partition))
            if state.lag_records is not None:
                lag.add_metric(labels, state.lag_records)
            oldest = state.oldest_timestamp
            age.add_metric(labels, 0.0 if oldest is None else max(now - oldest, 0.0))
        yield lag
        yield age


@dataclass(frozen=True, slots=True)
class MonitorGauge:
    """One number of the monitor.

    Args:
        name: A name of `MONITOR_GAUGES`, or "missing_strata".
        labels: The values of its labels, in their order.
        value: The number.
    """

    name: str
    labels: tuple[str, ...]
    value: float


class _MonitorCollector:
    """Reads the monitor at the moment it is asked."""

    def __init__(self, gauges: Callable[[], Iterable[MonitorGauge]]) -> None:
        self._gauges = gauges

    def describe(self) -> Iterable[MetricFamily]:
        return ()

    def collect(self) -> Iterator[MetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for gauge in self._gauges():
            spec = _SPECS[f"judgestream_monitor_{gauge.name}"]
            family = families.get(spec.name)
            if family is None:
                family = families[spec.name] = GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)
            family.add_metric([_harmless(value) for value in gauge.labels], gauge.value)
        yield from families.values()


class Metrics:
    """All metrics of one worker.

    Args:
        registry: Where they are registered; one a worker.
        labels: The event labels that become metric labels.
        max_label_values: Values that each of them may have.
    """

    def __init__(
        self, registry: CollectorRegistry, *, labels: Sequence[str] = (), max_label_values: int = 20
    ) -> None:
        self.registry = registry
        self._label_names = label_names(labels)
        self._labels = BoundedLabels(tuple(self._label_names), max_label_values)
        self._events = _EventsCollector()
        registry.register(self._events)
        self._families: dict[str, Any] = {}
        self._children: dict[tuple[str, ...], Any] = {}
        for spec in CATALOGUE:
            if spec.name.startswith("judgestream_monitor_") or spec.name in {
                "judgestream_events_total",
                "judgestream_consumer_lag_records",
                "judgestream_oldest_unfinished_seconds",
            }:
                continue  # collected when they are asked for
            self._families[spec.name] = self._make(spec)

    def _make(self, spec: Spec) -> Counter | Gauge | Histogram:
        labels = [
            name
            for label in spec.labels
            for name in (self._label_names.values() if label == LABELS else (label,))
        ]
        if spec.type == "counter":
            return Counter(spec.name, spec.help, labels, registry=self.registry)
        if spec.type == "gauge":
            return Gauge(spec.name, spec.help, labels, registry=self.registry)
        return Histogram(spec.name, spec.help, labels, registry=self.registry, buckets=spec.buckets)

    def _child(self, name: str, *values: str) -> Any:
        key = (name, *values)
        child = self._children.get(key)
        if child is None:
            family = self._families[name]
            child = self._children[key] = family.labels(*values) if values else family
        return child

    # Events

    def count_event(
        self,
        outcome: Literal["sampled", "skipped", "undecodable", "unroutable"],
        reason: str = "",
        *,
        count: int = 1,
    ) -> None:
        """One event was read (or so many), and this became of it."""
        self._events.counts[outcome, reason] += count

    def watch_skips(self, source: Callable[[], Mapping[str, int]]) -> None:
        """Add the skips that a predicate counts, by reason, to `judgestream_events_total`."""
        self._events.skips.append(source)

    def event_counts(self) -> Mapping[tuple[str, str], int]:
        """Events by (outcome, reason)."""
        return self._events.total()

    # Traces

    def watch_traces(self, open_traces: Callable[[], int], late_records: Callable[[], int]) -> None:
        """Expose how the joining of traces stands.

        Args:
            open_traces: Gives the traces whose spans are being gathered.
            late_records: Gives the records that came after the close of their trace.
        """
        self._child("judgestream_traces_open").set_function(open_traces)
        self._child("judgestream_traces_late_records").set_function(late_records)

    def count_closed_trace(self, reason: str) -> None:
        """One trace was closed."""
        self._child("judgestream_traces_closed_total", reason).inc()

    def count_silent_trace(self, instrumentation: str) -> None:
        """One trace had models whose words were not recorded."""
        self._child("judgestream_traces_without_content_total", instrumentation).inc()

    def count_sink(self, sink: str, outcome: str, count: int) -> None:
        """So many verdicts were handed to a sink, and this became of them."""
        if count:
            self._child("judgestream_sink_verdicts_total", sink, outcome).inc(count)

    def count_dead_letter(self, reason: str) -> None:
        """One record was set aside."""
        self._child("judgestream_dead_letters_total", reason).inc()

    def count_skipped_letter(self, reason: str) -> None:
        """One record was skipped, because no form of its dead letter fits."""
        self._child("judgestream_dead_letters_skipped_total", reason).inc()

    def count_repeated(self, metric: str) -> None:
        """One result was written again; whoever reads results drops it by its id, and here it counts nowhere else."""
        self._child("judgestream_results_repeated_total", metric).inc()

    def set_removed_tasks(self, tasks: Mapping[str, int]) -> None:
        """Say how many tasks wait of each metric that is not in the settings any more; of all others there are none."""
        known = {key[1] for key in self._children if key[0] == "judgestream_removed_metric_tasks"}
        for metric in known | tasks.keys():
            self._child("judgestream_removed_metric_tasks", metric).set(tasks.get(metric, 0))

    def count_move(self, topic: str, why: str, lost: int) -> None:
        """One partition went on elsewhere; so many offsets in between nobody has read."""
        self._child("judgestream_offset_moves_total", topic, why).inc()
        self._child("judgestream_lost_records_total", topic).inc(lost)

    def watch_partitions(
        self, partitions: Callable[[], Iterable[PartitionState]], now: Callable[[], float]
    ) -> None:
        """Expose lag and age of the assigned partitions.

        Args:
            partitions: Gives them as they stand.
            now: Seconds since the epoch.
        """
        self.registry.register(_PartitionsCollector(partitions, now))

    def watch_monitor(self, gauges: Callable[[], Iterable[MonitorGauge]]) -> None:
        """Expose where the monitor's series stand, as they are when they are asked for."""
        self.registry.register(_MonitorCollector(gauges))

    def set_range(self, metric: str, lowest: float, highest: float) -> None:
        """Say which scale a metric has."""
        self._child("judgestream_score_range", metric, "lowest").set(lowest)
        self._child("judgestream_score_range", metric, "highest").set(highest)

    # Judging

    def observe_call(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """One call to a judge ended."""
        self._child("judgestream_judge_call_seconds", endpoint, _harmless(model), outcome).observe(seconds)

    def set_in_flight(self, endpoint: str, calls: int) -> None:
        """So many calls to an endpoint are under way."""
        self._child("judgestream_judge_in_flight", endpoint).set(calls)

    def set_breaker(self, endpoint: str, *, is_open: bool) -> None:
        """An endpoint is taken for down, or not any more."""
        self._child("judgestream_judge_breaker_open", endpoint).set(1 if is_open else 0)

    def watch_budget(self, spent_ratio: Callable[[Period], float]) -> None:
        """Expose how much of the budget is spent.

        Args:
            spent_ratio: Gives the share for a period as it stands.
        """
        for period in PERIODS:
            self._child("judgestream_judge_budget_spent_ratio", period).set_function(
                partial(spent_ratio, period)
            )

    def observe_result(self, result: Scored | Unscored | Failed) -> None:
        """One result was written."""
        metric = result.metric
        values = self._labels.values(result.labels)
        reason = (
            result.reason
            if isinstance(result, Unscored)
            else result.error_type
            if isinstance(result, Failed)
            else ""
        )
        self._child("judgestream_results_total", metric, result.status, reason, *values).inc()
        # An example to follow from a graph to its trace; the text format leaves it out.
        trace_id = result.trace_id
        example = {"trace_id": trace_id} if trace_id is not None and _TRACE_ID.fullmatch(trace_id) else None
        waited = (result.times.judged_at - result.times.occurred_at).total_seconds()
        self._child("judgestream_event_to_result_seconds", metric).observe(max(waited, 0.0), example)
        self._child(
            "judgestream_evaluator_info",
            metric,
            result.evaluator.fingerprint,
            _harmless(result.evaluator.model),
        ).set(1)
        if not isinstance(result, Failed):
            for correction in result.corrections:
                self._child("judgestream_verdict_corrections_total", metric, correction.kind).inc()
            for kind in {suspicion.kind for suspicion in result.suspicions}:
                self._child("judgestream_verdict_suspicions_total", metric, kind).inc()
        if isinstance(result, Scored):
            self._child("judgestream_scores_total", metric, str(result.score), *values).inc(1, example)
            by = (metric, result.evaluator.fingerprint)
            self._add_sums(by, values, 1 / result.sampling.probability, float(result.score))

    def _add_sums(self, by: tuple[str, str], values: tuple[str, ...], weight: float, score: float) -> None:
        amounts = {
            "weight": weight,
            "weighted": weight * score,
            "weighted_square": weight * score**2,
            "weight_square": weight**2,
            "weight_square_score": weight**2 * score,
            "weight_square_score_square": (weight * score) ** 2,
        }
        for name, amount in amounts.items():
            self._child(f"judgestream_score_{name}_total", *by, *values).inc(amount)

    def observe_usage(self, endpoint: str, model: str, usage: Usage, cost_usd: float | None) -> None:
        """A call has used tokens.

        Args:
            endpoint: Whom it asked.
            model: The model that was asked; what answers names itself as it likes, without a bound.
            usage: As the endpoint counts.
            cost_usd: What they cost; None where the price is not known.
        """
        place = (endpoint, model)
        for kind, tokens in (
            ("input", usage.input_tokens),
            ("cached", usage.cached_tokens),
            ("output", usage.output_tokens),
        ):
            self._child("judgestream_judge_tokens_total", *place, kind).inc(tokens)
        if cost_usd is not None:
            self._child("judgestream_judge_cost_usd_total", *place).inc(cost_usd)
