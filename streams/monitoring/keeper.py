"""Keeps a monitor for each partition of observations assigned to this worker.

All observations of a metric are in one partition, in order. A monitor's alerts depend on that order alone, so
they do not depend on the number of workers or on rebalances. The state in a compacted topic is a shortcut:
observations that it lacks are read again, and so are those of a series whose record is lost or damaged.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import structlog
from pydantic import ValidationError

from judge.errors import DrainingError
from schemas import RESULT, Alert, Failed, Scored, Unscored
from streams.errors import SettingsError, TooLargeError
from streams.kafka.output import Output
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record, moment
from streams.monitoring.alerts import SeriesKey
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from streams.monitoring.snapshot import MonitorSnapshot, StateProblem
from streams.monitoring.state import Kept, digest_of, mark_key, pack_mark, pack_series, series_key, take

_log = structlog.stdlib.get_logger(__name__)

SAVE_SECONDS: Final = 60.0
SAVE_OBSERVATIONS: Final = 2_000
"""State is saved after this time or number of observations; after a kill, later observations are
read again."""
REMEMBERED_OBSERVATIONS: Final = 20_000
"""Observations before the state whose ids are read again, so that a repeated result counts once."""
WARM_UP_RESULTS: Final = 100_000
"""Number of latest results from which a monitor without state learns."""
LOOK_SECONDS: Final = 5.0
RETRY_SECONDS: Final = (1.0, 30.0)
"""First and longest pause before an observation is tried again, because the broker fails."""
_STEP: Final = 200
"""Observations to read again between yields to the event loop."""


@dataclass(slots=True)
class _Held:
    """The monitor of one partition, and its next offset."""

    monitor: Monitor
    next: int
    cold: bool = False
    """Whether it started without state, so that results of an earlier release may remain to learn from."""
    metrics: set[str] = field(default_factory=set)
    """If it is cold, the metrics observed so far."""
    ahead: bool = False
    """Whether its state was ahead of the topic, so that alerts of earlier observations may be unpublished."""
    heard: float = 0.0
    """The latest timestamp of its observations, seconds since the epoch."""
    saved: dict[SeriesKey, str] = field(default_factory=dict)
    """The digest of each series' saved record; "" if it was too large."""
    unsaved: int = 0
    saved_at: float = field(default_factory=time.monotonic)


