"""When old answers are judged again, and what is said then: bursts of a series, begun and ended. Pure."""

from __future__ import annotations

from datetime import datetime

import structlog

from schemas import BURST, Alert, Failed, Scored, Unscored
from streams.monitoring.burst import LEFT_OUT, REJUDGED, Burst, name_of, told, unclear
from streams.monitoring.config import MEAN, MIX, MonitorConfig
from streams.monitoring.series import Series
from streams.monitoring.statistics.attribution import FEWEST
from streams.monitoring.watch import Sample

_log = structlog.stdlib.get_logger(__name__)


class Words:
    """Begins and ends the bursts of series of the whole traffic."""

    def __init__(self, config: MonitorConfig) -> None:
        self._config = config

    def judged_again(self, series: Series, result: Scored | Unscored | Failed, now: datetime) -> list[Alert]:
        """Add an old answer that was judged again; return the alerts with a word that it completes."""
        burst = series.bursts.get(result.replay_id or "")
        if burst is None:
            return []
        score = result.amount if isinstance(result, Scored) else None
        burst.add_again(result.event_id, score, series.watch(burst.measure).measure)
        return self._ended(series, now)

    def live(
        self, series: Series, result: Scored, sample: Sample, alerts: list[Alert], now: datetime
    ) -> list[Alert]:
        """Add a live answer and the alerts that it raised; return what is to be published."""
        if not self._config.rejudged_per_day:
            return alerts
        for burst in series.bursts.values():
            burst.add_live(*series.watch(burst.measure).as_usual(sample), sample.probability)
        said = self._ended(series, now)
        name = name_of(result)
        if name is not None and series.names.is_new(name, now) and not series.bursts:
            self._begin(series, Burst(f"{BURST}{result.result_id}", MEAN, now), 0)
        if all(watch.state != "dropped" for watch in series.watches):
            series.old.add(result)
        return said + [self._asked(series, alert, now) for alert in alerts]

    def _asked(self, series: Series, alert: Alert, now: datetime) -> Alert:
        """Begin the burst about an alert; return it with a note on the judge's name."""
        note = series.names.note
        if note is not None:
            alert = alert.model_copy(update={"summary": f"{alert.summary}; {note}"})
        if not has_word(alert) or _is_asked(series):
            return alert
        why = self._begin_about(series, alert, f"{BURST}{alert.alert_id}", now)
        return alert if why is None else alert.model_copy(update={"word": unclear(why, now)})

    def on_demand(self, series: Series, alert: Alert, now: datetime) -> None:
        """Begin another burst about a drop that lasts: of other old answers and later live ones."""
        if not has_word(alert) or series.watch(alert.measure).state != "dropped":
            why: str | None = "it is of no drop of all answers that lasts"
        elif _is_asked(series):
            why = "old answers are being judged again already"
        else:
            why = self._begin_about(series, alert, f"{BURST}{alert.alert_id}-{now:%m%dT%H%M%S}", now)
        if why is not None:
            _log.warning("an alert gets no other word", alert=alert.alert_id, detail=why)

    def _begin_about(self, series: Series, alert: Alert, name: str, now: datetime) -> str | None:
        burst = Burst(name, alert.measure, now, alert, series.watch(alert.measure).usual)
        return self._begin(series, burst, alert.current.count + LEFT_OUT)

    def _begin(self, series: Series, burst: Burst, left_out: int) -> str | None:
        """Draw a burst's answers from those before; return why it cannot be, if so."""
        day = f"{burst.since:%F}"
        spent = series.spent[1] if series.spent[0] == day else 0
        left = self._config.rejudged_per_day - spent
        burst.picks = series.old.draw(
            burst.replay_id, min(REJUDGED, max(left, 0)), newest=series.old.seen - left_out
        )
        if len(burst.picks) < FEWEST:
            if left < FEWEST:
                return (
                    "the answers that may be judged again on this day (monitor.rejudge_per_day) are used up"
                )
            return f"fewer than {FEWEST} answers from before can be judged again"
        series.spent = (day, spent + len(burst.picks))
        series.bursts[burst.replay_id] = burst
        return None

    def _ended(self, series: Series, now: datetime) -> list[Alert]:
        """End the bursts that are due; return their alerts with the word."""
        said = []
        for burst in list(series.bursts.values()):
            watch = series.watch(burst.measure)
            is_over = burst.alert is not None and watch.state != "dropped"
            if not (is_over or burst.is_due(now)):
                continue
            del series.bursts[burst.replay_id]
            if burst.alert is not None:
                said.append(burst.alert.model_copy(update={"word": burst.word(watch.measure, now)}))
                continue
            series.names.said = told(burst.judge(), watch.measure)
            _log.warning("the judge changed its name", metric=series.key.metric, detail=series.names.note)
        return said


def has_word(alert: Alert) -> bool:
    """Whether an alert gets a word: a first drop of all traffic, not by its mix of labels."""
    return alert.kind == "drop" and not (alert.labels or alert.further or alert.measure == MIX)


def _is_asked(series: Series) -> bool:
    return any(one.alert is not None for one in series.bursts.values())
