"""Keeps a monitor for each partition of observations assigned to this worker.

All observations of a metric are in one partition, in order. A monitor's alerts depend on that order alone, so
they do not depend on the number of workers or on rebalances. The state in a compacted topic is a shortcut:
observations that it lacks are read again.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog
from pydantic import ValidationError

from schemas import RESULT, Alert, Failed, Scored, Unscored
from streams.errors import TooLargeError
from streams.kafka.letters import moment
from streams.kafka.output import Output
from streams.kafka.stretch import StretchReader
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from streams.monitoring.snapshot import MonitorSnapshot
from streams.monitoring.state import Kept, mark_key, pack, series_key, take

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
_STEP: Final = 200
"""Observations to read again between yields to the event loop."""


class Record(Protocol):
    """A record of observations, of state or of results."""

    @property
    def topic(self) -> str:
        """The record's topic."""

    @property
    def partition(self) -> int:
        """The record's partition."""

    @property
    def offset(self) -> int:
        """The record's offset."""

    @property
    def timestamp(self) -> float | None:
        """The record's time in seconds since the epoch; None if it has none."""

    @property
    def key(self) -> bytes | None:
        """The record's key."""

    @property
    def value(self) -> bytes | None:
        """The record's value."""


@dataclass(slots=True)
class _Held:
    """The monitor of one partition, and its next offset."""

    monitor: Monitor
    next: int
    cold: bool = False
    """Whether it started without state, so that results of an earlier release may remain to learn from."""
    metrics: set[str] = field(default_factory=set)
    """If it is cold, the metrics observed so far."""
    unsaved: int = 0
    saved_at: float = field(default_factory=time.monotonic)


class Keeper:
    """Passes observations to monitors, publishes their alerts and saves their state.

    Args:
        config: The monitors' configuration.
        out: Writes alerts and state.
        past: Reads stretches of topics.
        observations: The topic of observations.
        states: The topic of state.
        scores: The topic of results, for a monitor without state.
        finished: Returns the group's committed offset of each partition of results.
        assigned: Returns the partitions of observations assigned to this worker.
    """

    def __init__(
        self,
        config: MonitorConfig,
        out: Output,
        past: StretchReader,
        *,
        observations: str,
        states: str,
        scores: str,
        finished: Callable[[], Awaitable[Mapping[int, int]]],
        assigned: Callable[[], Collection[int]],
    ) -> None:
        self._config = config
        self._out = out
        self._past = past
        self._observations = observations
        self._states = states
        self._scores = scores
        self._finished = finished
        self._assigned = assigned
        self._held: dict[int, _Held] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    def snapshot(self, now: datetime) -> MonitorSnapshot:
        """Return the states of all series in assigned partitions."""
        owned = set(self._assigned())
        held = [held.monitor.snapshot(now) for number, held in self._held.items() if number in owned]
        return MonitorSnapshot.merged(held, now)

    async def handle(self, record: Record) -> None:
        """Handle one observation; all earlier ones of its partition have been handled."""
        async with self._lock(record.partition):
            held = await self._at(record.partition, record.offset)
            if record.offset < held.next:
                return  # already in the state; its alerts were published before the state was saved
            try:
                for alert in await self._observe(held, record):
                    _log.warning("alert", kind=alert.kind, metric=alert.metric, summary=alert.summary)
                    await self._out.alert(alert)
            except BaseException:
                # The monitor counted it, but its alerts were not published: restart from the saved state.
                self._held.pop(record.partition, None)
                raise
            held.next = record.offset + 1
            held.unsaved += 1

    async def on_surprise(self, record: Record, error: Exception) -> None:
        """Skip an observation that caused an error; the pipeline has logged it."""

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
            await self._observe_again(held, number, held.next, offset)
            held.next = offset
        self._held[number] = held
        return held

    async def _restore(self, number: int) -> _Held | None:
        """Restore the saved state; return None if there is none."""
        kept = Kept()
        async for record in self._past.read(self._states):
            try:
                take(kept, number, record.key, record.value)
            except (ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
                _log.warning("a record of the monitor's state cannot be read; skipped", error=repr(error))
        if kept.next is None:
            return None
        monitor = Monitor(self._config)
        first = max(kept.next - REMEMBERED_OBSERVATIONS, 0)
        async for record in self._past.read(self._observations, partition=number, start=first, end=kept.next):
            result = _result(record)
            if result is not None:
                monitor.remember(result.result_id)
        for key, series in kept.series.items():
            try:
                monitor.load(key, series.state, until=series.next)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                _log.warning("a series restarts: its state cannot be read", key=key, error=repr(error))
        _log.info("monitor continues", partition=number, series=len(kept.series), offset=kept.next)
        return _Held(monitor, kept.next)

    async def _observe_again(self, held: _Held, number: int, start: int, end: int) -> None:
        count = 0
        async for record in self._past.read(self._observations, partition=number, start=start, end=end):
            await self._observe(held, record)
            count += 1
            if count % _STEP == 0:
                await asyncio.sleep(0)
        _log.info("monitor has caught up", partition=number, observations=count)

    async def _warm_up(self, monitor: Monitor, partition: int, metric: str) -> None:
        """Learn from committed results that are not among the observations, left by an earlier release.

        Results being forwarded are in both sets, waiting ones in neither, so repeating this gives the same.
        """
        finished = await self._finished()
        observed = set()
        async for record in self._past.read(self._observations, partition=partition):
            one = _result(record)
            if one is not None and one.metric == metric:
                observed.add(one.result_id)
        before = []
        for number, end in finished.items():
            async for record in self._past.read(self._scores, partition=number, end=end):
                one = _result(record)
                if one is not None and one.metric == metric and one.result_id not in observed:
                    before.append(one)
        before.sort(key=lambda one: (one.times.judged_at, one.result_id))
        for count, one in enumerate(before[-WARM_UP_RESULTS:]):
            monitor.observe(one, one.times.judged_at)
            if count % _STEP == 0:
                await asyncio.sleep(0)
        if before:
            _log.info("monitor has learned from earlier results", metric=metric, results=len(before))

    async def _observe(self, held: _Held, record: Record) -> list[Alert]:
        result = _result(record)
        if result is None:
            return []
        if held.cold and result.metric not in held.metrics:
            await self._warm_up(held.monitor, record.partition, result.metric)
            held.metrics.add(result.metric)
        # The record's own time, so that observing it again gives the same result.
        now = moment(record.timestamp) or result.times.judged_at
        return held.monitor.observe(result, now.astimezone(UTC), offset=record.offset)

    # Saving

    async def _save(self, number: int, held: _Held) -> None:
        changes = held.monitor.take_changes()
        try:
            for key, state in changes:
                value = None if state is None else await asyncio.to_thread(pack, held.next, state)
                try:
                    await self._out.monitor_state(series_key(number, key), value)
                except TooLargeError as error:
                    _log.warning("the state of a series is too large to save", key=key, error=str(error))
            await self._out.monitor_state(mark_key(number), pack(held.next))
        except BaseException:
            held.monitor.put_back(key for key, _ in changes)
            raise
        held.unsaved, held.saved_at = 0, time.monotonic()


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
