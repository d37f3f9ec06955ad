"""The store's agent: reads the topics beside the other agents, whose work does not wait for it."""

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
"""After trouble with the disk or the broker it is retried so much later."""
TIDY_SECONDS: Final = 300.0
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class Keeping:
    """What stays in the store.

    Attributes:
        days: How long, by when an answer was given.
        bytes: How much, for the whole file.
    """

    days: int
    bytes: int

    def oldest(self, now: float) -> int:
        """From which moment on, in milliseconds since 1970."""
        return round((now - self.days * _DAY_SECONDS) * 1000)


class StoreAgent:
    """Keeps the store up to date until it is cancelled.

    Trouble of its own (a full disk, a damaged file) stops nothing but the store: it says so, and retries
    or rebuilds from the topics.

    Args:
        path: The file.
        kafka: Where the broker is.
        decoder: What lies on which topic.
        keeping: What stays.
        now: Tells the time in seconds since 1970.
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
        """Why the store is not kept up to date at present; None while it is."""
        self.behind: int | None = None
        """Records that are on the topics and not in the store yet; None before the first look."""
        self.last_turn: float | None = None
        """When it last read or tried to, on the monotonic clock."""
        self.verdicts = 0
        """New ones since the start."""

    @property
    def coordinator_answered(self) -> None:
        """Nothing: it reads without a group."""

    @property
    def assigned(self) -> bool:
        """Whether it reads."""
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
        # In threads: neither decoding nor writing keeps the other agents waiting, and one batch is decoded
        # while the one before it is written.
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
        """Wait until the batch that is being written is."""
        writing, self._writing = self._writing, None
        if writing is not None:
            self.verdicts += await _to_its_end(writing)

    def _decode(self, read: Read) -> Batch | None:
        if not read.records:
            return None
        batch = self._decoder.batch(read.records, read.positions, oldest=self._keeping.oldest(self._now()))
        if batch.unreadable:
            _log.warning("skipped records with a foreign format", records=batch.unreadable)
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
    """Make the agent that the settings describe."""
    kept = settings.store
    return StoreAgent(
        kept.path,
        kafka=settings.kafka,
        decoder=Decoder(settings.topics, settings.metrics, kept.texts),
        keeping=Keeping(days=kept.keep_days, bytes=round(kept.max_gigabytes * 1e9)),
    )


async def _to_its_end(work: Awaitable[T]) -> T:
    """Wait for a thread also while this is cancelled: it continues anyway, and the file is closed next."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
