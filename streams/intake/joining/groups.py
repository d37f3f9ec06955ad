"""The intake of a `GroupReader`: joins the parts of traces, and builds one event per trace (or per call)."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from streams.errors import DecodeError
from streams.intake.joining.gathering import Gathering, Joining
from streams.intake.reader import GroupReader, GroupSampler, read_beside
from streams.intake.selector import Intake
from streams.kafka.record import Record

T = TypeVar("T")


class GroupIntake(Gathering[T]):
    """Decides the outcome of groups, such as traces."""

    def __init__(
        self, *, reader: GroupReader[T], sampler: GroupSampler, intake: Intake, joining: Joining
    ) -> None:
        super().__init__(reader.noun, joining, reader.is_complete)
        self._reader = reader
        self._sampler = sampler
        self._intake = intake
        self._counts = joining.counts

    async def handle(self, record: Record) -> None:
        """Take one record; return when the output of its groups is written."""
        try:
            split = self._sampler.split(self._reader.heads(record.value), record.key)
            groups = self._opening(record.value, split.kept)
        except ValueError:
            await self._intake.refuse(
                record, DecodeError("undecodable", "traceId: is not hexadecimal; correct the producer")
            )
            return
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        if split.skipped:
            self._counts.count_event("skipped", self._sampler.skip_reason, count=split.skipped)
        if self._reader.bounds is None:
            for parts in groups.values():
                await self.become(record, parts)
        elif groups:
            await self.add(record, groups)

    async def on_surprise(self, record: Record, error: Exception) -> None:
        await self._intake.on_surprise(record, error)

    def is_key(self, key: bytes | None, group: str) -> bool:
        return self._reader.is_key(key, group)

    def key_problem(self, got: str) -> str:
        return self._reader.key_problem(got)

    async def parts_of(self, record: Record) -> dict[str, list[T]]:
        split = self._sampler.split(self._reader.heads(record.value), record.key)
        return self._opening(record.value, split.kept) if split.kept else {}

    def _opening(self, value: bytes | None, kept: frozenset[str]) -> dict[str, list[T]]:
        groups = self._reader.parts(value, kept.__contains__)
        opening = {group: self._reader.opening(parts) for group, parts in groups.items()}
        return {group: parts for group, parts in opening.items() if parts}

    async def become(self, record: Record, parts: list[T]) -> None:
        """Build the events of one group's parts, and pass them to the intake."""
        reader = self._reader
        try:
            reading = await read_beside(reader.size(parts), reader.read, parts)
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        for family in reading.silent:
            self._counts.count("judgestream_traces_without_content_total", family)
        if reading.why_none is not None:
            self._counts.count_event("skipped", reading.why_none)
        for event in reading.events:
            await self._intake.take(record, event)
        await asyncio.sleep(0)  # a record may hold hundreds of groups
