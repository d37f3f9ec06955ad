"""The monitor: results in, alerts and series states out. Pure: time is an argument."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal, get_args

from judge.text.printable import printable
from schemas import ANCHOR, Alert, JudgeTask, Result, Scored, is_rejudged
from streams.monitoring.anchors import AnchorWatch, Enrolment, anchor_id
from streams.monitoring.config import MEAN, MIX, MonitorConfig, SeriesRules
from streams.monitoring.series import Labels, Series, SeriesKey
from streams.monitoring.two_phase import is_first, views
from streams.monitoring.watch import Change, Sample
from streams.telemetry.exposition import SeriesGauge

StateProblem = Literal[
    "ahead",  # the saved state was ahead of the observations, which were recreated or restored
    "incomplete",  # a saved record was lost or damaged; its partition learned again
    "too_large",  # a series' record is too large to save; it learns again after a restart
]
SILENT_SECONDS: Final = 86_400
"""A series without a result for this long is not exported, and may be replaced by a new one."""
RECENT_RESULT_IDS: Final = 50_000


class Monitor:
    """Monitors every metric's scores, of all traffic and of label values, from one stream of results."""

    def __init__(
        self, config: MonitorConfig | None = None, enrolments: Mapping[str, Enrolment] = MappingProxyType({})
    ) -> None:
        self._config = config or MonitorConfig()
        self._enrolments = enrolments
        self.series: dict[SeriesKey, Series] = {}
        self._taken: OrderedDict[str, None] = OrderedDict()
        self.last_results: deque[Result] = deque(maxlen=50)
        self.last_alerts: deque[Alert] = deque(maxlen=20)
        self.changed: set[SeriesKey] = set()
        """Series whose state has changed since the caller cleared this."""
        self.due: list[tuple[JudgeTask, str]] = []
        """Anchors to judge again, with their replay ids, since the caller cleared this."""
        self.shifts: list[str] = []
        """What has become of the judges, on their anchors, since the caller cleared this."""

    def observe(self, result: Result, now: datetime) -> list[Alert]:
        """Add a result, unless replayed or known; return its alerts, at most one per measure of a series."""
        if now.tzinfo is None:
            raise ValueError(f"now must have a UTC offset, got {now}; use datetime.now(UTC)")
        if is_rejudged(result.replay_id):
            return self._judged_again(result, now)
        if not self._counts(result):
            return []
        self.last_results.append(result)
        alerts: list[Alert] = []
        of_first: list[Alert] = []
        for view in views(result):
            (of_first if is_first(view) else alerts).extend(self._add(view, now))
        self._add_pair(result, now)
        whole = None if is_first(result) else self._whole(result)
        if whole is not None and isinstance(result, Scored):
            most = self._config.rejudge_per_day
            alerts = whole.explain(alerts, result, self._sample(result, (), now), now, most=most)
        return self._said([*alerts, *of_first])

    def _add(self, result: Result, now: datetime) -> list[Alert]:
        alerts = []
        for labels in self._parts(result.labels):
            key = SeriesKey(result.metric, result.evaluator.fingerprint, labels)
            series = self._series_of(key, now)
            if series is None:
                continue
            series.model = result.evaluator.model
            series.heard_at = max(series.heard_at, now)
            series.statuses[result.status] += 1
            self.changed.add(key)
            if not labels and not is_first(result):  # what is judged again is the strong judge's
                self._give_turn(series)
            if isinstance(result, Scored):
                changes = series.add(self._sample(result, labels, now), now, held=self._dropped(key))
                if not labels:
                    self._start_parts_over(key, changes)
                url = self._config.explorer_url
                alerts += [build_alert(one, key, result, now, explorer_url=url) for one in changes]
        return alerts

    def _add_pair(self, result: Result, now: datetime) -> None:
        phase = result.first_phase
        fingerprint = result.evaluator.fingerprint if phase is None else phase.strong
        for labels in self._parts(result.labels):
            key = SeriesKey(result.metric, fingerprint, labels)
            series = self.series.get(key)
            if series is None or result.sampling.cluster is not None:
                continue
            if phase is not None or (series.two_phase is not None and isinstance(result, Scored)):
                series.add_pair(result, now)
                series.heard_at = max(series.heard_at, now)
                self.changed.add(key)

    def _judged_again(self, result: Result, now: datetime) -> list[Alert]:
        whole = self._whole(result)
        if whole is None:
            return []
        if (result.replay_id or "").startswith(ANCHOR):
            self._add_anchor(whole, result, now)
            return []
        return self._said(whole.judged_again(result, now))

    def judge_again(self, alert: Alert, now: datetime) -> None:
        whole = self.series.get(SeriesKey(alert.metric, alert.fingerprint, ()))
        if whole is not None:
            whole.explain_again(alert, now, most=self._config.rejudge_per_day)
            self.changed.add(whole.key)

    def _whole(self, result: Result) -> Series | None:
        return self.series.get(SeriesKey(result.metric, result.evaluator.fingerprint, ()))

    def _said(self, alerts: list[Alert]) -> list[Alert]:
        """Keep alerts for the live view; after the judge moved, its series learn from the shift on."""
        for alert in alerts:
            known = [one.alert_id for one in self.last_alerts]
            if alert.alert_id in known:
                self.last_alerts[known.index(alert.alert_id)] = alert
            else:
                self.last_alerts.append(alert)
            if alert.word is not None and alert.word.said == "judge":
                for key, series in self.series.items():
                    if key[:2] == (alert.metric, alert.fingerprint):
                        series.learn_anew(alert.started_at)
                        self.changed.add(key)
        return alerts

    def _dropped(self, key: SeriesKey) -> Collection[str]:
        """Return the measures in which the whole traffic of a part has dropped."""
        whole = self.series.get(key._replace(labels=())) if key.labels else None
        watches = () if whole is None else whole.watches
        return [watch.measure.name for watch in watches if watch.state == "dropped"]

    def _start_parts_over(self, whole: SeriesKey, changes: Iterable[Change]) -> None:
        """Let parts that had not learned before a drop of the whole learn after it."""
        drops = [change for change in changes if change.kind == "drop" and not change.further]
        for key, series in self.series.items() if drops else ():
            if key.labels and key._replace(labels=()) == whole:
                for change in drops:
                    series.start_over(change.measure.name, change.began_at)
                self.changed.add(key)

    def _enrolment(self, key: SeriesKey) -> Enrolment | None:
        """Return the anchors of an evaluator; None if it has none, or none any more."""
        found = self._enrolments.get(key.metric)
        return found if found is not None and found.evaluator.fingerprint == key.fingerprint else None

    def _give_turn(self, series: Series) -> None:
        enrolment = self._enrolment(series.key)
        if enrolment is None:
            return
        if series.anchors is None or series.anchors.since != enrolment.since:
            series.anchors = AnchorWatch(enrolment.since)
        if series.anchors.is_due():
            self.due.append(enrolment.turn(series.anchors.given))

    def _add_anchor(self, series: Series, result: Result, now: datetime) -> None:
        """Add a new judgement of an anchor, unless it is by a fallback, or of an earlier enrolment."""
        metric, enrolment = result.metric, self._enrolment(series.key)
        if series.anchors is None or enrolment is None:
            return
        anchor = enrolment.anchors.get(anchor_id(result))
        if anchor is None or not (result.replay_id or "").startswith(enrolment.name):
            return
        if self.remember(result.result_id) and isinstance(result, Scored):
            series.anchors.configure(enrolment, self._config.measures(metric)[0])
            if series.anchors.add(anchor, result.amount, now):
                self.shifts.append(f"the judge of {metric} on its anchors: {series.anchors.words}")
            self.changed.add(series.key)

    def load(self, key: SeriesKey, state: bytes) -> None:
        """Restore the state of a series, unless its metric was removed."""
        if key.metric in self._config.score_ranges:
            self.series[key] = Series.load(self._rules(key), state)

    def _counts(self, result: Result) -> bool:
        """Whether a result is live, of a known metric, on its scale, and new."""
        scale = self._config.score_ranges.get(result.metric)
        if scale is None or result.replay_id is not None:
            return False
        scores = [] if result.first_phase is None else [result.first_phase.score]
        scores += [result.amount] if isinstance(result, Scored) else []
        if not all(scale[0] <= one <= scale[1] for one in scores):
            return False
        return self.remember(result.result_id)

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

    def _series_of(self, key: SeriesKey, now: datetime) -> Series | None:
        if key not in self.series:
            if len(self.series) >= self._config.max_series and not self._make_room(key, now):
                return None
            self.series[key] = Series(self._rules(key), key, heard_at=now)
        return self.series[key]

    def _rules(self, key: SeriesKey) -> SeriesRules:
        return self._config.rules(key.metric, fixed_labels=len(key.labels))

    def _make_room(self, key: SeriesKey, now: datetime) -> bool:
        """Remove the series longest without a result, if that is long or the new one is all traffic."""
        silent = min(self.series.values(), key=lambda one: (one.heard_at, -len(one.key.labels))).key
        if key.labels and (now - self.series[silent].heard_at).total_seconds() < SILENT_SECONDS:
            return False
        del self.series[silent]
        self.changed.add(silent)
        return True

    def _sample(self, result: Scored, labels: Labels, now: datetime) -> Sample:
        """Return a result's sample for a series: its part of the traffic is that of the other labels."""
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


