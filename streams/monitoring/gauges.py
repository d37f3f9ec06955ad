"""Where the monitor's series stand, as numbers for Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams.monitoring.monitor import SILENT_SECONDS
from streams.monitoring.snapshot import MonitorSnapshot
from streams.telemetry.collectors import MonitorGauge

_STATES: Final = {"learning": 0.0, "watching": 1.0, "dropped": 2.0}


def gauges_of(snapshot: MonitorSnapshot) -> Iterator[MonitorGauge]:
    """Give every number of every measure.

    Of a series that was silent for a day none, so that nothing stays dropped.
    """
    for series in snapshot.series:
        if (snapshot.taken_at - series.heard_at).total_seconds() > SILENT_SECONDS:
            continue
        slice_ = ",".join(f"{name}={value}" for name, value in series.labels) or "all"
        where = (series.metric, series.fingerprint, slice_)
        for measure in series.measures:
            labels = (*where, measure.name)
            yield MonitorGauge("state", labels, _STATES[measure.state])
            yield MonitorGauge("evidence", labels, measure.statistic)
            yield MonitorGauge("threshold", labels, measure.threshold)
            if measure.baseline is not None:
                yield MonitorGauge("baseline", labels, measure.baseline.mean)
            if measure.tolerated is not None:
                yield MonitorGauge("tolerated", labels, measure.tolerated)
        yield MonitorGauge("missing_strata", where, float(len(series.missing_strata)))