class Keeper:
    """Passes observations to monitors, publishes their alerts and saves their state.

    Args:
        past: Reads the topics again: observations, states, and the scores for a monitor without state.
        tell: Logs an alert; returns the id of its incident, None if it is not known.
        notes: Returns what the text of an alert must say besides, such as a judge that changed its model.
    """

    def __init__(
        self,
        config: MonitorConfig,
        out: Output,
        past: TopicReader,
        *,
        observations: str,
        states: str,
        scores: str,
        finished: Callable[[], Awaitable[Mapping[int, int]]],
        assigned: Callable[[], Collection[int]],
        tell: Callable[[Alert], str | None] = lambda _: None,
        notes: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._config = config
        self._out = out
        self._past = past
        self._observations = observations
        self._states = states
        self._scores = scores
        self._finished = finished
        self._assigned = assigned
        self._tell = tell
        self._notes = notes
        self._held: dict[int, _Held] = {}
        self._locks: dict[int, asyncio.Lock] = {}
        self._problems: Counter[StateProblem] = Counter()

    def snapshot(self, now: datetime) -> MonitorSnapshot:
        """Return the states of all series in assigned partitions."""
        owned = set(self._assigned())
        held = [held.monitor.snapshot(now) for number, held in self._held.items() if number in owned]
        return replace(MonitorSnapshot.merged(held, now), state_problems=dict(self._problems))

    async def handle(self, record: Record) -> None:
        """Handle one observation; all earlier ones of its partition have been handled.

        After an error of the broker it is tried again, from the saved state, until the partition is revoked
        (`DrainingError`): none is acknowledged before its alerts are published.
        """
        pause, longest = RETRY_SECONDS
        async with self._lock(record.partition):
            while True:
                try:
                    return await self._take(record)
                except SettingsError:
                    raise  # no retry helps: the worker stops
                except Exception as error:
                    self._held.pop(record.partition, None)
                    if record.partition not in self._assigned():
                        raise DrainingError("the partition of observations was revoked") from error
                    _log.warning(
                        "an observation waits: the monitor cannot go on; retrying", error=repr(error)
                    )
                except BaseException:
                    # The monitor counted it, but its alerts were not published: restart from the saved state.
                    self._held.pop(record.partition, None)
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)

    async def _take(self, record: Record) -> None:
        held = await self._at(record.partition, record.offset)
        if record.offset < held.next:
            return  # already in the state; its alerts were published before the state was saved
        await self._publish(await self._observe(held, record))
        held.next = record.offset + 1

    async def _publish(self, alerts: list[Alert]) -> None:
        for alert in alerts:
            summary = "; ".join((alert.summary, *self._notes()))
            known = alert.model_copy(update={"summary": summary})
            known = known.model_copy(update={"incident_id": self._tell(known)})
            try:
                await self._out.alert(known)
            except TooLargeError as error:
                _log.error("an alert is too large to publish", alert=alert.alert_id, error=str(error))

    async def on_surprise(self, record: Record, error: Exception) -> None:
        """Do nothing: `handle` itself tries again."""

    async def save(self) -> None:
        """Save the changed state of every partition."""
        for number in list(self._held):
            async with self._lock(number):
                held = self._held.get(number)
                if held is not None and held.unsaved:
                    await self._save(number, held)

    async def attend(self) -> None:
        """Every few seconds, start new partitions, drop revoked ones and save due state."""
        while True:
            try:
                await self._look()
            except Exception:  # noqa: BLE001 - retried by the next round
                _log.exception("the monitor's state could not be read or saved; retrying")
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        owned = set(self._assigned())
        for number in owned - set(self._held):
            async with self._lock(number):
                if number not in self._held:
                    held = await self._restore(number)
                    if held is not None:
                        self._held[number] = held
        for number in list(self._held):
            async with self._lock(number):
                held = self._held.get(number)
                if held is None:
                    continue
                if number not in owned:
                    del self._held[number]
                elif held.unsaved and (
                    held.unsaved >= SAVE_OBSERVATIONS or time.monotonic() - held.saved_at >= SAVE_SECONDS
                ):
                    await self._save(number, held)

    def _lock(self, number: int) -> asyncio.Lock:
        return self._locks.setdefault(number, asyncio.Lock())

    # Restoring

    async def _at(self, number: int, offset: int) -> _Held:
        """Return a partition's monitor, caught up with all observations before `offset`."""
        held = self._held.get(number)
        if held is None:
            held = await self._restore(number)
            if held is None:
                held = _Held(Monitor(self._config), 0, cold=True)
        if held.next < offset:
            # Another worker observed these and published their alerts, but did not save the state.
            await self._observe_again(held, number, offset)
        self._held[number] = held
        return held

    async def _restore(self, number: int) -> _Held | None:
        """Restore the saved state; return None if there is none."""
        kept = Kept()
        async for record in self._past.read(self._states):
            try:
                take(kept, number, record.key, record.value)
            except Exception as error:  # noqa: BLE001 - any form; one bad record costs its series a restart
                _log.warning("a record of the monitor's state cannot be read; skipped", error=repr(error))
        if kept.next is None:
            return None
        end = (await self._past.ends(self._observations)).get(number, 0)
        held = _Held(Monitor(self._config), min(kept.next, end))
        lacking = kept.incomplete()
        for key, series in kept.series.items():
            try:
                held.monitor.load(key, series.state, until=min(series.next, end))
            except Exception as error:  # noqa: BLE001 - any form
                _log.warning("the state of a series cannot be read", key=key, error=repr(error))
                lacking.add(key)
        held.saved = {key: one.digest for key, one in kept.series.items() if key not in lacking}
        held.heard = kept.heard or 0.0
        if lacking:
            self._problems["incomplete"] += len(lacking)
            held.unsaved = 1
            _log.warning("series learn again from the observations", series=len(lacking), partition=number)
        await self._read_before(held, number, kept, lacking)
        if held.next < kept.next:
            self._problems["ahead"] += 1
            held.ahead, held.unsaved = True, 1
            held.monitor.bound(held.next)
            _log.warning(
                "the monitor's state is ahead of the observations, which were recreated or restored; "
                "continuing where they differ",
                partition=number,
                state=kept.next,
                observations=held.next,
            )
        _log.info("monitor continues", partition=number, series=len(kept.series), offset=held.next)
        return held

    async def _read_before(
        self, held: _Held, number: int, kept: Kept, lacking: Collection[SeriesKey]
    ) -> None:
        """Remember the results of the observations before the state, and let lacking series learn them.

        An observation later than all that the state includes is not in it: then the topic is another one.
        """
        whole = any(key not in held.monitor.keys for key in lacking)
        starts = [kept.series[key].next for key in lacking if key in held.monitor.keys]
        first = 0 if whole else max(min([held.next - REMEMBERED_OBSERVATIONS, *starts]), 0)
        count, end = 0, held.next
        async for record in self._past.read(self._observations, {number: (first, end)}):
            if kept.heard is not None and (record.timestamp or 0.0) > kept.heard:
                held.next = min(held.next, record.offset if count else 0)
                continue
            count += 1
            held.heard = max(held.heard, record.timestamp or 0.0)
            result = _result(record)
            if result is not None and lacking:
                _observe(held.monitor, record, result, lacking)
            elif result is not None:
                held.monitor.remember(result.result_id)
            if count % _STEP == 0:
                await asyncio.sleep(0)

    async def _observe_again(self, held: _Held, number: int, end: int) -> None:
        count, publish, held.ahead = 0, held.ahead, False
        stretch = self._past.read(self._observations, {number: (held.next, end)})
        async for record in stretch:
            alerts = await self._observe(held, record)
            if publish:
                await self._publish(alerts)
            count += 1
            if count % _STEP == 0:
                await asyncio.sleep(0)
        held.next = end
        _log.info("monitor has caught up", partition=number, observations=count)

    async def _warm_up(self, monitor: Monitor, partition: int, metric: str) -> None:
        """Learn from committed results that are not among the observations, left by an earlier release.

        Results being forwarded are in both sets, waiting ones in neither, so repeating this gives the same.
        """
        finished = await self._finished()
        observed = set()
        async for record in self._past.read(self._observations, {partition: (0, sys.maxsize)}):
            one = _result(record)
            if one is not None and one.metric == metric:
                observed.add(one.result_id)
        before = []
        for number, end in finished.items():
            async for record in self._past.read(self._scores, {number: (0, end)}):
                one = _result(record)
                if one is not None and one.metric == metric and one.result_id not in observed:
                    before.append(one)
        before.sort(key=lambda one: (one.times.judged_at, one.result_id))
        for count, one in enumerate(before[-WARM_UP_RESULTS:]):
            _observe(monitor, None, one)
            if count % _STEP == 0:
                await asyncio.sleep(0)
        if before:
            _log.info("monitor has learned from earlier results", metric=metric, results=len(before))

    async def _observe(self, held: _Held, record: Record) -> list[Alert]:
        held.heard = max(held.heard, record.timestamp or 0.0)
        result = _result(record)
        if result is None:
            return []
        if held.cold and result.metric not in held.metrics:
            await self._warm_up(held.monitor, record.partition, result.metric)
            held.metrics.add(result.metric)
        held.unsaved += 1
        return _observe(held.monitor, record, result)

    # Saving

    async def _save(self, number: int, held: _Held) -> None:
        changes = held.monitor.take_changes()
        try:
            for key, state in changes:
                value = None if state is None else await asyncio.to_thread(pack_series, held.next, state)
                held.saved[key] = "" if value is None else digest_of(value)
                try:
                    await self._out.monitor_state(series_key(number, key), value)
                except TooLargeError as error:
                    held.saved[key] = ""
                    self._problems["too_large"] += 1
                    _log.warning("the state of a series is too large to save", key=key, error=str(error))
                if state is None:
                    del held.saved[key]
            await self._out.monitor_state(mark_key(number), pack_mark(held.next, held.heard, held.saved))
        except BaseException:
            held.monitor.put_back(key for key, _ in changes)
            raise
        held.unsaved, held.saved_at = 0, time.monotonic()


def _observe(
    monitor: Monitor,
    record: Record | None,
    result: Scored | Unscored | Failed,
    only: Collection[SeriesKey] | None = None,
) -> list[Alert]:
    """Let a monitor observe a result; one that fails, and would each time, must not blind its series."""
    # The record's own time, so that observing it again gives the same result.
    now = (record and moment(record.timestamp)) or result.times.judged_at
    try:
        return monitor.observe(
            result, now.astimezone(UTC), offset=None if record is None else record.offset, only=only
        )
    except Exception:  # noqa: BLE001 - logged
        _log.exception("an observation is skipped", event_id=result.event_id, metric=result.metric)
        return []


def _result(record: Record) -> Scored | Unscored | Failed | None:
    try:
        return RESULT.validate_json(record.value or b"")
    except ValidationError:
        # Not written by a worker of this version. No dead letter is needed: the record stays on its topic.
        _log.warning(
            "record is not a result; skipped",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
        return None