@dataclass(frozen=True, slots=True)
class MonitorSnapshot:
    """Monitors of different metrics: all series in order, and what came last, the latest first."""

    monitors: Sequence[Monitor]
    taken_at: datetime
    state_problems: Mapping[StateProblem, int] = field(default_factory=dict)

    @property
    def series(self) -> list[Series]:
        series = (one for monitor in self.monitors for one in monitor.series.values())
        return sorted(series, key=lambda one: one.key)

    @property
    def last_results(self) -> list[Result]:
        results = [one for monitor in self.monitors for one in reversed(monitor.last_results)]
        return sorted(results, key=lambda one: one.times.judged_at, reverse=True)

    @property
    def last_alerts(self) -> list[Alert]:
        alerts = [one for monitor in self.monitors for one in reversed(monitor.last_alerts)]
        return sorted(alerts, key=lambda one: one.raised_at, reverse=True)


def gauges_of(snapshot: MonitorSnapshot) -> Iterator[SeriesGauge]:
    """Return all gauges, except of series without a result for a day, which would stay dropped."""
    for series in snapshot.series:
        if (snapshot.taken_at - series.heard_at).total_seconds() > SILENT_SECONDS:
            continue
        metric, fingerprint, labels = series.key
        where = (metric, fingerprint, ",".join(f"{name}={value}" for name, value in labels) or "all")
        for watch in series.watches:
            for name, value in watch.numbers.items():
                if value is not None:
                    yield SeriesGauge(name, (*where, watch.measure.name), value)
        window = series.window(snapshot.taken_at)
        for name in ("mean", "low", "high") if window is not None else ():
            yield SeriesGauge(f"window_{name}", where, getattr(window, name))
        yield from () if labels else _evaluator_gauges(series)
        missing = series.missing_strata(snapshot.taken_at)
        yield SeriesGauge("missing_strata", where, float(len(missing)))
    for problem in get_args(StateProblem):
        yield SeriesGauge("state_problems", (problem,), float(snapshot.state_problems.get(problem, 0)))


