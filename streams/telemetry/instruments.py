"""The instruments of a worker: the only writer of the catalogue's metrics."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from schemas import Failed, Scored, Unscored, Usage
from streams.settings.outputs import ObjectiveSettings
from streams.telemetry.catalogue import CATALOGUE, LABELS, SUMS, Spec
from streams.telemetry.exposition import AtScrape, SeriesGauge
from streams.telemetry.labels import BoundedLabels, harmless, label_names

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_READ: Final = ("monitor", "people", "release", "events", "consumer", "oldest")
_AT_SCRAPE: Final = tuple(f"judgestream_{name}_" for name in _READ)
"""Beginnings of the names of what is read at each scrape."""


class Metrics:
    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        labels: Sequence[str] = (),
        max_label_values: int = 20,
        objectives: Mapping[str, ObjectiveSettings] | None = None,
    ) -> None:
        self.registry = registry
        self._label_names = label_names(labels)
        self._labels = BoundedLabels(tuple(self._label_names), max_label_values, forget=self._forget)
        self._ranges: dict[str, tuple[float, float]] = {}
        self._events: Tally[tuple[str, str]] = Tally()  # in plain integers, so that a skip costs one addition
        self.skips: Mapping[Any, int] = {}
        """Events skipped before they are records, by reason, as their owner counts them."""
        self.watch_series(
            "judgestream",
            lambda: (SeriesGauge("events_total", *one) for one in sorted(self.event_counts().items())),
        )
        self._families: dict[str, Any] = {}
        self._children: dict[tuple[str, ...], Any] = {}
        for spec in CATALOGUE:
            if not spec.name.startswith(_AT_SCRAPE):
                self._families[spec.name] = self._make(spec)
        self._objectives = objectives or {}
        for metric, objective in self._objectives.items():
            self._child("judgestream_objective_share", metric).set(objective.share)

    def _make(self, spec: Spec) -> Counter | Gauge | Histogram:
        own = self._label_names.values()
        labels = [name for label in spec.labels for name in (own if label == LABELS else (label,))]
        if spec.type == "histogram":
            return Histogram(spec.name, spec.help, labels, registry=self.registry, buckets=spec.buckets)
        made = Counter if spec.type == "counter" else Gauge
        return made(spec.name, spec.help, labels, registry=self.registry)

    def _child(self, name: str, *values: str) -> Any:
        key = (name, *values)
        child = self._children.get(key)
        if child is None:
            family = self._families[name]
            child = self._children[key] = family.labels(*values) if values else family
        return child

    def _forget(self, place: int, value: str) -> None:
        """Remove the series of an event label's value, which gave way to another."""
        labelled = {spec.name for spec in CATALOGUE if LABELS in spec.labels}
        for key in [key for key in self._children if key[0] in labelled]:
            if key[len(key) - len(self._label_names) + place] == value:
                del self._children[key]
                self._families[key[0]].remove(*key[1:])

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        self._child(name, *labels).inc(by)

    def set(self, name: str, *labels: str, to: float | Callable[[], float]) -> None:
        """Set a gauge of the catalogue, or let a function be asked for it at each scrape."""
        gauge = self._child(name, *labels)
        gauge.set_function(to) if callable(to) else gauge.set(to)

    def count_event(
        self,
        outcome: Literal["sampled", "skipped", "undecodable", "unroutable"],
        reason: str = "",
        *,
        count: int = 1,
    ) -> None:
        self._events[outcome, reason] += count

    def event_counts(self) -> Mapping[tuple[str, str], int]:
        counts = Tally(self._events)
        for reason, skipped in self.skips.items():
            counts["skipped", reason] += skipped
        return counts

    def watch_series(self, prefix: str, gauges: Callable[[], Iterable[SeriesGauge]]) -> None:
        self.registry.register(AtScrape(prefix, gauges))

    def set_range(self, metric: str, lowest: float, highest: float) -> None:
        self._ranges[metric] = (lowest, highest)
        self._child("judgestream_score_range", metric, "lowest").set(lowest)
        self._child("judgestream_score_range", metric, "highest").set(highest)

    def observe_call(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        self._child("judgestream_judge_call_seconds", endpoint, harmless(model), outcome).observe(seconds)

    def observe_result(self, result: Scored | Unscored | Failed) -> None:
        metric = result.metric
        values = self._labels.values(result.labels)
        reason: str = result.reason if isinstance(result, Unscored) else ""
        reason = result.error_type if isinstance(result, Failed) else reason
        self._child("judgestream_results_total", metric, result.status, reason, *values).inc()
        if result.cost_usd is not None:
            self._child("judgestream_result_cost_usd_total", metric, *values).inc(result.cost_usd)
        # An exemplar links a graph to a trace; the text format omits it.
        trace_id = result.trace_id
        example = {"trace_id": trace_id} if trace_id is not None and _TRACE_ID.fullmatch(trace_id) else None
        waited = (result.times.judged_at - result.times.occurred_at).total_seconds()
        self._child("judgestream_event_to_result_seconds", metric).observe(max(waited, 0.0), example)
        by, model = (metric, result.evaluator.fingerprint), harmless(result.evaluator.model)
        self._child("judgestream_evaluator_info", *by, model).set(1)
        if result.agreement is not None:
            self._child("judgestream_panel_disagreement_ratio", metric).observe(1 - result.agreement)
        if not isinstance(result, Failed):
            for correction in result.corrections:
                self._child("judgestream_verdict_corrections_total", metric, correction.kind).inc()
            for kind in {suspicion.kind for suspicion in result.suspicions}:
                self._child("judgestream_verdict_suspicions_total", metric, kind).inc()
        if isinstance(result, Scored):
            self._child("judgestream_scores_total", metric, self._step(result), *values).inc(1, example)
            weight = 1 / result.sampling.probability
            self._add_sums(by, values, weight, result.amount)
            objective = self._objectives.get(metric)
            if objective is not None:
                self._add_met(by, weight, met=result.amount >= objective.at_least)

    def _step(self, result: Scored) -> str:
        """Return the score as a label; for a number, its tenth of the scale, to bound the series."""
        if result.kind != "number":
            return result.shown
        lowest, highest = self._ranges.get(result.metric, (0.0, 0.0))
        if lowest == highest:
            return str(result.score)
        tenths = (result.amount - lowest) / (highest - lowest) * 10
        return f"{lowest + (highest - lowest) * min(max(int(tenths), 0), 9) / 10:g}"

    def _add_sums(self, by: tuple[str, str], values: tuple[str, ...], weight: float, score: float) -> None:
        wx, ww = weight * score, weight**2
        for name, amount in zip(SUMS, (weight, wx, weight * score**2, ww, ww * score, wx**2), strict=True):
            self._child(f"judgestream_score_{name}_total", *by, *values).inc(amount)

    def _add_met(self, by: tuple[str, str], weight: float, *, met: bool) -> None:
        # Create both series together, so that the first miss is an increase.
        for name, counts in (("yes", met), ("no", not met)):
            self._child("judgestream_objective_weight_total", *by, name).inc(weight * counts)
            self._child("judgestream_objective_results_total", *by, name).inc(counts)

    def observe_usage(self, endpoint: str, model: str, usage: Usage, cost_usd: float | None) -> None:
        """Count the tokens and cost of a call, by the requested model: names in replies are unbounded."""
        place = (endpoint, model)
        for kind in ("input", "cached", "output"):
            tokens = getattr(usage, f"{kind}_tokens")
            self._child("judgestream_judge_tokens_total", *place, kind).inc(tokens)
        if cost_usd is not None:
            self._child("judgestream_judge_cost_usd_total", *place).inc(cost_usd)
