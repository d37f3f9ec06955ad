"""What is read at each scrape, and the response of /metrics in Prometheus' text format or in OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

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
    """The state of an assigned partition."""

    topic: str
    partition: int
    lag_records: int | None
    """Records between the committable offset and the end; None before the first fetch."""
    oldest_timestamp: float | None
    """Timestamp of the first unfinished record, in seconds since the epoch."""
    unfinished: int


class MonitorGauge(NamedTuple):
    """One value of the monitor, by its name after `judgestream_monitor_` and the values of its labels."""

    name: str
    labels: tuple[str, ...]
    value: float


class AtScrape:
    """A collector whose families are read at each scrape."""

    def __init__(self, read: Callable[[], Iterator[MetricFamily]]) -> None:
        self.collect = read

    def describe(self) -> Iterable[MetricFamily]:
        """Return nothing, so that registering does not collect."""
        return ()


def event_families(counts: Mapping[tuple[str, str], int]) -> Iterator[MetricFamily]:
    """Yield the events by (outcome, reason)."""
    spec = _SPECS["judgestream_events_total"]
    family = CounterMetricFamily(spec.name, spec.help, labels=spec.labels)
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    yield family


def partition_families(states: Iterable[PartitionState], now: float) -> Iterator[MetricFamily]:
    """Yield lag and age of partitions."""
    lag, age = _gauge("judgestream_consumer_lag_records"), _gauge("judgestream_oldest_unfinished_seconds")
    for state in states:
        labels = (state.topic, str(state.partition))
        if state.lag_records is not None:
            lag.add_metric(labels, state.lag_records)
        oldest = state.oldest_timestamp
        age.add_metric(labels, 0.0 if oldest is None else max(now - oldest, 0.0))
    yield lag
    yield age


def monitor_families(gauges: Iterable[MonitorGauge]) -> Iterator[MetricFamily]:
    """Yield the monitor's gauges."""
    families: dict[str, GaugeMetricFamily] = {}
    for gauge in gauges:
        if gauge.name not in families:
            families[gauge.name] = _gauge(f"judgestream_monitor_{gauge.name}")
        families[gauge.name].add_metric([harmless(value) for value in gauge.labels], gauge.value)
    yield from families.values()


def _gauge(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, _SPECS[name].help, labels=_SPECS[name].labels)


def content_type(accept: str) -> str:
    """Return the response format for a header Accept: OpenMetrics if the client accepts it, else text."""
    offers = (part.partition(";")[0].strip() for part in accept.split(","))
    return OPENMETRICS if "application/openmetrics-text" in offers else TEXT


def expose(registry: CollectorRegistry, kind: str, shown: set[tuple[object, ...]] | None = None) -> bytes:
    """Write all metrics down, without `_created` series, which Prometheus does not use.

    Prometheus' `increase` does not see a new counter's first value, which for rare label values loses up to
    half. So a new series is exposed as 0 in its first scrape.

    Args:
        kind: `TEXT` or `OPENMETRICS`; only the latter has exemplars.
        shown: The series of counters and histograms exposed before, which is updated; None exposes all values
            as they are.
    """
    generate = generate_openmetrics if kind == OPENMETRICS else generate_latest
    return bytes(generate(_Shown(registry, shown), escaping="allow-utf-8"))  # legal names need no escaping


class _Shown:
    """The families of a registry as `expose` shows them."""

    def __init__(self, registry: CollectorRegistry, shown: set[tuple[object, ...]] | None) -> None:
        self._registry = registry
        self._shown = shown

    def collect(self) -> Iterator[MetricFamily]:
        for family in self._registry.collect():
            copy = MetricFamily(family.name, family.documentation, family.type, family.unit)
            created = f"{family.name}_created"
            copy.samples = [sample for sample in family.samples if sample.name != created]
            if family.type in _COUNTED and self._shown is not None:
                copy.samples = [self._at_first(sample) for sample in copy.samples]
            yield copy

    def _at_first(self, sample: Sample) -> Sample:
        key = (sample.name, *sample.labels.values())
        if self._shown is None or key in self._shown:
            return sample
        self._shown.add(key)
        return Sample(sample.name, sample.labels, 0.0)
