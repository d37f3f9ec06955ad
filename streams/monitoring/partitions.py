"""A monitor for each partition of observations assigned to this worker, with its saved state.

A monitor needs all results of a metric, so they are forwarded as observations, keyed by metric: in one
partition, in order. Its alerts depend on that order alone, not on the number of workers or on rebalances.

The state in a compacted topic is a shortcut: observations that it lacks are read again, and all that are kept
if one of its records is lost or damaged. A save writes each changed series under a new key, and then the
mark, which names the record of every series. So the state is that of the last complete save.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final, Literal

import structlog
from pydantic import TypeAdapter

from judge.errors import DrainingError
from schemas import Alert, Result
from streams.errors import SettingsError, TooLargeError
from streams.kafka.output import Output
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record, moment
from streams.monitoring.anchors import Enrolment
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor, MonitorSnapshot, StateProblem
from streams.monitoring.observations import judge_burst, judge_due, observed
from streams.monitoring.series import Series, SeriesKey
from streams.settings.broker import TopicSettings
from streams.telemetry.logs import where

_log = structlog.stdlib.get_logger(__name__)

SAVE_SECONDS: Final = 60.0
SAVE_OBSERVATIONS: Final = 2_000
"""State is saved after this time or number of observations; after a kill, later ones are read again."""
REMEMBERED_OBSERVATIONS: Final = 20_000
"""Observations before the state whose ids are read again, so that a repeated result counts once."""
WARM_UP_RESULTS: Final = 100_000
"""Number of latest results from which a monitor without state learns."""
LOOK_SECONDS: Final = 5.0
RETRY_SECONDS: Final = (1.0, 30.0)
"""First and longest pause before an observation is tried again, because the broker fails."""
STATE_VERSION: Final = 4
"""A state of another version is not read: the monitor learns again. A new field with a default keeps it;
a change that the release before would misread makes a new one, beside which the one before is still read."""
_STEP: Final = 200
"""Observations to read again between yields to the event loop."""
AGAIN_SECONDS: Final = 300.0
"""After this time a suspicion that lasts is told again."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a save includes: the observations before `next`, the latest heard then, a record a series."""

    version: Literal[4]
    next: int
    heard: float
    series: list[tuple[SeriesKey, str]]


_MARK: Final = TypeAdapter(_Mark)


@dataclass
class Suspicions:
    """Tells suspicions of falls, which raise the sampling rates, if they change and while they last."""

    clock: Callable[[], float] = time.monotonic
    _told: dict[str, tuple[set[str], float]] = field(default_factory=dict)

    def look(self, series: Iterable[Series], tell: Callable[[str, Collection[str]], None] | None) -> None:
        if tell is None:
            return
        found: dict[str, set[str]] = {}
        for one in series:
            if not one.key.labels:
                found.setdefault(one.key.metric, set()).update(one.suspected)
        for metric, strata in found.items():
            told, told_at = self._told.get(metric, (None, 0.0))
            if strata != told or (strata and self.clock() - told_at > AGAIN_SECONDS):
                self._told[metric] = (strata, self.clock())
                tell(metric, strata)


