"""Keeps a monitor for each partition of observations that this worker owns, whatever becomes of workers.

All observations of a metric lie in one partition, in one order. A monitor's alerts follow from that order
alone, so they are those of a single monitor, however many workers there are and whenever a partition changes
hands. State in a compacted topic is a shortcut: what it lacks is read again from the observations.
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
"""State is written after so long or this many: what a killed worker leaves to be read again."""
REMEMBERED_OBSERVATIONS: Final = 20_000
"""Observations before the state that are looked at again, so that a result which comes twice counts once."""
WARM_UP_RESULTS: Final = 100_000
"""Latest results that a monitor without any state learns from."""
LOOK_SECONDS: Final = 5.0
_STEP: Final = 200
"""Observations read again before the event loop gets its turn."""


class Record(Protocol):
    """A record of observations, of state or of results."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def timestamp(self) -> float | None:
        """Seconds since the epoch; None where it has none."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""


@dataclass(slots=True)
class _Held:
    """The monitor of one partition, and how far it has come."""

    monitor: Monitor
    next: int
    cold: bool = False
    """Whether it began without any state, so that an earlier release may have left results to learn from."""
    metrics: set[str] = field(default_factory=set)
    """Metrics that were observed so far, where it is cold."""
    unsaved: int = 0
    saved_at: float = field(default_factory=time.monotonic)


class Keeper:
    """Shows observations to monitors, publishes what they call, and keeps their state.

    Args:
        config: What is watched.
        out: Where alerts and state go.
        past: Reads topics again.
        observations: The topic of observations.
        states: The topic of state.
        scores: The topic of results, for a monitor without any state.
        finished: Gives the offset up to which the workers' group has finished each partition of results.
        assigned: Gives the partitions of observations that this worker owns.
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
        """Say where every series stands whose partition is owned here."""
        owned = set(self._assigned())
        held = [held.monitor.snapshot(now) for number, held in self._held.items() if number in owned]
        return MonitorSnapshot.merged(held, now)

    async def handle(self, record: Record) -> None:
        """Take one observation, after all before it."""
        async with self._lock(record.partition):
            held = await self._at(record.partition, record.offset)
            if record.offset < held.next:
                return  # in the state already, and what it called was published before that was kept
            try:
                for alert in await self._observe(held, record):
                    _log.warning("alert", kind=alert.kind, metric=alert.metric, summary=alert.summary)
                    await self._out.alert(alert)
            except BaseException:
                # The monitor has seen it, and nobody has heard what it called: restart from what was
                # kept.
                self._held.pop(record.partition, None)
                raise
            held.next = record.offset + 1
            held.unsaved += 1

    async def on_surprise(self, record: Record, error: Exception) -> None:
        """Pass an observation over that the monitor could not cope with; the pipeline has logged it."""

    async def save(self) -> None:
        """Keep the state of every partition that has moved."""
        for number in list(self._held):
            async with self._lock(number):
                held = self._held.get(number)
                if held is not None and held.unsaved:
                    await self._save(number, held)

    async def attend(self) -> None:
        """Every few seconds: take up new partitions, let go of those that are gone, keep what is due."""
        while True:
            try:
                await self._look()
            except Exception:  # noqa: BLE001 - whatever it is, the next look tries again
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

    # Taking up

    async def _at(self, number: int, offset: int) -> _Held:
        """Bring the monitor of a partition to where it has seen everything before `offset`."""
        held = self._held.get(number)
        if held is None:
            held = await self._restore(number)
            if held is None:
                held = _Held(Monitor(self._config), 0, cold=True)
        if held.next < offset:
            # Others have observed these, published what they called, and kept less than that.
            await self._observe_again(held, number, held.next, offset)
            held.next = offset
        self._held[number] = held
        return held

    async def _restore(self, number: int) -> _Held | None:
        """Continue from what was kept; None where nothing was."""
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
        """Learn from the results that an earlier release has finished without writing observations.

        Those are the results that are committed and not among the observations. So it is the same whenever
        it is asked: what is just being forwarded is in both, and what waits is in neither.
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
        # The record's own time: anyone who observes it again comes to the same.
        now = moment(record.timestamp) or result.times.judged_at
        return held.monitor.observe(result, now.astimezone(UTC), offset=record.offset)

    # Keeping

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
        # Not written by a worker of this version; there is nothing to set aside, the record stays on its
        # topic.
        _log.warning(
            "record is not a result; skipped",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
        return None
