"""Faust's Kafka driver with commits in order, push-down of skips, and room per topic.

What differs from the stock driver, and why:

- Offsets are committed up to the first unfinished record only (`streams.offsets`). The stock bookkeeping starts from
  the first acknowledged record, so that a group without committed offsets commits past work in flight.
- A predicate sees the raw records of the events topic before they become Faust messages; a record that it turns
  down costs what fetching costs.
- A topic is asked for records only while it has room, counted in records and in bytes. What was fetched beyond the
  room waits here. Nothing ever blocks on a full stream queue, so one slow stage neither stops the others nor keeps
  the consumer from polling.
- A message belongs to the book that was open when it was delivered. After a rebalance or a seek there is a new book,
  and an acknowledgement that comes late changes nothing.
- A commit or a fetch that fails in a way that may pass is tried again; it does not stop the worker.

Everything here runs on the application's event loop, except the methods of `ConsumerThread` that say otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import OffsetAndMetadata, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    ProducerClosed,
    RebalanceInProgressError,
)
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from mode import Service
from mode.utils.futures import notify

from streams.offsets import OffsetBook, PartitionState

Predicate = Callable[[Any], bool]
"""Takes a raw aiokafka record, says whether it is delivered."""

FETCH_TIMEOUT_SECONDS: Final = 1.0
"""How long one look for new records waits; also how often the loop shows that it is alive."""
STEP_RECORDS: Final = 2_000
"""Records looked at before the event loop gets its turn."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much of one topic may be delivered and unfinished at once.

    Args:
        records: At least 1.
        bytes: Keys and values together; one record is let in whatever its size.
    """

    records: int
    bytes: int

    def __post_init__(self) -> None:
        if self.records < 1 or self.bytes < 1:
            raise ValueError(
                f"records and bytes must be at least 1, got {self.records} and {self.bytes}; raise them"
            )


@dataclass(slots=True)
class _Load:
    """What of one topic is delivered and unfinished."""

    room: Room
    records: int = 0
    bytes: int = 0

    @property
    def full(self) -> bool:
        return self.records >= self.room.records or self.bytes >= self.room.bytes

    @property
    def eased(self) -> bool:
        """Whether so much is done that fetching again is worth a round trip."""
        return self.records * 4 <= self.room.records * 3 and self.bytes * 4 <= self.room.bytes * 3


class Delivered(ConsumerMessage):
    """A message that knows the book and the load it was counted in."""

    __slots__ = ("book", "load", "size")

    book: OffsetBook
    load: _Load
    size: int


@dataclass(slots=True)
class Plan:
    """What the application wants from its transport.

    Args:
        predicates: By topic; a topic without one has every record delivered.
        rooms: By topic.
        default_room: For the topics that `rooms` does not name.
        finish: Called when partitions are taken away: waits, within the seconds given, for the records in hand
            and gives up the rest.
        finish_seconds: The bound that `finish` is given.
        group_instance_id: Static membership, or None.
        producer: Further arguments of the producer.
    """

    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    rooms: Mapping[str, Room] = field(default_factory=dict)
    default_room: Room = Room(records=512, bytes=64 * 1024 * 1024)
    finish: Callable[[float], Awaitable[None]] | None = None
    finish_seconds: float = 10.0
    producer: Mapping[str, Any] = field(default_factory=dict)


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Holds the aiokafka consumer, on an event loop of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._wake = asyncio.Event()
        # Seeks carried out, by partition; only this thread writes it. A batch that was taken before a seek can be
        # told by it.
        self.seeks: dict[TP, int] = {}

    def wake(self) -> None:
        """Have the current look for records return at once. Called from any thread."""
        if not self.thread_loop.is_closed():
            self.thread_loop.call_soon_threadsafe(self._wake.set)

    async def fetch(
        self, wanted: Callable[[], set[TP] | None], epoch: int, timeout_seconds: float
    ) -> tuple[Mapping[TP, list[Any]], dict[TP, int]]:
        """Take what has arrived for the wanted partitions, waiting for the first of it.

        Args:
            wanted: Gives the partitions that have room now, or None when the caller has something better to do.
            epoch: The epoch of the caller; in another nothing is taken.
            timeout_seconds: How long to wait at most.

        Returns:
            Records by partition, and the seeks that had been carried out when they were taken.
        """
        result: tuple[Mapping[TP, list[Any]], dict[TP, int]] = await self.call_thread(
            self._fetch, wanted, epoch, timeout_seconds
        )
        return result

    async def _fetch(
        self, wanted: Callable[[], set[TP] | None], epoch: int, timeout_seconds: float
    ) -> tuple[Mapping[TP, list[Any]], dict[TP, int]]:
        """Runs in the thread. Taking is one step without a pause, so that a flow stop or a seek cannot fall into it."""
        consumer = self._ensure_consumer()
        fetcher, subscriptions = consumer._fetcher, consumer._subscription  # noqa: SLF001 - aiokafka has no way to fetch from a set of partitions
        deadline = time.monotonic() + timeout_seconds
        # Within the context the member counts as polling, however long nothing is wanted.
        with subscriptions.fetch_context():
            while True:
                if consumer._closed or fetcher._closed:  # noqa: SLF001 - as above
                    raise driver.ConsumerStoppedError
                if not self.consumer.flow_active or self.consumer.epoch != epoch:
                    return {}, {}
                self._wake.clear()
                partitions = wanted()
                if partitions is None:
                    return {}, {}
                if partitions and not subscriptions.reassignment_in_progress:
                    records = await fetcher.fetched_records(partitions, timeout=0)
                    if records:
                        return records, dict(self.seeks)
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return {}, {}
                await self._wait_for_records(fetcher, remaining)

    async def _wait_for_records(self, fetcher: Any, timeout_seconds: float) -> None:
        arrival = fetcher._create_fetch_waiter()  # noqa: SLF001 - as in _fetch
        woken = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({arrival, woken}, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            if not arrival.done():
                arrival.cancel()
        if arrival.done() and not arrival.cancelled():
            arrival.result()  # raises what the coordinator has to say (authorisation)

    async def commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit; False where the offsets did not arrive and may be tried again."""
        return bool(await self.call_thread(self._commit_quietly, offsets))

    async def _commit_quietly(self, offsets: Mapping[TP, int]) -> bool:
        """Runs in the thread."""
        try:
            await self._ensure_consumer().commit(
                {TopicPartition(*tp): OffsetAndMetadata(offset, "") for tp, offset in offsets.items()}
            )
        except (CommitFailedError, IllegalStateError, RebalanceInProgressError) as error:
            # The partition is somebody else's, or about to be: they start from the last commit that arrived.
            self.log.info("Commit refused, the group is rebalancing: %r", error)
            return False
        except KafkaError as error:
            if not error.retriable:
                raise
            self.log.warning("Commit failed and will be tried again: %r", error)
            return False
        return True

    async def rewind(self) -> Mapping[TP, int | None]:
        """Go back to what is committed, on every assigned partition.

        Returns:
            The offset that each partition starts from; None where nothing is committed (the earliest record).
        """
        starts: Mapping[TP, int | None] = await self.call_thread(self._rewind)
        return starts

    async def _rewind(self) -> Mapping[TP, int | None]:
        """Runs in the thread."""
        consumer = self._ensure_consumer()
        partitions = list(consumer.assignment())
        offsets = await asyncio.gather(*(consumer.committed(partition) for partition in partitions))
        fresh = [partition for partition, offset in zip(partitions, offsets, strict=True) if offset is None]
        for partition, offset in zip(partitions, offsets, strict=True):
            if offset is not None:
                consumer.seek(partition, offset)
        if fresh:
            # Without it, what an abandoned fetch had already taken would be missing.
            await consumer.seek_to_beginning(*fresh)
        return {TP(*partition): offset for partition, offset in zip(partitions, offsets, strict=True)}

    async def seek_now(self, tp: TP, offset: int) -> None:
        """Read `tp` from `offset` next."""
        await self.call_thread(self._seek_now, tp, offset)

    async def _seek_now(self, tp: TP, offset: int) -> None:
        """Runs in the thread."""
        self._ensure_consumer().seek(TopicPartition(*tp), offset)
        self.seeks[tp] = self.seeks.get(tp, 0) + 1