@dataclass(slots=True)
class _Held:
    monitor: Monitor
    next: int = 0
    warm: set[str] | None = field(default_factory=set)
    """Without state, the metrics that were observed: of others results of an earlier release may remain."""
    ahead: bool = False
    """Whether its state was ahead of the topic, so that alerts of earlier observations may be unpublished."""
    heard: float = 0.0
    """The latest timestamp of its observations, seconds since the epoch."""
    saved: dict[SeriesKey, str] = field(default_factory=dict)
    """The key of each series' saved record."""
    stale: set[str] = field(default_factory=set)
    """Keys of saved records that no mark names any more."""
    asked: set[str] = field(default_factory=set)
    """Bursts whose tasks are written."""
    suspicions: Suspicions = field(default_factory=Suspicions)
    unsaved: int = 0
    saved_at: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class PartitionMonitors:
    """Passes observations to monitors, publishes their alerts and saves their state."""

    config: MonitorConfig
    out: Output
    past: TopicReader
    """Reads the topics again: observations, states, and the scores for a monitor without state."""
    topics: TopicSettings
    finished: Callable[[], Awaitable[Mapping[int, int]]]
    """Returns the offsets before which the results of each partition of scores are forwarded."""
    assigned: Callable[[], Collection[int]]
    tell: Callable[[Alert], str | None] = lambda _: None
    """Logs an alert; returns the id of its incident, None if it is not known."""
    suspect: Callable[[str, Collection[str]], None] | None = None
    """Raises the sampling rates of a metric's strata."""
    enrolments: Mapping[str, Enrolment] = field(default_factory=dict)
    """The valid anchors by metric, kept up to date by their owner."""
    _held: dict[int, _Held] = field(default_factory=dict)
    _locks: defaultdict[int, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    _problems: Counter[StateProblem] = field(default_factory=Counter)

    def snapshot(self, now: datetime) -> MonitorSnapshot:
        owned = set(self.assigned())
        monitors = [held.monitor for number, held in self._held.items() if number in owned]
        return MonitorSnapshot(monitors, now, self._problems)

    async def handle(self, record: Record) -> None:
        """Handle an observation, again after errors until the partition is revoked (`DrainingError`)."""
        # None is acknowledged before its alerts are published.
        pause, longest = RETRY_SECONDS
        async with self._locks[record.partition]:
            while True:
                try:
                    return await self._take(record)
                except BaseException as error:
                    # It may be counted without its alerts being published: restart from the saved state.
                    self._held.pop(record.partition, None)
                    if isinstance(error, SettingsError) or not isinstance(error, Exception):
                        raise  # no retry helps: the worker stops
                    if record.partition not in self.assigned():
                        raise DrainingError("the partition of observations was revoked") from error
                    _log.warning(
                        "an observation waits: the monitor cannot go on; retrying", error=repr(error)
                    )
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)

    async def on_surprise(self, record: Record, error: Exception) -> None:
        """Do nothing: `handle` tries again, and the pipeline has logged what could not be forwarded."""

    async def _take(self, record: Record) -> None:
        held = self._held.get(record.partition) or await self._restore(record.partition)
        if held.next < record.offset:
            # Another worker observed these and published their alerts, but did not save the state.
            publish, held.ahead, start = held.ahead, False, held.next
            observations = self._again(self.topics.observations, record.partition, start, record.offset)
            async for earlier, _ in observations:
                alerts = await self._observe(held, earlier)
                held.monitor.due = []  # given out by the worker that observed it first
                if publish:
                    await self._publish(alerts)
            _log.info("monitor has caught up", partition=record.partition, observations=record.offset - start)
            held.next = record.offset
        self._held[record.partition] = held
        if record.offset >= held.next:  # else it is in the state, which is saved after alerts are published
            await self._publish(await self._observe(held, record))
            await judge_due(held.monitor, self.out)
            held.next = record.offset + 1

    async def _publish(self, alerts: list[Alert]) -> None:
        for alert in alerts:
            known = alert.model_copy(update={"incident_id": self.tell(alert)})
            try:
                await self.out.alert(known)
            except TooLargeError as error:
                _log.error("an alert is too large to publish", alert=alert.alert_id, error=str(error))

    async def attend(self) -> None:
        """Every few seconds, start new partitions, drop revoked ones and save due state."""
        while True:
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - retried by the next round
                what = "the monitor's state could not be read or saved; retrying"
                _log.error(what, error=repr(error), where=where(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        owned = set(self.assigned())
        for number in owned | set(self._held):
            async with self._locks[number]:
                if number not in owned:
                    self._held.pop(number, None)
                elif number not in self._held:
                    self._held[number] = await self._restore(number)
                else:
                    held = self._held[number]
                    waited = time.monotonic() - held.saved_at >= SAVE_SECONDS
                    if held.unsaved and (waited or held.unsaved >= SAVE_OBSERVATIONS):
                        await self._save(number, held)
                    await self._rejudge(held)
                    held.suspicions.look(held.monitor.series.values(), self.suspect)

    async def _rejudge(self, held: _Held) -> None:
        """Write the tasks of bursts, once; what is on their topic already is not judged a second time."""
        pending = {
            one.replay_id: (key.metric, one)
            for key, series in held.monitor.series.items()
            for one in series.bursts.values()
        }
        held.asked &= pending.keys()
        for name, (metric, burst) in pending.items():
            if name in held.asked:
                continue
            try:
                await judge_burst(self.out, self.past, self.topics.task_topic(metric), burst)
                held.asked.add(name)
            except Exception as error:  # noqa: BLE001 - alerts and states do not wait for a word
                _log.warning("old answers cannot be judged again; retrying", error=repr(error))

    async def _observe(self, held: _Held, record: Record) -> list[Alert]:
        held.heard = max(held.heard, record.timestamp or 0.0)
        result = observed(record)
        if isinstance(result, Alert):
            held.unsaved += 1
            held.monitor.judge_again(result, moment(record.timestamp) or result.raised_at)
            return []
        if result is None:
            return []
        if held.warm is not None and result.metric not in held.warm:
            await self._warm_up(held.monitor, record.partition, result.metric)
            held.warm.add(result.metric)
        held.unsaved += 1
        # The record's own time, so that observing it again gives the same result.
        return _observe(held.monitor, result, moment(record.timestamp) or result.times.judged_at)

    async def _warm_up(self, monitor: Monitor, partition: int, metric: str) -> None:
        """Learn from committed results that are not among the observations, left by an earlier release.

        Results being forwarded are in both sets, waiting ones in neither, so repeating this gives the same.
        """
        before: dict[str, Result] = {}
        for number, end in (await self.finished()).items():
            async for _, result in self._again(self.topics.scores, number, 0, end):
                if result is not None and result.metric == metric:
                    before.setdefault(result.result_id, result)
        async for _, result in self._again(self.topics.observations, partition):
            if result is not None:
                before.pop(result.result_id, None)
        ordered = sorted(before.values(), key=lambda result: (result.times.judged_at, result.result_id))
        for count, result in enumerate(ordered[-WARM_UP_RESULTS:]):
            _observe(monitor, result, result.times.judged_at)
            if count % _STEP == 0:
                await asyncio.sleep(0)
        if before:
            _log.info("monitor has learned from earlier results", metric=metric, results=len(before))

    async def _again(
        self, topic: str, number: int, start: int = 0, end: int = sys.maxsize
    ) -> AsyncIterator[tuple[Record, Result | None]]:
        """Yield the records of a partition with their results, and now and then to the event loop."""
        async for record in self.past.read(topic, {number: (start, end)}):
            found = observed(record)
            yield record, None if isinstance(found, Alert) else found
            if record.offset % _STEP == 0:
                await asyncio.sleep(0)

    async def _restore(self, number: int) -> _Held:
        """Return a partition's monitor with the saved state; a new one if there is none, or a damaged one."""
        records: dict[str, bytes] = {}
        mark, prefix = f"[{number}]", f"[{number}, "
        async for record in self.past.read(self.topics.monitor_state):
            key = (record.key or b"").decode(errors="replace")
            if record.value is None:
                records.pop(key, None)
            elif key == mark or key.startswith(prefix):
                records[key] = record.value
        stale = records.keys() - {mark}
        try:
            if mark not in records:
                return _Held(Monitor(self.config, self.enrolments), stale=stale)
            kept = _MARK.validate_json(zlib.decompress(records[mark]))
            held = _Held(Monitor(self.config, self.enrolments), kept.next, warm=None, heard=kept.heard)
            held.saved = dict(kept.series)
            held.stale = stale - set(held.saved.values())
            for series, key in kept.series:
                held.monitor.load(series, zlib.decompress(records[key]))
        except Exception as error:  # noqa: BLE001 - any form
            self._problems["incomplete"] += 1
            what = "the monitor's state cannot be read; it learns again"
            _log.warning(what, partition=number, error=repr(error))
            return _Held(Monitor(self.config, self.enrolments), stale=stale)
        await self._read_before(held, number)
        _log.info("monitor continues", partition=number, series=len(held.saved), offset=held.next)
        return held

    async def _read_before(self, held: _Held, number: int) -> None:
        """Remember the results before the state; if some are later than it, the topic is another one."""
        saved = held.next
        held.next = min(saved, (await self.past.ends(self.topics.observations)).get(number, 0))
        start, end, heard = max(held.next - REMEMBERED_OBSERVATIONS, 0), held.next, held.heard
        count = 0
        async for record, result in self._again(self.topics.observations, number, start, end):
            if (record.timestamp or 0.0) > heard:
                held.next = min(held.next, record.offset if count else 0)
                continue
            count += 1
            if result is not None:
                held.monitor.remember(result.result_id)
        if held.next < saved:
            self._problems["ahead"] += 1
            held.ahead, held.unsaved = True, 1
            _log.warning(
                "the monitor's state is ahead of the observations, which were recreated or restored; "
                "continuing where they differ",
                partition=number,
                state=saved,
                observations=held.next,
            )

    async def save(self) -> None:
        for number in list(self._held):
            async with self._locks[number]:
                held = self._held.get(number)
                if held is not None and held.unsaved:
                    await self._save(number, held)

    async def _save(self, number: int, held: _Held) -> None:
        changed, held.monitor.changed = held.monitor.changed, set()
        saved, mark_key, suffix = dict(held.saved), f"[{number}]", token_hex(8)
        try:
            for series in changed:
                saved.pop(series, None)
                changed_series = held.monitor.series.get(series)
                if changed_series is None:
                    continue
                key = json.dumps([number, *series, suffix])
                held.stale.add(key)
                try:
                    state = await asyncio.to_thread(zlib.compress, changed_series.dump())
                    await self.out.monitor_state(key.encode(), state)
                except TooLargeError as error:
                    self._problems["too_large"] += 1
                    _log.warning("the state of a series is too large to save", key=key, error=str(error))
                else:
                    saved[series] = key
            mark = _Mark(STATE_VERSION, held.next, held.heard, list(saved.items()))
            await self.out.monitor_state(mark_key.encode(), zlib.compress(_MARK.dump_json(mark)))
        except BaseException:
            held.monitor.changed |= changed
            raise
        held.stale = (held.stale | set(held.saved.values())) - set(saved.values())
        held.saved, held.unsaved, held.saved_at = saved, 0, time.monotonic()
        for key in sorted(held.stale):
            await self.out.monitor_state(key.encode(), None)
            held.stale.remove(key)


def _observe(monitor: Monitor, result: Result, now: datetime) -> list[Alert]:
    """Let a monitor observe a result; one that fails, and would each time, must not blind its series."""
    try:
        return monitor.observe(result, now.astimezone(UTC))
    except Exception:  # noqa: BLE001 - logged
        _log.exception("an observation is skipped", event_id=result.event_id, metric=result.metric)
        return []
