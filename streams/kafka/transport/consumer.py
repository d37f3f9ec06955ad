"""Read partitions, deliver records while there is room, and commit in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service
from mode.utils.futures import notify

from streams.kafka.access.errors import DENIED
from streams.kafka.transport.consumer_thread import ConsumerThread
from streams.kafka.transport.delivery import OffsetBook, Taken, deliver
from streams.kafka.transport.ranges import Move
from streams.kafka.transport.room import Loads
from streams.kafka.transport.unreadable import Unreadable
from streams.telemetry.exposition import PartitionState

if TYPE_CHECKING:
    from streams.kafka.transport.driver import Transport

FETCH_TIMEOUT_SECONDS: Final = 1.0
"""Timeout of one fetch, and so the interval at which the loop sets `last_turn`."""
LAST_COMMIT_SECONDS: Final = 5.0
"""Timeout of the last commit; records that it misses are redelivered to the next owner."""
STEP_RECORDS: Final = 2_000
"""Records filtered before control returns to the event loop."""


class Consumer(driver.Consumer):
    """Tracks the assigned partitions: read, in flight and committed. Runs on the application's event loop."""

    transport: Transport
    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plan = self.transport.plan
        self.epoch = 0
        """Changes with every assignment; the thread compares it before it returns records."""
        self.last_turn: float | None = None
        """Time of the delivery loop's last turn, on the monotonic clock; None before its start."""
        self._books: dict[TP, OffsetBook] = {}
        self._committed: dict[TP, int] = {}
        self.uncommitted = 0
        """After a stop: records that were read and not committed, which their next owner reads again."""
        self._parked: dict[TP, Sequence[Any]] = {}
        self._loads = Loads(self.plan.rooms, self.plan.default_room)
        self._seeks: dict[TP, int] = {}

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
        """Time of the coordinator's last response (monotonic); None before the first assignment."""
        membership = self._thread.membership
        return None if membership is None else membership.last_answer

    @property
    def is_member(self) -> bool:
        """Whether the group has confirmed this worker's assignment within the session timeout."""
        membership = self._thread.membership
        timeout: float = self.app.conf.broker_session_timeout
        return membership is not None and time.monotonic() - membership.confirmed <= timeout

    def polled(self, topic: str, partition: int) -> float | None:
        """Return when the broker last answered for a partition; None if a record is unread.

        While the topic's room is full, return the time: nothing else can be read.
        """
        tp = TP(topic, partition)
        if topic in self._loads.held:
            return time.time()
        book = self._books.get(tp)
        if book is None or book.position is None or tp not in self._thread.assignment():
            return None
        answered = self._thread.answered(tp)  # before the end is read, so that this is not older
        end = self.highwater(tp)
        return answered if end is not None and book.position >= end else None

    def partitions(self) -> Iterator[PartitionState]:
        """Yield the state of every assigned partition."""
        if not self._books:
            return  # before the first assignment the driver has no consumer to ask
        assigned = self._thread.assignment()
        for tp, book in list(self._books.items()):
            end = self.highwater(tp) if tp in assigned else None
            at = book.committable
            yield PartitionState(
                topic=tp.topic,
                partition=tp.partition,
                lag_records=None if end is None or at is None else max(end - at, 0),
                oldest_timestamp=book.oldest_timestamp,
                unfinished=book.unfinished,
            )

    def _wanted(self) -> set[TP] | None:
        """Return partitions with room and nothing parked, or None if parked records can be delivered.

        Also called from the thread; it only reads.
        """
        held, parked = self._loads.held, self._parked
        if any(tp.topic not in held for tp in tuple(parked)):
            return None
        return {tp for tp in tuple(self._books) if tp.topic not in held and tp not in parked}

    # Acknowledgements

    def ack(self, message: Any) -> bool:
        """Finish a record; ignore one of an earlier assignment."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        tp = message.tp
        if self._loads.leave(tp.topic, message.load, message.size):
            self._thread.wake()
        book = self._books.get(tp)
        if book is None or book is not message.book:
            return False
        return book.finish(message.offset)

    def on_buffer_full(self, tp: TP) -> None:
        """Do nothing: room bounds the records in flight, not the stream queue."""

    def on_buffer_drop(self, tp: TP) -> None:
        """Do nothing, as `on_buffer_full`."""

    # Commits

    async def maybe_wait_for_commit_to_finish(self) -> bool:
        """Wait for a commit in progress, and return False so that the caller still commits.

        Faust skips the second commit. The last commit before a stop or rebalance would then miss records
        finished meanwhile, and they would be redelivered.
        """
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
            ends = {tp: book.position for tp, book in self._books.items() if book.position is not None}
            self.uncommitted = sum(end - self._committed.get(tp, end) for tp, end in ends.items())

    # Assignments

    def _close_books(self) -> None:
        """Clear the state of the assignment; a rebalance revokes every partition."""
        self.epoch += 1
        for kept in (self._books, self._committed, self._parked, self._loads):
            kept.clear()
        self._thread.wake()

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop delivery, wait up to the bound for the records in flight, commit, and close the books."""
        self.stop_flow()
        self.app.flow_control.suspend()
        self.app.flow_control.clear()
        self.epoch += 1
        self._thread.wake()
        if self._books:
            if self.plan.finish is not None:
                await self.plan.finish(self.plan.finish_seconds)
            await self.commit()
        self._close_books()
        await super().on_partitions_revoked(revoked)

    async def perform_seek(self) -> None:
        """Start every assigned partition from its committed offset, with a new book."""
        self._close_books()
        starts, committed = await self._thread.rewind()
        self._books = {tp: OffsetBook(start) for tp, start in starts.items()}
        # The start offsets are committed, too, so that a crash does not change where the group starts.
        self._committed = dict(committed)
        if self.plan.assigned is not None:
            self.plan.assigned(committed.keys())

    async def seek(self, partition: TP, offset: int) -> None:
        """Read a partition from `offset` next, forwards or backwards.

        Records in flight are abandoned: finishing them commits nothing.
        """
        tp = TP(partition.topic, partition.partition)
        self._seeks[tp] = self._seeks.get(tp, 0) + 1
        self._reopen(tp, offset)
        await self._thread.seek_now(tp, offset)

    async def on_move(self, move: Move) -> None:
        """Continue a partition at another offset, after its offset was out of range, and report it."""
        tp = TP(move.topic, move.partition)
        if move.why == "shorter" and tp in self._books:
            await self.seek(tp, move.after)
        if self.plan.moved is not None:
            self.plan.moved(move)

    def _reopen(self, tp: TP, offset: int) -> None:
        """Close the book of a partition and open a new one at `offset`."""
        self._parked.pop(tp, None)
        self._books[tp] = OffsetBook(offset)

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
        """Deliver parked records that have room, then fetch."""
        epoch = self.epoch
        for tp in tuple(self._parked):
            if tp.topic not in self._loads.held and tp in self._parked:
                await self._take(tp, self._parked.pop(tp), epoch)
        try:
            taken = await self._thread.fetch(self._wanted, epoch, FETCH_TIMEOUT_SECONDS)
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
        for partition, batch in taken.records.items():
            tp = TP(partition.topic, partition.partition)
            if self.epoch != epoch:
                return
            if taken.seeks.get(tp, 0) == self._seeks.get(tp, 0):
                await self._take(tp, batch, epoch)
            await asyncio.sleep(0)
        if self.epoch == epoch:
            self._pass_over(taken)

    def _pass_over(self, taken: Taken) -> None:
        """Advance past offsets without records: transaction markers, aborted and removed records."""
        for tp, position in taken.positions.items():
            book = self._books.get(tp)
            if (
                book is not None
                and tp not in self._parked
                and taken.seeks.get(tp, 0) == self._seeks.get(tp, 0)
            ):
                book.advance(position)

    async def _take(self, tp: TP, records: Sequence[Any], epoch: int) -> None:
        """Deliver or skip the records of one partition in order; park those without room."""
        book = self._books.get(tp)
        if book is None:
            return  # the partition was revoked
        records = self._not_read_before(tp, records, book)
        if not records:
            return
        if tp.topic in self._loads.held:
            # Another partition of the topic, earlier in the same fetch, filled the room.
            self._parked[tp] = records
            return
        predicate = self.plan.predicates.get(tp.topic)
        # A bound method: calling an object costs more, and this runs for every record.
        keep = None if predicate is None else predicate.__call__
        load = self._loads.of(tp.topic)
        generation_id = self.app.consumer_generation_id
        for index, record in enumerate(records):
            # Unreadable records are not filtered.
            if keep is None or type(record) is Unreadable or keep(record):
                await self.callback(deliver(tp, record, book, load, generation_id=generation_id))
            elif (index + 1) % STEP_RECORDS:
                continue
            else:
                await asyncio.sleep(0)
            # A rebalance or seek may have happened during either await.
            if self.epoch != epoch or self._books.get(tp) is not book:
                return
            if load.full:
                self._loads.held.add(tp.topic)
                break
        book.advance(records[index].offset + 1)
        if index + 1 < len(records):
            self._parked[tp] = records[index + 1 :]

    def _not_read_before(self, tp: TP, records: Sequence[Any], book: OffsetBook) -> Sequence[Any]:
        """Drop records that were already delivered: the partition was not moved back (see `on_move`)."""
        position = book.position
        if position is None or records[0].offset >= position:
            return records
        self.log.warning("Records of %r from offset %s on were read before; skipped", tp, records[0].offset)
        return [record for record in records if record.offset >= position]

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: `streams.worker.health` checks liveness from `last_turn`."""
