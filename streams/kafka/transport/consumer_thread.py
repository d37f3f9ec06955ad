"""The thread that runs the Kafka consumer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiokafka import OffsetAndMetadata, TopicPartition
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
)
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode.threads import ServiceThread, WorkerThread

from streams.kafka.offsets import first_offsets, tell_starts
from streams.kafka.transport.checksums import VouchingClient, hardware_crc32c
from streams.kafka.transport.delivery import Taken
from streams.kafka.transport.membership import Membership, PlaceTakenError
from streams.kafka.transport.ranges import Move, ask_bounds, confirmed_bounds, decide
from streams.kafka.transport.unpacking import CheckedRecords, Suspects

FETCH_WAIT_MS: Final = 500
"""The broker's longest wait for records, as by default in Kafka: idle partitions advance by its responses."""
LEAVE_SECONDS: Final = 5.0
"""Timeout of leaving the group; a rebalance in progress can block it longer. A member that does not leave is
removed at its session timeout."""
THREAD_END_SECONDS: Final = 5.0
"""Timeout of the thread's end after it has left the group."""


class EndingThread(WorkerThread):
    """A daemon thread, joined with a timeout; mode joins without one."""

    def __init__(self, service: ServiceThread, **kwargs: Any) -> None:
        super().__init__(service, **kwargs)
        self.daemon = True

    def stop(self) -> None:
        """Join with a timeout; the application's event loop is blocked meanwhile."""
        self.join(THREAD_END_SECONDS)


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Runs the aiokafka consumer on its own event loop. Docstrings say which methods run in it."""

    Worker = EndingThread

    def __post_init__(self) -> None:
        super().__post_init__()
        # The loop was created for this thread.
        self._close_thread_loop_on_stop = True
        self._wake = asyncio.Event()
        # Number of seeks by partition, written only by this thread; identifies batches taken before a seek.
        self.seeks: dict[TP, int] = {}
        # Used on the caller's event loop: calls in progress, and whether further calls are refused.
        self._calls: set[asyncio.Future[Any]] = set()
        self._ended = False
        # Used only in the thread.
        self._suspects = Suspects()
        self._examined: dict[TopicPartition, asyncio.Task[None]] = {}
        self.membership: Membership | None = None
        """State of the group membership; None until the consumer is started."""

    async def on_start(self) -> None:
        """Connect. Runs in the thread."""
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator  # noqa: SLF001 - aiokafka does not expose it
        if coordinator is not None:
            self.membership = Membership(coordinator, self.app.give_up)
        extend = hardware_crc32c()
        if extend is not None:
            fetcher = self._ensure_consumer()._fetcher  # noqa: SLF001 - aiokafka has no setting for it
            fetcher._client = VouchingClient(fetcher, fetcher._client, extend)  # noqa: SLF001 - as above

    async def call_thread(self, fun: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        """Run a method in the thread and return its result.

        Raises:
            ConsumerStoppedError: The thread is stopping and has not run the method. Without this error, a
                rebalance during a stop would wait for its last commit forever, and the stop for the
                rebalance.
        """
        if self._ended:
            raise driver.ConsumerStoppedError
        promise: asyncio.Future[Any] = self.parent_loop.create_future()
        self._calls.add(promise)
        try:
            return await (await self.method_queue.call(promise, fun, *args, **kwargs))
        finally:
            self._calls.discard(promise)

    def _end_calls(self) -> None:
        self._ended = True
        for promise in self._calls:
            if not promise.done():
                promise.set_exception(driver.ConsumerStoppedError())

    async def on_thread_stop(self) -> None:
        """Refuse further calls, and leave the group."""
        if self._method_queue is not None:
            await self._method_queue.stop()
        for task in self._examined.values():
            task.cancel()
        # Results that the queue has already returned are delivered first.
        self.parent_loop.call_soon_threadsafe(self._end_calls)
        if self._consumer is None:
            return
        try:
            await asyncio.wait_for(self._consumer.stop(), LEAVE_SECONDS)
        except (TimeoutError, asyncio.CancelledError) as error:
            # aiokafka raises the cancellation of a fetch that was waiting after an error; this task is not
            # cancelled.
            if isinstance(error, TimeoutError):
                self.log.warning(
                    "Leaving the group took longer than %s s; stopped without leaving", LEAVE_SECONDS
                )
            # Do what `stop` did not: remaining tasks of aiokafka would open new connections.
            with contextlib.suppress(asyncio.CancelledError):
                await self._consumer._fetcher.close()  # noqa: SLF001 - aiokafka has no public way to close parts
            await self._gather_remaining_tasks()
            # If `stop` was cancelled within the same call, the connections' futures are cancelled, too.
            with contextlib.suppress(asyncio.CancelledError):
                await self._consumer._client.close()  # noqa: SLF001 - as above
            await asyncio.sleep(0)  # sockets are closed in the loop's next iteration, which may be the last

    def close(self) -> None:
        """Do nothing: Faust calls this on a rebalance during a stop, and the stop closes everything.

        Faust's method marks the client as closed, so the member does not leave the group, and closes the
        connections from another event loop.
        """

    def _create_worker_consumer(self, transport: Any) -> Any:
        """Build the consumer. Runs in the thread."""
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # noqa: SLF001 - Faust has no setting for it
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS  # noqa: SLF001 - as above
        return consumer

    def highwater(self, tp: TP) -> int | None:
        """Return the end offset of readable records: later ones are in open transactions."""
        consumer = self._ensure_consumer()
        stable: int | None = consumer.last_stable_offset(tp)
        highwater: int | None = consumer.highwater(tp)
        return highwater if stable is None or stable < 0 else stable

    def answered(self, tp: TP) -> float | None:
        """Return when the broker last answered for a partition, in seconds since the epoch; None before."""
        milliseconds: int | None = self._ensure_consumer().last_poll_timestamp(tp)
        return None if milliseconds is None else milliseconds / 1000

    def wake(self) -> None:
        """Make the current fetch return at once. May be called from any thread."""
        if not self.thread_loop.is_closed():
            self.thread_loop.call_soon_threadsafe(self._wake.set)

    async def fetch(self, wanted: Callable[[], set[TP] | None], epoch: int, timeout_seconds: float) -> Taken:
        """Return the records that have arrived for the wanted partitions; wait for the first.

        Args:
            wanted: Returns the partitions with room, or None to make the fetch return.
            epoch: The caller's epoch; in another one nothing is returned.
        """
        taken: Taken = await self.call_thread(self._fetch, wanted, epoch, timeout_seconds)
        return taken

    async def _fetch(self, wanted: Callable[[], set[TP] | None], epoch: int, timeout_seconds: float) -> Taken:
        """Fetch in the thread, without an await between the checks and taking records.

        So neither a flow stop nor a seek can happen in between.
        """
        consumer = self._ensure_consumer()
        fetcher, subscriptions = consumer._fetcher, consumer._subscription  # noqa: SLF001 - aiokafka has no API to fetch from a set of partitions
        deadline = time.monotonic() + timeout_seconds
        # Within the context the member counts as polling, even while no partition is wanted.
        with subscriptions.fetch_context():
            while True:
                if consumer._closed or fetcher._closed:  # noqa: SLF001 - as above
                    raise driver.ConsumerStoppedError
                if not self.consumer.flow_active or self.consumer.epoch != epoch:
                    return Taken()
                self._wake.clear()
                partitions = wanted()
                if partitions is None:
                    return Taken()
                records: Mapping[TP, list[Any]] = {}
                if partitions and not subscriptions.reassignment_in_progress:
                    self._unpack_with_care(fetcher)
                    try:
                        records = await fetcher.fetched_records(partitions, timeout=0)
                    except NoOffsetForPartitionError:
                        continue  # no committed offset: `rewind` sets the start
                    except OffsetOutOfRangeError as error:
                        self._examine(error)
                        continue
                remaining = deadline - time.monotonic()
                if records or remaining <= 0:
                    return Taken(records, self._positions(partitions), dict(self.seeks))
                await self._wait_for_records(fetcher, remaining)

    def _unpack_with_care(self, fetcher: Any) -> None:
        """Replace fetched records by `CheckedRecords`, which are as unpacked in C.

        They have key, value, headers, offset and timestamp. aiokafka's data class per record costs as much
        as unpacking, and most records are filtered out by key.
        """
        for waiting in fetcher._records.values():  # noqa: SLF001 - aiokafka has no setting for it
            if isinstance(waiting, FetchResult) and waiting.has_more():
                fetched = waiting._partition_records  # noqa: SLF001 - as above
                if not isinstance(fetched, CheckedRecords):
                    waiting._partition_records = CheckedRecords(fetched, self._suspects)  # noqa: SLF001 - as above

    def _positions(self, partitions: set[TP]) -> dict[TP, int]:
        """Return the next offset of partitions, past transaction markers and removed records."""
        assignment = self._ensure_consumer()._subscription.subscription.assignment  # noqa: SLF001 - as in _fetch
        states = {} if assignment is None else assignment._tp_state  # noqa: SLF001 - as in _fetch
        return {
            tp: states[tp].position for tp in partitions if tp in states and states[tp].has_valid_position
        }

    def _examine(self, error: KafkaError) -> None:
        """Pause a partition whose offset is reported out of range, until that is confirmed or refuted."""
        subscriptions = self._ensure_consumer()._subscription  # noqa: SLF001 - aiokafka would reset the offset
        for tp, offset in error.args[0].items():
            if not subscriptions.is_assigned(tp):
                continue
            subscriptions.pause(tp)
            state = subscriptions.subscription.assignment.state_value(tp)
            examining = self.thread_loop.create_task(self._settle(tp, offset, state))
            self._examined[tp] = examining
            examining.add_done_callback(lambda done, tp=tp: self._settled(tp, done))

    def _settled(self, tp: TopicPartition, done: asyncio.Task[None]) -> None:
        if self._examined.get(tp) is done:
            del self._examined[tp]
        if not done.cancelled() and done.exception() is not None:
            self.app.give_up(done.exception())

    async def _settle(self, tp: TopicPartition, offset: int, state: Any) -> None:
        """Determine where a partition continues, and resume it there."""
        consumer = self._ensure_consumer()
        client, subscriptions = consumer._client, consumer._subscription  # noqa: SLF001 - as in _examine
        place = TP(tp.topic, tp.partition)
        bounds = await confirmed_bounds(tp, offset, lambda tp: ask_bounds(client, tp))
        committed = await consumer.committed(tp)
        after = decide(offset, bounds, committed)
        if (
            not subscriptions.is_assigned(tp)
            or subscriptions.subscription.assignment.state_value(tp) is not state
        ):
            return  # rebalanced meanwhile; the new owner examines the offset
        if after is None:
            self.log.warning("Offset %s of %r was reported out of range but is not", offset, place)
        elif state.has_valid_position and state.position == offset:
            if after > offset:
                consumer.seek(tp, after)
            move = Move(tp.topic, tp.partition, offset, after, "retention" if after > offset else "shorter")
            moving = asyncio.run_coroutine_threadsafe(self.consumer.on_move(move), self.parent_loop)
            if after < offset:
                await asyncio.wrap_future(moving)  # it seeks in this thread
        state.resume()

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
            arrival.result()  # raises the coordinator's errors (authorisation)

    async def commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit; return False if the commit failed and may be retried."""
        try:
            return bool(await self.call_thread(self._commit_quietly, offsets))
        except driver.ConsumerStoppedError:
            return False

    async def _commit_quietly(self, offsets: Mapping[TP, int]) -> bool:
        """Commit in the thread."""
        try:
            await self._ensure_consumer().commit(
                {TopicPartition(*tp): OffsetAndMetadata(offset, "") for tp, offset in offsets.items()}
            )
        except (CommitFailedError, IllegalStateError, RebalanceInProgressError) as error:
            # The partition is revoked or about to be; its next owner starts from the last commit.
            self.log.info("Commit refused, the group is rebalancing: %r", error)
            return False
        except PlaceTakenError:
            return False  # the worker is about to stop with this error
        except KafkaError as error:
            if not error.retriable:
                raise
            self.log.warning("Commit failed; retrying: %r", error)
            return False
        return True

    async def rewind(self) -> tuple[Mapping[TP, int], Mapping[TP, int]]:
        """Seek every assigned partition to its start."""
        starts: tuple[Mapping[TP, int], Mapping[TP, int]] = await self.call_thread(self._rewind)
        return starts

    async def _rewind(self) -> tuple[Mapping[TP, int], Mapping[TP, int]]:
        """Seek in the thread."""
        consumer = self._ensure_consumer()
        partitions = list(consumer.assignment())
        offsets = await asyncio.gather(*(consumer.committed(partition) for partition in partitions))
        committed = {
            partition: offset
            for partition, offset in zip(partitions, offsets, strict=True)
            if offset is not None
        }
        fresh = [partition for partition in partitions if partition not in committed]
        starts = committed | await first_offsets(consumer, fresh, self.consumer.plan.starts)
        for partition, offset in starts.items():
            # Also without a committed offset: records taken by an abandoned fetch would be missing.
            consumer.seek(partition, offset)
        tell_starts(fresh, starts, self.consumer.plan.starts)
        return (
            {TP(*partition): offset for partition, offset in starts.items()},
            {TP(*partition): offset for partition, offset in committed.items()},
        )

    async def seek_now(self, tp: TP, offset: int) -> None:
        """Read `tp` from `offset` next."""
        await self.call_thread(self._seek_now, tp, offset)

    async def _seek_now(self, tp: TP, offset: int) -> None:
        """Seek in the thread."""
        self._ensure_consumer().seek(TopicPartition(*tp), offset)
        self.seeks[tp] = self.seeks.get(tp, 0) + 1
