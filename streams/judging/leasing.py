"""Exchange the leases of the budget with the other workers, over one partition of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from pydantic import ValidationError

from streams.judging.budget import Spending
from streams.judging.ledger import IDLE_SECONDS, Entry, parse_entry
from streams.judging.rates import Rates, rates_record_kind
from streams.kafka.output import Output
from streams.kafka.reader import TopicBatch, TopicReader
from streams.kafka.record import Record
from streams.telemetry.logs import where

_log = structlog.stdlib.get_logger(__name__)

PARTITION: Final = 0
"""All entries are on one partition, because their order decides."""
KEPT: Final = timedelta(days=2)
"""Entries of earlier periods are deleted; a clock that is ahead by a day deletes none in use."""
TICK_SECONDS: Final = 1.0


@dataclass
class Leasing:
    """Reads the log for a worker's spending (and for `rates`), and writes its entries."""

    spending: Spending
    reader: TopicReader
    output: Output
    topic: str
    _: KW_ONLY
    writes: bool
    """Whether the worker judges; another one only reads what is spent."""
    is_ready: Callable[[], bool]
    """Whether the worker has joined its group, so that the producer runs."""
    rates: Rates | None = None
    _outdated: dict[bytes, None] = field(default_factory=dict)
    _idle_seconds: float = IDLE_SECONDS

    async def read(self) -> None:
        await self.reader.keep_up(self.topic, self._take)

    def _take(self, batch: TopicBatch) -> None:
        for record in batch.records:
            if record.partition == PARTITION:
                self.spending.heard(self._entry(record), record.offset)

    def _entry(self, record: Record) -> Entry | None:
        if self.rates is not None and self.rates.heard(record.key, record.value):
            return None
        if record.value is None or rates_record_kind(record.key):
            return None
        try:
            entry = parse_entry(record.value)
        except ValidationError:
            _log.warning("record is no entry of the budget; skipped", offset=record.offset)
            return None
        if entry.period < f"{datetime.now(UTC) - KEPT:%F}":
            self._outdated[entry.key] = None
        return entry

    async def write(self) -> None:
        """Write entries as they are due, until cancelled."""
        while not self.is_ready():  # noqa: ASYNC110 - Faust has no event for it
            await asyncio.sleep(TICK_SECONDS / 5)
        self.spending.sample()  # begins the day
        first = self.spending.joining()
        await self._put([(first.key, first.value)] if self.writes else [])
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.spending.wake.wait(), TICK_SECONDS)
            self.spending.wake.clear()
            try:
                await self._write_due()
            except Exception as error:  # noqa: BLE001 - without leases nothing would be judged
                _log.error("leases cannot be written; retrying", error=repr(error), where=where(error))

    async def _write_due(self) -> None:
        self.spending.sample()
        entries = self.spending.entries(idle_seconds=self._idle_seconds)
        # First and by themselves: an ask that is not written is never granted, and nothing more is admitted.
        await self._put([(entry.key, entry.value) for entry in entries])
        records = [] if self.rates is None else self.rates.due()
        if self.writes:
            records += [(key, None) for key in self._outdated]
            self._outdated.clear()
        await self._put(records)

    async def give_back(self) -> None:
        """Give back what is left, at the end or while partitions are given up; else it counts as spent."""
        self._idle_seconds = 0.0
        with suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                while self.spending.holds_more:
                    self.spending.wake.set()
                    await asyncio.sleep(TICK_SECONDS / 20)
        self._idle_seconds = IDLE_SECONDS

    async def _put(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write records; an account's entries do not overtake each other, as one is on its way at most."""
        async with asyncio.TaskGroup() as tasks:
            for key, value in records:
                tasks.create_task(self.output.write(self.topic, key=key, value=value, partition=PARTITION))