class Consumer(driver.Consumer):
    """Reads, delivers what has room, and commits in order."""

    transport: Transport
    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plan = self.transport.plan
        self.epoch = 0
        """Changes with every assignment; the thread compares it before it takes records."""
        self.last_turn: float | None = None
        """When the delivery loop was last seen alive, on the monotonic clock; None before its start."""
        self._books: dict[TP, OffsetBook] = {}
        self._committed: dict[TP, int] = {}
        self._parked: dict[TP, Sequence[Any]] = {}
        self._loads: dict[str, _Load] = {}
        self._held: set[str] = set()
        self._seeks: dict[TP, int] = {}

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # What stands where

    @property
    def assigned(self) -> bool:
        """Whether the group has said what is to be read here, which may be nothing: a spare worker is at its post."""
        return bool(self.can_resume_flow.is_set())

    def partitions(self) -> Iterator[PartitionState]:
        """Every assigned partition as it stands now."""
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

    def _load(self, topic: str) -> _Load:
        load = self._loads.get(topic)
        if load is None:
            load = self._loads[topic] = _Load(self.plan.rooms.get(topic, self.plan.default_room))
        return load

    def _wanted(self) -> set[TP] | None:
        """Partitions with room and nothing parked, or None when something parked can go on.

        Also called from the thread: it only reads.
        """
        held, parked = self._held, self._parked
        if any(tp.topic not in held for tp in tuple(parked)):
            return None
        return {tp for tp in tuple(self._books) if tp.topic not in held and tp not in parked}

    # Acknowledgements

    def ack(self, message: Any) -> bool:
        """Finish a record; one of an earlier assignment is left alone."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        tp, load = message.tp, message.load
        load.records -= 1
        load.bytes -= message.size
        if tp.topic in self._held and load.eased and self._loads.get(tp.topic) is load:
            self._held.discard(tp.topic)
            self._thread.wake()
        book = self._books.get(tp)
        if book is None or book is not message.book:
            return False
        return book.finish(message.offset)

    def on_buffer_full(self, tp: TP) -> None:
        """Room is counted here; the pressure of a stream queue says nothing."""

    def on_buffer_drop(self, tp: TP) -> None:
        """As `on_buffer_full`."""

    # Commits

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return (tp for tp in tuple(self._books) if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        book = self._books.get(tp)
        return None if book is None else book.committable

    def _should_commit(self, tp: TP, offset: int) -> bool:
        return self._committed.get(tp) != offset

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:  # noqa: ARG002 - the signature is Faust's
        # No flush of the producer here: a record is acknowledged only after its output was confirmed.
        books = {tp: self._books[tp] for tp in offsets if tp in self._books}
        assigned = self.assignment()
        mine = {tp: offsets[tp] for tp in books if tp in assigned}
        if not mine or not await self._thread.commit(mine):
            return False
        for tp, offset in mine.items():
            if self._books.get(tp) is books[tp]:
                self._committed[tp] = offset
        return True

    # Assignments

    def _close_books(self) -> None:
        """Forget the assignment. The group protocol gives up everything at a rebalance, so nothing of it stays."""
        self.epoch += 1
        for kept in (self._books, self._committed, self._parked, self._loads):
            kept.clear()
        self._held.clear()
        self._thread.wake()

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop delivering, let what is in hand finish within the bound, commit, and close the books."""
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
        starts = await self._thread.rewind()
        self._books = {tp: OffsetBook(start) for tp, start in starts.items()}
        self._committed = {tp: start for tp, start in starts.items() if start is not None}

    async def seek(self, partition: TP, offset: int) -> None:
        """Read a partition from `offset` next, forwards or backwards.

        Records in hand are given up: nothing is committed when they finish.
        """
        tp = TP(partition.topic, partition.partition)
        self._seeks[tp] = self._seeks.get(tp, 0) + 1
        self._reopen(tp, offset)
        await self._thread.seek_now(tp, offset)

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
        """Deliver what is parked and has room, then look for more."""
        epoch = self.epoch
        for tp in tuple(self._parked):
            if tp.topic not in self._held and tp in self._parked:
                await self._take(tp, self._parked.pop(tp), epoch)
        try:
            records, seeks = await self._thread.fetch(self._wanted, epoch, FETCH_TIMEOUT_SECONDS)
        except KafkaError as error:
            if not error.retriable:
                raise
            self.log.warning("Fetching failed and will be tried again: %r", error)
            await self.sleep(FETCH_TIMEOUT_SECONDS)
            return
        for partition, batch in records.items():
            tp = TP(partition.topic, partition.partition)
            if self.epoch != epoch:
                return
            if seeks.get(tp, 0) == self._seeks.get(tp, 0):
                await self._take(tp, batch, epoch)
            await asyncio.sleep(0)

    async def _take(self, tp: TP, records: Sequence[Any], epoch: int) -> None:
        """Deliver or pass over records of one partition, in order; park what finds no room."""
        book = self._book_to_go_on_with(tp, records[0].offset)
        if book is None:
            return
        if tp.topic in self._held:
            # Another partition of the topic, earlier in the same fetch, took the last of the room.
            self._parked[tp] = records
            return
        keep = self.plan.predicates.get(tp.topic)
        load = self._load(tp.topic)
        for index, record in enumerate(records):
            if keep is None or keep(record):
                await self.callback(self._hand_on(tp, record, book, load))
            elif (index + 1) % STEP_RECORDS:
                continue
            else:
                await asyncio.sleep(0)
            # Either pause may have seen a rebalance or a seek.
            if self.epoch != epoch or self._books.get(tp) is not book:
                return
            if load.full:
                self._held.add(tp.topic)
                break
        book.advance(records[index].offset + 1)
        if index + 1 < len(records):
            self._parked[tp] = records[index + 1 :]

    def _book_to_go_on_with(self, tp: TP, offset: int) -> OffsetBook | None:
        """The book that a batch from `offset` on goes into; None where the partition is somebody else's now."""
        book = self._books.get(tp)
        if book is not None and book.position is not None and offset < book.position:
            # The broker's log is shorter than what was read (topic made anew, or cut): everything comes again.
            self.log.warning("Partition %r goes back from offset %s to %s", tp, book.position, offset)
            self._reopen(tp, offset)
            book = self._books[tp]
        return book

    def _hand_on(self, tp: TP, record: Any, book: OffsetBook, load: _Load) -> Delivered:
        """Note a record as delivered and make the message that says so."""
        message = self._to_message(tp, record)
        message.book = book
        message.load = load
        message.size = (len(record.key) if record.key else 0) + (len(record.value) if record.value else 0)
        book.deliver(record.offset, message.timestamp)
        load.records += 1
        load.bytes += message.size
        return message

    def _to_message(self, tp: TP, record: Any) -> Delivered:
        timestamp = record.timestamp
        return Delivered(
            record.topic,
            record.partition,
            record.offset,
            None if timestamp is None else timestamp / 1000,
            record.timestamp_type,
            record.headers,
            record.key,
            record.value,
            record.checksum,
            record.serialized_key_size,
            record.serialized_value_size,
            tp,
            generation_id=self.app.consumer_generation_id,
        )

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Liveness is `streams.health`'s to judge, from `last_turn`; Faust's own check knows other books."""


class Producer(driver.Producer):
    """Idempotent: a retry of its own never writes a record twice.

    A batch that the broker refuses for good (too large, say) has used up its sequence numbers, and aiokafka does not
    give them back: every later batch to that partition would be out of order. So another producer takes over then.
    What fails until it does is for the caller to send again.
    """

    transport: Transport
    _producer: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        self._renewal = asyncio.Lock()
        self._retired: set[asyncio.Task[None]] = set()
        # Calls that have not handed their record over yet, by producer: one that is closed under them never lets go.
        self._entering: dict[Any, set[asyncio.Future[None]]] = {}

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"enable_idempotence": True, **self.transport.plan.producer}

    async def send(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Hand a record over; what is returned ends when the broker has confirmed it, and must be awaited."""
        producer = self._producer
        entries = self._entering.setdefault(producer, set())
        entry: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entries.add(entry)
        try:
            sent = await super().send(*args, **kwargs)
        finally:
            entries.discard(entry)
            entry.set_result(None)
        return self._confirmed(sent, producer)

    async def _confirmed(self, sent: Awaitable[Any], producer: Any) -> Any:
        try:
            return await sent
        except KafkaError as error:
            if not error.retriable and not isinstance(error, ProducerClosed):
                await self._renew(producer)
            raise

    async def _renew(self, producer: Any) -> None:
        """Have a new producer take over, unless that has happened already."""
        async with self._renewal:
            if self._producer is not producer or self.should_stop:
                return
            successor = self._new_producer()
            try:
                await successor.start()
            except KafkaError as error:
                self.log.warning("A new producer cannot start yet: %r", error)
                await successor.stop()
                return
            self._producer = successor
            retired = asyncio.create_task(self._retire(producer))
            self._retired.add(retired)
            retired.add_done_callback(self._retired.discard)

    async def _retire(self, producer: Any) -> None:
        entries = self._entering.pop(producer, set())
        if entries:
            await asyncio.wait(entries)
        await producer.stop()

    async def on_stop(self) -> None:
        """Stop, with those that were replaced."""
        await super().on_stop()
        for retired in tuple(self._retired):
            retired.cancel()
        await asyncio.gather(*self._retired, return_exceptions=True)


class Transport(driver.Transport):
    """`app.transport = Transport(urls, app, plan=plan)`."""

    Consumer = Consumer
    Producer = Producer

    def __init__(self, *args: Any, plan: Plan, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plan = plan
