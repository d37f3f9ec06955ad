"""The states of the monitor's series as Prometheus gauges. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from streams.monitoring.monitor import SILENT_SECONDS
from streams.monitoring.snapshot import STATE_PROBLEMS, MonitorSnapshot
from streams.telemetry.collectors import MonitorGauge


def gauges_of(snapshot: MonitorSnapshot) -> Iterator[MonitorGauge]:
    """Return all gauges, except of series without a result for a day, which would stay dropped."""
    for series in snapshot.series:
        if (snapshot.taken_at - series.heard_at).total_seconds() > SILENT_SECONDS:
            continue
        slice_ = ",".join(f"{name}={value}" for name, value in series.labels) or "all"
        where = (series.metric, series.fingerprint, slice_)
        for measure in series.measures:
            for name, value in measure.numbers.items():
                if value is not None:
                    yield MonitorGauge(name, (*where, measure.name), value)
        if series.window is not None:
            yield MonitorGauge("window_mean", where, series.window.mean)
            yield MonitorGauge("window_low", where, series.window.low)
            yield MonitorGauge("window_high", where, series.window.high)
        yield MonitorGauge("missing_strata", where, float(len(series.missing_strata)))
    for problem in STATE_PROBLEMS:
        yield MonitorGauge("state_problems", (problem,), float(snapshot.state_problems.get(problem, 0)))
