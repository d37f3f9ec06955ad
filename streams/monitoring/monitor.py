"""The monitor: results in, alerts and series states out. Pure: time is an argument."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from judge.text.printable import reason_of
from schemas import Alert, Failed, Scored, Unscored
from streams.monitoring.alerts import SeriesKey, build_alert
from streams.monitoring.config import MonitorConfig
from streams.monitoring.series import Series
from streams.monitoring.snapshot import (
    SILENT_SECONDS,
    IgnoredReason,
    Labels,
    LastVerdict,
    MonitorSnapshot,
    SeriesSnapshot,
)
from streams.monitoring.watch import Change, Sample

RECENT_RESULT_IDS: Final = 50_000
"""Number of result ids remembered to ignore redelivered results."""
LAST_VERDICTS: Final = 50
LAST_ALERTS: Final = 20
"""Number of verdicts and alerts kept for the live view."""


@dataclass(slots=True)
class _Entry:
    """A series with its counts."""

    series: Series
    model: str
    heard_at: datetime
    statuses: Counter[str] = field(default_factory=Counter)


class Monitor:
    """Monitors the scores of every metric, for the whole traffic and for the values of some labels.

    A monitor reads one stream of results, in any order, and counts each one once.
    """

    def __init__(self, config: MonitorConfig | None = None) -> None:
        self._config = config or MonitorConfig()
        self._ranges = self._config.score_ranges
        self._entries: dict[SeriesKey, _Entry] = {}
        self._taken: OrderedDict[str, None] = OrderedDict()
        self._last: deque[LastVerdict] = deque(maxlen=LAST_VERDICTS)
        self._alerts: deque[Alert] = deque(maxlen=LAST_ALERTS)
        self._ignored: Counter[IgnoredReason] = Counter()
        self.changed: set[SeriesKey] = set()
        """Series whose state has changed since the caller cleared this."""

    def observe(self, result: Scored | Unscored | Failed, now: datetime) -> list[Alert]:
        """Add one result; return the alerts it triggered, at most one per measure of a series.

        Irrelevant results are ignored and counted by reason.
        """
        if now.tzinfo is None:
            raise ValueError(f"now must have a UTC offset, got {now}; use datetime.now(UTC)")
        reason = self._reason_to_ignore(result)
        if reason is not None:
            self._ignored[reason] += 1
            return []
        self._last.appendleft(_last_verdict(result))
        alerts = []
        for labels in self._parts(result.labels):
            key = SeriesKey(result.metric, result.evaluator.fingerprint, labels)
            entry = self._entry(key, result.evaluator.model, now)
            if entry is None:
                self._ignored["series_limit"] += 1
                continue
            entry.statuses[result.status] += 1
            self.changed.add(key)
            if isinstance(result, Scored):
                changes = entry.series.add(self._sample(result, labels, now), now, held=self._dropped(key))
                if not labels:
                    self._start_parts_over(key, changes)
                url = self._config.explorer_url
                alerts += [build_alert(one, key, result, now, explorer_url=url) for one in changes]
        self._alerts.extendleft(alerts)
        return alerts

    def _dropped(self, key: SeriesKey) -> Collection[str]:
        """Return the measures in which the whole traffic of a part has dropped."""
        whole = self._entries.get(replace(key, labels=())) if key.labels else None
        watches = () if whole is None else whole.series.watches
        return [watch.measure.name for watch in watches if watch.state == "dropped"]

    def _start_parts_over(self, whole: SeriesKey, changes: Iterable[Change]) -> None:
        """Let parts that had not learned before a drop of the whole learn after it."""
        drops = [change for change in changes if change.kind == "drop" and not change.further]
        for key, entry in self._entries.items() if drops else ():
            if key.labels and replace(key, labels=()) == whole:
                for change in drops:
                    entry.series.start_over(change.measure.name, change.began_at)
                self.changed.add(key)

    def dump(self, key: SeriesKey) -> dict[str, Any] | None:
        """Return the state of a series as JSON values; None if it was removed."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        return {
            "model": entry.model,
            "heard_at": entry.heard_at.isoformat(),
            "statuses": dict(entry.statuses),
            "series": entry.series.dump(),
        }

    def load(self, key: SeriesKey, state: Mapping[str, Any]) -> None:
        """Restore the state of a series that `dump` returned, unless its metric was removed."""
        if key.metric in self._ranges:
            entry = self._new_entry(key, state["model"], datetime.fromisoformat(state["heard_at"]))
            entry.statuses.update(state["statuses"])
            entry.series.load(state["series"])

    def snapshot(self, now: datetime) -> MonitorSnapshot:
        """Return the states of all series."""
        ordered = sorted(
            self._entries.items(), key=lambda item: (item[0].metric, item[0].fingerprint, item[0].labels)
        )
        return MonitorSnapshot(
            taken_at=now,
            series=tuple(_series_snapshot(key, entry, now) for key, entry in ordered),
            last_verdicts=tuple(self._last),
            last_alerts=tuple(self._alerts),
            ignored=MappingProxyType(dict(self._ignored)),
        )

    def _reason_to_ignore(self, result: Scored | Unscored | Failed) -> IgnoredReason | None:
        if result.replay_id is not None:
            return "replay"
        scale = self._ranges.get(result.metric)
        if scale is None:
            return "unknown_metric"
        if isinstance(result, Scored) and not scale[0] <= result.amount <= scale[1]:
            return "out_of_range"
        return None if self.remember(result.result_id) else "duplicate"

    def remember(self, result_id: str) -> bool:
        """Remember a result's id, so that it is not counted again; return whether it is new."""
        is_new = result_id not in self._taken
        self._taken[result_id] = None
        self._taken.move_to_end(result_id)
        if len(self._taken) > RECENT_RESULT_IDS:
            self._taken.popitem(last=False)
        return is_new

    def _parts(self, labels: Mapping[str, str]) -> Iterator[Labels]:
        yield ()
        for name in self._config.labels:
            if name in labels:
                yield ((name, labels[name]),)

    def _entry(self, key: SeriesKey, model: str, now: datetime) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None:
            entry.heard_at = max(entry.heard_at, now)
            return entry
        if len(self._entries) >= self._config.max_series and not self._make_room(key, now):
            return None
        return self._new_entry(key, model, now)

    def _new_entry(self, key: SeriesKey, model: str, now: datetime) -> _Entry:
        rules = self._config.rules(key.metric, fixed_labels=len(key.labels))
        entry = self._entries[key] = _Entry(Series(rules), model, now)
        return entry

    def _make_room(self, key: SeriesKey, now: datetime) -> bool:
        """Remove the series longest without a result, if that is long or the new one is all traffic."""
        silent = min(self._entries, key=lambda key: (self._entries[key].heard_at, -len(key.labels)))
        if key.labels and (now - self._entries[silent].heard_at).total_seconds() < SILENT_SECONDS:
            return False
        del self._entries[silent]
        self.changed.add(silent)
        return True

    def _sample(self, result: Scored, labels: Labels, now: datetime) -> Sample:
        """Return a result's sample for a series.

        The part of the traffic is given by the labels besides the series' own.
        """
        own = {name for name, _ in labels}
        part = [f"{name}={result.labels.get(name, '')}" for name in self._config.labels if name not in own]
        return Sample(
            event_id=result.event_id,
            score=result.amount,
            probability=result.sampling.probability,
            occurred_at=min(result.times.occurred_at, now),
            policy=result.sampling.policy,
            stratum=result.sampling.stratum,
            part="\n".join(part),
            cluster=result.sampling.cluster,
        )


def _series_snapshot(key: SeriesKey, entry: _Entry, now: datetime) -> SeriesSnapshot:
    series = entry.series
    expected, a_day = series.mean.expected_answers, series.answers_a_day
    return SeriesSnapshot(
        metric=key.metric,
        fingerprint=key.fingerprint,
        model=entry.model,
        labels=key.labels,
        scored=entry.statuses["scored"],
        unscored=entry.statuses["unscored"],
        failed=entry.statuses["failed"],
        window=series.window(now),
        recent=series.recent,
        measures=tuple(series.watches),
        heard_at=entry.heard_at,
        expected_answers=expected,
        expected_days=None if expected is None or a_day is None else expected / a_day,
        missing_strata=series.missing_strata(now),
    )


def _last_verdict(result: Scored | Unscored | Failed) -> LastVerdict:
    return LastVerdict(
        result_id=result.result_id,
        event_id=result.event_id,
        metric=result.metric,
        status=result.status,
        score=result.amount if isinstance(result, Scored) else None,
        reason=reason_of(result),
        labels=result.labels,
        judged_at=result.times.judged_at,
    )
