"""The thread that talks to Kafka for the consumer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiokafka import OffsetAndMetadata, TopicPartition, conn
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError, RebalanceInProgressError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from streams.kafka.transport.checksums import VouchingClient, hardware_crc32c

READ_AHEAD_BYTES: Final = 8 * 1024 * 1024
"""Of a reply that is on its way so much is taken before the connection is told to wait. A reply is read as a whole in any
case; with aiokafka's 64 KB the connection stops and goes on again for every piece of it."""
LEAVE_SECONDS: Final = 5.0
"""Leaving the group gets so long. A rebalance that is under way can take longer, and the broker does not hear of anything
else until then; who goes without a word is missed when the session ends."""


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Holds the aiokafka consumer, on an event loop of its own. Methods that run in it say so."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # The loop was made for this thread.
        self._close_thread_loop_on_stop = True
        self._wake = asyncio.Event()
        # Seeks carried out, by partition; only this thread writes it. A batch that was taken before a seek can be
        # told by it.
        self.seeks: dict[TP, int] = {}
        # On the caller's event loop: calls without an answer, and whether there will be none any more.
        self._calls: set[asyncio.Future[Any]] = set()
        self._ended = False

    async def on_start(self) -> None:
        """Connect. Runs in the thread."""
        conn.READER_LIMIT = READ_AHEAD_BYTES  # aiokafka has no setting for it
        await super().on_start()
        extend = hardware_crc32c()
        if extend is not None:
            fetcher = self._ensure_consumer()._fetcher  # noqa: SLF001 - aiokafka has no setting for it
            fetcher._client = VouchingClient(fetcher, fetcher._client, extend)  # noqa: SLF001 - as above

    async def call_thread(self, fun: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        """Have a method carried out in the thread, and give what it gives.

        Raises:
            ConsumerStoppedError: The thread is about to end and has not carried it out. Without that, a rebalance that
                falls into a stop would wait for its last commit for ever, and the stop for the rebalance.
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
        """Take no more calls, and leave the group."""
        if self._method_queue is not None:
            await self._method_queue.stop()
        # What the queue has answered is on its way before this.
        self.parent_loop.call_soon_threadsafe(self._end_calls)
        if self._consumer is None:
            return
        try:
            await asyncio.wait_for(self._consumer.stop(), LEAVE_SECONDS)
        except TimeoutError:
            self.log.warning("Leaving the group took longer than %s s, gone without", LEAVE_SECONDS)
            # What `stop` has not come to; tasks of aiokafka's that live on would open new connections.
            await self._consumer._fetcher.close()  # noqa: SLF001 - aiokafka can only stop as a whole
            await self._gather_remaining_tasks()
            await self._consumer._client.close()  # noqa: SLF001 - as above
            await asyncio.sleep(0)  # sockets are closed in the loop's next round, and there may be none

    def close(self) -> None:
        """Do nothing: Faust calls this when a rebalance falls into a stop, and the stop closes everything by itself.

        Its own method marks the client as closed, so that nobody leaves the group any more, and then closes
        connections from an event loop that is not theirs.
        """

    def _create_worker_consumer(self, transport: Any) -> Any:
        """Build the consumer. Runs in the thread."""
        consumer = super()._create_worker_consumer(transport)
        consumer._client_rack = self.consumer.plan.client_rack  # noqa: SLF001 - Faust has no setting for it
        return consumer

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
                    _leave_records_as_they_are(fetcher)
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
        try:
            return bool(await self.call_thread(self._commit_quietly, offsets))
        except driver.ConsumerStoppedError:
            return False

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


def _leave_records_as_they_are(fetcher: Any) -> None:
    """Have waiting records handed out as aiokafka's C code unpacks them.

    They have key, value, headers, offset and timestamp. The data class that aiokafka makes of each costs as much as
    unpacking it does, and most records are turned down before anybody looks at more than the key.
    """
    for waiting in fetcher._records.values():  # noqa: SLF001 - aiokafka has no setting for it
        if isinstance(waiting, FetchResult) and waiting.has_more():
            waiting._partition_records._consumer_record = _record_itself  # noqa: SLF001 - as above


def _record_itself(tp: Any, record: Any) -> Any:  # noqa: ARG001 - in the place of a method with a partition
    return record
