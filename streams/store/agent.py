"""The store's agent: reads the topics independently of the other agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import structlog
from aiokafka.errors import KafkaError

from streams.errors import StoreDamagedError, StoreError
from streams.kafka.following import Following, Read
from streams.settings import KafkaSettings, Settings
from streams.store import retention
from streams.store.database import set_aside
from streams.store.decoding import Decoder
from streams.store.items import Batch
from streams.store.writer import Writer

_log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")

AGAIN_SECONDS: Final = 5.0
"""Pause before a retry after an error of disk or broker."""
TIDY_SECONDS: Final = 300.0
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class Keeping:
    """What the store keeps.

    Attributes:
        days: Maximum age of answers.
        bytes: Maximum size of the file.
    """

    days: int
    bytes: int

    def oldest(self, now: float) -> int:
        """Return the time of the oldest answer to keep, in milliseconds since 1970."""
        return round((now - self.days * _DAY_SECONDS) * 1000)


class StoreAgent:
    """Keeps the store up to date until it is cancelled.

    Its errors (a full disk, a damaged file) do not affect other agents: it logs them, and retries or rebuilds
    the store from the topics.

    Args:
        path: The file.
        kafka: The broker's settings.
        decoder: Decodes the topics' records.
        keeping: What to keep.
        now: Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        path: Path,
        *,
        kafka: KafkaSettings,
        decoder: Decoder,
        keeping: Keeping,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._kafka = kafka
        self._decoder = decoder
        self._keeping = keeping
        self._now = now
        self._tidied = 0.0
        self._writing: asyncio.Task[int] | None = None
        self.trouble: str | None = None
        """The current error; None if there is none."""
        self.behind: int | None = None
        """Number of records not in the store yet; None before the first poll."""
        self.last_turn: float | None = None
        """Time of the last poll or error, on the monotonic clock."""
        self.verdicts = 0
        """Number of new verdicts since the start."""

    @property
    def coordinator_answered(self) -> None:
        """Do nothing: it reads without a group."""

    @property
    def assigned(self) -> bool:
        """Whether it has read the topics."""
        return self.behind is not None

    async def run(self) -> None:
        """Read and write until cancelled."""
        while True:
            try:
                await self._follow()
            except StoreDamagedError as error:
                aside = await asyncio.to_thread(set_aside, self._path)
                _log.error("the store is rebuilt from the topics", error=str(error), set_aside=str(aside))
            except (StoreError, KafkaError, OSError) as error:
                self._note(f"{error}" if isinstance(error, StoreError) else repr(error))
                await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self) -> None:
        writer = await _to_its_end(asyncio.to_thread(Writer, self._path))
        try:
            async with Following(self._kafka, self._decoder.topics, writer.positions()) as following:
                async for read in following.reads():
                    await self._take(writer, read)
        finally:
            await self._written()
            await _to_its_end(asyncio.to_thread(writer.close))

    async def _take(self, writer: Writer, read: Read) -> None:
        # Decode and write in threads, so that other agents do not wait and the next batch is decoded during
        # the write.
        batch = await asyncio.to_thread(self._decode, read)
        await self._written()
        if batch is not None:
            self._writing = asyncio.create_task(asyncio.to_thread(writer.write, batch))
        if read.behind == 0:
            await self._written()
        self.behind = read.behind
        self.last_turn = time.monotonic()
        if self.trouble is not None:
            _log.info("the store can be written again")
            self.trouble = None
        if self._now() - self._tidied >= TIDY_SECONDS and read.behind == 0:
            self._tidied = self._now()
            await _to_its_end(asyncio.to_thread(self._tidy, writer))

    async def _written(self) -> None:
        """Wait until the current batch is written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            self.verdicts += await _to_its_end(writing)

    def _decode(self, read: Read) -> Batch | None:
        if not read.records:
            return None
        batch = self._decoder.batch(read.records, read.positions, oldest=self._keeping.oldest(self._now()))
        if batch.unreadable:
            _log.warning("skipped records with an unknown format", records=batch.unreadable)
        return batch

    def _tidy(self, writer: Writer) -> None:
        gone = retention.forget_older(writer, self._keeping.oldest(self._now()))
        gone += retention.keep_below(writer, self._keeping.bytes)
        if gone:
            _log.info("deleted old verdicts and texts", count=gone)

    def _note(self, trouble: str) -> None:
        self.last_turn = time.monotonic()
        if self.trouble is None:
            _log.error("the store cannot be written; retrying", error=trouble)
        self.trouble = trouble


def open_agent(settings: Settings) -> StoreAgent:
    """Build the store's agent from the settings."""
    kept = settings.store
    return StoreAgent(
        kept.path,
        kafka=settings.kafka,
        decoder=Decoder(settings.topics, settings.metrics, kept.texts),
        keeping=Keeping(days=kept.keep_days, bytes=round(kept.max_gigabytes * 1e9)),
    )


async def _to_its_end(work: Awaitable[T]) -> T:
    """Wait for a thread even if cancelled: it cannot be stopped, and the file is closed next."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
