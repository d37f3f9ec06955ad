"""What is read at each scrape, and the response of /metrics in Prometheus' text format or in OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.samples import Sample

from streams.telemetry.catalogue import CATALOGUE
from streams.telemetry.labels import harmless

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_COUNTED: Final = {"counter", "histogram"}
_SPECS: Final = {spec.name: spec for spec in CATALOGUE}


@dataclass(frozen=True, slots=True)
class PartitionState:
    topic: str
    partition: int
    lag_records: int | None
    """Records between the committable offset and the end; None before the first fetch."""
    oldest_timestamp: float | None
    """Timestamp of the first unfinished record, in seconds since the epoch."""
    unfinished: int
    finished: int
    """Offsets before the next one to read, less those in flight."""

    def beyond(self, patience_seconds: float, now: float) -> PartitionState:
        """Count what waits this long by design neither as old nor, as long as it does, as lag."""
        if not patience_seconds or self.oldest_timestamp is None:
            return self
        due = self.oldest_timestamp + patience_seconds
        return replace(self, oldest_timestamp=due, lag_records=self.lag_records if due < now else None)


class SeriesGauge(NamedTuple):
    """One value that is read at a scrape, by its name and the values of its labels."""

    name: str
    labels: tuple[str, ...]
    value: float


def partition_values(states: Iterable[PartitionState], now: float) -> Iterator[SeriesGauge]:
    for state in states:
        labels, oldest = (state.topic, str(state.partition)), state.oldest_timestamp
        if state.lag_records is not None:
            yield SeriesGauge("consumer_lag_records", labels, state.lag_records)
        yield SeriesGauge("consumer_finished_records", labels, state.finished)
        age = 0.0 if oldest is None else max(now - oldest, 0.0)
        yield SeriesGauge("oldest_unfinished_seconds", labels, age)


class AtScrape:
    """A collector of values that are read at each scrape."""

    def __init__(self, prefix: str, values: Callable[[], Iterable[SeriesGauge]]) -> None:
        self._prefix, self._values = prefix, values

    def collect(self) -> Iterable[MetricFamily]:
        found: dict[str, Any] = {}
        for name, labels, value in self._values():
            if name not in found:
                spec = _SPECS[f"{self._prefix}_{name}"]
                made = CounterMetricFamily if spec.type == "counter" else GaugeMetricFamily
                found[name] = made(spec.name, spec.help, labels=spec.labels)
            found[name].add_metric([harmless(one) for one in labels], value)
        return found.values()


def content_type(accept: str) -> str:
    offers = (part.partition(";")[0].strip() for part in accept.split(","))
    return OPENMETRICS if "application/openmetrics-text" in offers else TEXT


def expose(registry: CollectorRegistry, kind: str, shown: set[tuple[object, ...]] | None = None) -> bytes:
    """Write all metrics down, without `_created` series, which Prometheus does not use.

    Its `increase` does not see a new counter's first value, which for rare label values loses up to half. So
    a series that is not in `shown`, which is updated, is 0 in its first scrape; None: all are as they are.
    """
    generate = generate_openmetrics if kind == OPENMETRICS else generate_latest
    families: Any = SimpleNamespace(collect=lambda: _exposed(registry, shown))
    return bytes(generate(families, escaping="allow-utf-8"))  # legal names need no escaping


def _exposed(registry: CollectorRegistry, shown: set[tuple[object, ...]] | None) -> Iterator[MetricFamily]:
    for family in registry.collect():
        copy = MetricFamily(family.name, family.documentation, family.type, family.unit)
        created = f"{family.name}_created"
        copy.samples = [sample for sample in family.samples if sample.name != created]
        if family.type in _COUNTED and shown is not None:
            keys = [(sample.name, *sample.labels.values()) for sample in copy.samples]
            copy.samples = [
                sample if key in shown else Sample(sample.name, sample.labels, 0.0)
                for key, sample in zip(keys, copy.samples, strict=True)
            ]
            shown.update(keys)
        yield copy
