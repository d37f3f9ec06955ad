"""Collectors that read values at each scrape: events, partitions and the monitor's series."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily

from streams.telemetry.catalogue import CATALOGUE
from streams.telemetry.labels import harmless
from streams.telemetry.partitions import PartitionState

_SPECS: Final = {spec.name: spec for spec in CATALOGUE}


class EventsCollector:
    """Counts events in plain integers, so that counting a skip costs one addition."""

    def __init__(self) -> None:
        self.counts: Tally[tuple[str, str]] = Tally()
        self.skips: list[Callable[[], Mapping[str, int]]] = []

    def total(self) -> Tally[tuple[str, str]]:
        """Return the events by (outcome, reason)."""
        counts = Tally(self.counts)
        for source in self.skips:
            for reason, count in source().items():
                counts["skipped", reason] += count
        return counts

    def describe(self) -> Iterable[MetricFamily]:
        """Return nothing, so that registering does not collect."""
        return ()

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the current values."""
        spec = _SPECS["judgestream_events_total"]
        family = CounterMetricFamily(spec.name, spec.help, labels=spec.labels)
        for labels, count in sorted(self.total().items()):
            family.add_metric(labels, count)
        yield family


class PartitionsCollector:
    """Reads lag and age at each scrape."""

    def __init__(self, partitions: Callable[[], Iterable[PartitionState]], now: Callable[[], float]) -> None:
        self._partitions = partitions
        self._now = now

    def describe(self) -> Iterable[MetricFamily]:
        """Return nothing, so that registering does not collect."""
        return ()

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the current values."""
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
    """One value of the monitor.

    Args:
        name: A name of `MONITOR_GAUGES`, or "missing_strata".
        labels: The values of its labels, in order.
    """

    name: str
    labels: tuple[str, ...]
    value: float


class MonitorCollector:
    """Reads the monitor at each scrape."""

    def __init__(self, gauges: Callable[[], Iterable[MonitorGauge]]) -> None:
        self._gauges = gauges

    def describe(self) -> Iterable[MetricFamily]:
        """Return nothing, so that registering does not collect."""
        return ()

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the current values."""
        families: dict[str, GaugeMetricFamily] = {}
        for gauge in self._gauges():
            spec = _SPECS[f"judgestream_monitor_{gauge.name}"]
            family = families.get(spec.name)
            if family is None:
                family = families[spec.name] = GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)
            family.add_metric([harmless(value) for value in gauge.labels], gauge.value)
        yield from families.values()