def _evaluator_gauges(series: Series) -> Iterator[SeriesGauge]:
    by = series.key[:2]
    for name, number in series.anchors.numbers.items() if series.anchors is not None else ():
        yield SeriesGauge(f"anchors_{name}", by, number)
    correlation = None if series.two_phase is None else series.two_phase.prediction.correlation
    if correlation is not None:
        yield SeriesGauge("two_phase_correlation", by, correlation)
    if series.names.first_at:
        yield SeriesGauge("judge_names", by, float(len(series.names.first_at)))


def build_alert(
    change: Change, key: SeriesKey, result: Scored, now: datetime, *, explorer_url: str | None = None
) -> Alert:
    """Return the alert of a change that a result triggered; its id follows from both and the series."""
    measure = change.measure.name
    of = [] if measure == MEAN else [measure]
    parts = [change.kind, *of, key.metric, key.fingerprint, repr(key.labels), result.result_id]
    alert_id = sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]
    return Alert(
        alert_id=alert_id,
        kind=change.kind,
        metric=key.metric,
        labels=dict(key.labels),
        measure=measure,
        further=change.further,
        fingerprint=key.fingerprint,
        model=result.evaluator.model,
        summary=_summary(change, key, result.evaluator.model, now),
        baseline=change.baseline,
        current=change.current,
        statistic=change.statistic,
        threshold=change.threshold,
        detector=change.detector,
        started_at=change.dropped_at,
        raised_at=now,
        example_event_ids=change.example_event_ids,
        # The explorer finds an incident by any of its alerts; only the store knows the first one.
        link=None if explorer_url is None else f"{explorer_url.rstrip('/')}/explore/incident/{alert_id}",
    )


def _summary(change: Change, key: SeriesKey, model: str, now: datetime) -> str:
    measure, current = change.measure, change.current
    of = ", ".join(f"{printable(name, 40)}={printable(value, 60)}" for name, value in key.labels)
    form = "{:.1%}" if measure.is_share else "{:.2f}"
    normal, mean, low, high = map(
        form.format, (change.baseline.mean, current.mean, current.low, current.high)
    )
    learned, up, note = change.baseline.count > 0, measure.worse == "up", ""
    if change.kind == "recovered":
        moved = f"has recovered from its drop: {mean}"
        note = f", {normal} before the drop" if learned else f", target {normal}"
    elif learned:
        learning = " (still being learned as it began)" if change.learning else ""
        further = " further" if change.further else ""
        moved = f"{'rose' if up else 'fell'}{further} from {normal}{learning} to {mean}"
        if measure.name == MIX:
            note = ", because the mix of labels changed, not within any label value"
    else:
        moved = f"{'rose above' if up else 'fell below'} its target {normal} to {mean}"
    began = change.began_at.astimezone(UTC)
    same_day = began.date() == now.astimezone(UTC).date()
    clock = began.strftime("%H:%M UTC" if same_day else "%Y-%m-%d %H:%M UTC")
    return (
        f"{measure.subject(key.metric)} of {of or 'all answers'} {moved} (95% interval {low}-{high}, "
        f"{current.count} {'judged answer' if current.count == 1 else 'judged answers'}) "
        f"since {f'{clock} or earlier' if change.or_earlier else f'about {clock}'}{note}; "
        f"judge model {printable(model, 80)}"
    )
