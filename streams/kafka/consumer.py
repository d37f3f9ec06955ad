"""Read partitions, deliver records while there is room, and commit up to the first unfinished record.

`tests/integration/test_stock_holes.py` shows each difference from Faust's driver. The **epoch** keeps the two
threads consistent: it changes with every assignment and every move to another offset. A fetch of an earlier
epoch delivers nothing, and all partitions are then seeked to where their books stand.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service
from mode.utils.futures import notify

from streams.kafka.access.errors import DENIED
from streams.kafka.consumer_thread import ConsumerThread
from streams.kafka.decoding import Unreadable
from streams.kafka.delivery import DEFAULT_LIMIT, BufferLimit, Buffers, OffsetBook, deliver
from streams.kafka.offsets import Move, Start, confirmed_bounds, decide
from streams.telemetry.exposition import PartitionState

if TYPE_CHECKING:
    from streams.kafka.app import Transport

FETCH_TIMEOUT_SECONDS: Final = 1.0
"""Timeout of a fetch, and so the longest time between two values of `last_turn`."""
LAST_COMMIT_SECONDS: Final = 5.0
"""Timeout of the last commit; records that it misses are redelivered to the next owner."""

Predicate = Callable[[Any], bool]


@dataclass(slots=True)
class ConsumerOptions:
    """What the driver needs besides Faust's settings.

    Args:
        client: Options of aiokafka's clients for the connection; `build_app` sets them.
        predicates: Filters by topic; a topic without one delivers every record.
        finish: Called when partitions are revoked: waits up to `finish_seconds` for the records in flight.
        starts: By topic, where a group without a committed offset starts; by default at the oldest record.
        moved: Called for every partition that continues at another offset than the next one.
    """

    client: Mapping[str, Any] = field(default_factory=dict)
    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    limits: Mapping[str, BufferLimit] = field(default_factory=dict)
    default_limit: BufferLimit = DEFAULT_LIMIT
    finish: Callable[[float], Awaitable[None]] | None = None
    finish_seconds: float = 10.0
    starts: Mapping[str, Start] = field(default_factory=dict)
    moved: Callable[[Move], None] | None = None


class Consumer(driver.Consumer):
    """Runs on the application's event loop."""

    transport: Transport
    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.options = self.transport.options
        self.epoch = 0
        self.last_turn: float | None = None
        """Time of the delivery loop's last turn, on the monotonic clock; None before its start."""
        self._books: dict[TP, OffsetBook] = {}
        self._committed: dict[TP, int] = {}
        self.uncommitted = 0
        """After a stop: records that were read and not committed, which their next owner reads again."""
        self._parked: dict[TP, Sequence[Any]] = {}
        self._examined: dict[TP, asyncio.Task[None]] = {}
        self._buffers = Buffers(self.options.limits, self.options.default_limit)

    def _new_consumer_thread(self) -> ConsumerThread:
        # The same kind of event loop as the application's; mode would create a standard asyncio loop.
        thread_loop = type(self.loop)()
        return ConsumerThread(self, thread_loop=thread_loop, loop=self.loop, beacon=self.beacon)

    # State

    @property
    def assigned(self) -> bool:
        """Whether the group has assigned partitions, possibly none: a standby worker is ready, too."""
        return bool(self.can_resume_flow.is_set())

    @property
    def coordinator_answered(self) -> float | None:
        return self._thread.coordinator_answered

    @property
    def is_member(self) -> bool:
        """Whether the group has confirmed this worker's assignment within the session timeout."""
        timeout: float = self.app.conf.broker_session_timeout
        return time.monotonic() - self._thread.confirmed <= timeout

    def polled(self, topic: str, partition: int) -> float | None:
        """Return when the broker last answered, in seconds since the epoch; now if the buffer is full.

        None if a record is unread, the partition is not assigned, or nothing was answered yet.
        """
        tp = TP(topic, partition)
        if topic in self._buffers.closed:
            return time.time()
        book = self._books.get(tp)
        if book is None or tp not in self._thread.assignment():
            return None
        answered = self._thread.answered(tp)  # before the end is read, so that this is not older
        end = self.highwater(tp)
        return answered if end is not None and book.position >= end else None

    def partitions(self) -> Iterator[PartitionState]:
        if not self._books:
            return  # before the first assignment the driver has no consumer to ask
        assigned = self._thread.assignment()
        for tp, book in list(self._books.items()):
            end = self.highwater(tp) if tp in assigned else None
            lag = None if end is None else max(end - book.committable, 0)
            finished = book.position - book.unfinished
            yield PartitionState(
                tp.topic, tp.partition, lag, book.oldest_timestamp, book.unfinished, finished
            )

    # Acknowledgements and commits

    def ack(self, message: Any) -> bool:
        """Finish a record; ignore one of an earlier assignment."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        if self._buffers.remove(message.tp.topic, message.buffer, message.size):
            self._thread.wake()
        book: OffsetBook = message.book
        return self._books.get(message.tp) is book and book.finish(message.offset)

    def on_buffer_full(self, tp: TP) -> None:
        """Do nothing: buffers bound the records in flight, not the stream queue."""

    on_buffer_drop = on_buffer_full

    async def maybe_wait_for_commit_to_finish(self) -> bool:
        """Return False so that the caller still commits: Faust would skip records finished meanwhile."""
        while (under_way := self._commit_fut) is not None:
            await asyncio.wait({under_way})
        return False

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return (tp for tp in tuple(self._books) if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        book = self._books.get(tp)
        return None if book is None else book.committable

    def _should_commit(self, tp: TP, offset: int) -> bool:
        return self._committed.get(tp) != offset

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:  # noqa: ARG002 - the signature is Faust's
        # No flush of the producer: a record is acknowledged only after its output was confirmed.
        books = {tp: self._books[tp] for tp in offsets if tp in self._books}
        assigned = self.assignment()
        mine = {tp: offsets[tp] for tp in books if tp in assigned}
        try:
            if not mine or not await self._thread.commit(mine):
                return False
        except driver.ConsumerStoppedError:
            return False
        except DENIED as error:
            await self.app.crash(error)
            return False
        for tp, offset in mine.items():
            if self._books.get(tp) is books[tp]:
                self._committed[tp] = offset
        return True

    async def on_stop(self) -> None:
        """Commit a last time, with a timeout: an unavailable broker must not block the stop."""
        try:
            await asyncio.wait_for(super().on_stop(), LAST_COMMIT_SECONDS)
        except TimeoutError:
            self.log.warning("The last commit took longer than %s s; stopped without it", LAST_COMMIT_SECONDS)
        finally:
            ends = {tp: book.position for tp, book in self._books.items()}
            self.uncommitted = sum(end - self._committed.get(tp, end) for tp, end in ends.items())

    # Assignments and moves

    def _begin_epoch(self) -> None:
        self.epoch += 1
        self._parked.clear()
        self._thread.wake()

    def _close_books(self) -> None:
        """Clear the state of the assignment; a rebalance revokes every partition."""
        self._begin_epoch()
        for task in self._examined.values():
            task.cancel()
        for kept in (self._books, self._committed, self._examined, self._buffers):
            kept.clear()

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop delivery, wait up to the bound for the records in flight, commit, and close the books."""
        self.stop_flow()
        self.app.flow_control.suspend()
        self.app.flow_control.clear()
        self._begin_epoch()
        if self._books:
            if self.options.finish is not None:
                await self.options.finish(self.options.finish_seconds)
            await self.commit()
        self._close_books()
        await super().on_partitions_revoked(revoked)

    async def perform_seek(self) -> None:
        """Start every assigned partition from its committed offset, with a new book."""
        self._close_books()
        epoch = self.epoch
        starts, committed = await self._thread.rewind(epoch)
        if self.epoch == epoch:  # else revoked meanwhile; the next assignment seeks again
            self._books = {tp: OffsetBook(start) for tp, start in starts.items()}
            # The start offsets are committed, too, so that a crash does not change where the group starts.
            self._committed = dict(committed)

    async def seek(self, partition: TP, offset: int) -> None:
        """Read a partition from `offset` next; backwards, finishing records in flight commits nothing."""
        tp = TP(partition.topic, partition.partition)
        self._begin_epoch()
        book = self._books.get(tp)
        if book is None or offset < book.position:
            self._books[tp] = OffsetBook(offset)
        else:
            book.advance(offset)
        await self._thread.seek_all({tp: book.position for tp, book in self._books.items()})

    def _examine(self, error: OffsetOutOfRangeError) -> None:
        """Stop reading a partition whose offset is reported out of range, until that is decided."""
        for place, offset in error.args[0].items():
            tp = TP(place.topic, place.partition)
            book = self._books.get(tp)
            if book is not None and tp not in self._examined:
                task = asyncio.create_task(self._settle(tp, offset, book))
                self._examined[tp] = task
                task.add_done_callback(self._settled)

    def _settled(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception) and not isinstance(error, driver.ConsumerStoppedError):
            self.app.give_up(error)

    async def _settle(self, tp: TP, offset: int, book: OffsetBook) -> None:
        bounds = await confirmed_bounds(offset, lambda: self._thread.bounds(tp))
        after = decide(offset, bounds)
        if self._books.get(tp) is not book:
            return  # rebalanced meanwhile; the new owner examines the offset
        del self._examined[tp]
        await self.seek(tp, after)
        if after == offset:
            self.log.warning("Offset %s of %r was reported out of range but is not", offset, tp)
        elif self.options.moved is not None:
            self.options.moved(
                Move(tp.topic, tp.partition, offset, after, "retention" if after > offset else "shorter")
            )

    # Reading

    async def _drain_messages(self, fetcher: Service) -> None:
        try:
            while not (self.should_stop or fetcher.should_stop):
                self.last_turn = time.monotonic()
                if not self.flow_active:
                    await self.wait_first(self.can_resume_flow.wait(), timeout=FETCH_TIMEOUT_SECONDS)
                    continue
                await self._turn()
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise

    async def _turn(self) -> None:
        epoch = self.epoch
        for tp in tuple(self._parked):
            if tp in self._parked and tp.topic not in self._buffers.closed:
                await self._take(tp, self._parked.pop(tp), epoch)
        try:
            fetched = await self._thread.fetch(self._wanted, epoch, FETCH_TIMEOUT_SECONDS)
        except OffsetOutOfRangeError as error:
            self._examine(error)
            return
        except DENIED as error:
            # If raised here, it would be logged with a useless stack trace.
            await self.app.crash(error)
            await self.sleep(FETCH_TIMEOUT_SECONDS)
            return
        except KafkaError as error:
            if not error.retriable:
                raise
            self.log.warning("Fetching failed; retrying: %r", error)
            await self.sleep(FETCH_TIMEOUT_SECONDS)
            return
        for place, records in fetched.records.items():
            await self._take(TP(place.topic, place.partition), records, epoch)
            await asyncio.sleep(0)
        if self.epoch == epoch:
            self._pass_over(fetched.positions)

    def _pass_over(self, positions: Mapping[TopicPartition, int]) -> None:
        """Advance past offsets without records: transaction markers, aborted and removed records."""
        for place, position in positions.items():
            if (tp := TP(*place)) not in self._parked:
                self._books[tp].advance(position)

    def _wanted(self) -> set[TP] | None:
        """Return partitions to fetch; None if parked records can be delivered. Runs in the thread."""
        parked, closed = tuple(self._parked), self._buffers.closed
        if any(tp.topic not in closed for tp in parked):
            return None
        return {
            tp
            for tp in tuple(self._books)
            if tp not in parked and tp not in self._examined and tp.topic not in closed
        }

    async def _take(self, tp: TP, records: Sequence[Any], epoch: int) -> None:
        """Deliver or skip the records of one partition in order; park those without room."""
        if self.epoch != epoch:
            return
        if tp.topic in self._buffers.closed:
            # Another partition of the topic, earlier in the same fetch, filled the buffer.
            self._parked[tp] = records
            return
        book, buffer = self._books[tp], self._buffers.of(tp.topic)
        predicate = self.options.predicates.get(tp.topic)
        # A bound method: calling an object costs more, and this runs for every record.
        keep: Any = getattr(predicate, "__call__", None)  # noqa: B004 - as above
        generation_id = self.app.consumer_generation_id
        for index, record in enumerate(records):
            # Unreadable records are not filtered.
            if keep is None or type(record) is Unreadable or keep(record):
                await self.callback(deliver(tp, record, book, buffer, generation_id=generation_id))
            elif (index + 1) % 2_000:  # then control returns to the event loop
                continue
            else:
                await asyncio.sleep(0)
            if self.epoch != epoch:  # a rebalance or a move during either await
                return
            if buffer.full:
                self._buffers.closed.add(tp.topic)
                break
        book.advance(records[index].offset + 1)
        if index + 1 < len(records):
            self._parked[tp] = records[index + 1 :]

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: `streams.worker.server` checks liveness from `last_turn`."""
