"""The thread that runs the Kafka consumer."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from aiokafka import AIOKafkaConsumer, OffsetAndMetadata, TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    RebalanceInProgressError,
)
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode.threads import ServiceThread, WorkerThread

from streams.kafka.batches import as_unpacked
from streams.kafka.offsets import Bounds, first_offsets

if TYPE_CHECKING:
    from streams.kafka.consumer import Consumer

JOIN_MARGIN_SECONDS: Final = 10.0
"""A join waits for the slowest member, so its response may take the whole rebalance timeout."""
LEAVE_SECONDS: Final = 5.0
"""A rebalance can block leaving longer; the member is then removed at its session timeout."""
THREAD_END_SECONDS: Final = 5.0
Given = ParamSpec("Given")
Answer = TypeVar("Answer")
_NOWHERE: Final = TopicPartition("", 0)
"""A partition that nobody has: a poll of it takes nothing, and the member counts as polling."""


def in_thread(
    method: Callable[Concatenate[Any, Given], Awaitable[Answer]],
) -> Callable[Concatenate[Any, Given], Awaitable[Answer]]:
    """Run a method of `ConsumerThread` in the thread; callers are on the application's event loop."""

    async def call(self: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        answer: Answer = await self.call_thread(method, self, *args, **kwargs)
        return answer

    return call


class Fetched(NamedTuple):
    records: Mapping[TopicPartition, list[Any]] = {}
    positions: Mapping[TopicPartition, int] = {}
    """The next offset of each fetched partition, also past offsets without records."""


class EndingThread(WorkerThread):
    """A daemon thread, joined with a timeout; mode joins without one."""

    def __init__(self, service: ServiceThread, **kwargs: Any) -> None:
        super().__init__(service, **kwargs)
        self.daemon = True

    def stop(self) -> None:
        self.join(THREAD_END_SECONDS)


class ConsumerThread(driver.AIOKafkaConsumerThread):
    Worker = EndingThread
    consumer: Consumer

    def __post_init__(self) -> None:
        super().__post_init__()
        self._close_thread_loop_on_stop = True  # the loop was created for this thread
        self._poll: asyncio.Task[Any] | None = None
        # Calls in progress, and whether further calls are refused.
        self._calls: set[asyncio.Future[Any]] = set()
        self._ended = False
        self.coordinator_answered: float | None = None
        """Time of the group coordinator's last response, on the monotonic clock; None before the start."""
        self.confirmed = -math.inf
        """Time of the last request by which it confirmed the membership, on the monotonic clock."""

    def _create_worker_consumer(self, transport: Any) -> Any:  # noqa: ARG002 - the signature is Faust's
        conf, options = self.app.conf, self.consumer.options
        return AIOKafkaConsumer(
            **options.client,
            client_id=conf.broker_client_id,
            group_id=conf.id,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
            enable_auto_commit=False,
            # `streams.kafka.offsets` handles offsets out of range and groups without offsets.
            auto_offset_reset="none",
            isolation_level="read_committed",
            key_deserializer=as_unpacked,
            max_poll_interval_ms=round(conf.broker_max_poll_interval * 1000),
            request_timeout_ms=round((conf.broker_rebalance_timeout + JOIN_MARGIN_SECONDS) * 1000),
            session_timeout_ms=round(conf.broker_session_timeout * 1000),
            rebalance_timeout_ms=round(conf.broker_rebalance_timeout * 1000),
            heartbeat_interval_ms=round(conf.broker_heartbeat_interval * 1000),
            metadata_max_age_ms=conf.consumer_metadata_max_age_ms,
        )

    async def on_start(self) -> None:
        await super().on_start()
        coordinator: Any = self._ensure_consumer()._coordinator  # noqa: SLF001 - aiokafka does not expose the responses
        send = coordinator._send_req  # noqa: SLF001 - as above

        async def send_and_note(request: Any) -> Any:
            asked = time.monotonic()
            response = await send(request)
            self.coordinator_answered = time.monotonic()
            if isinstance(request, HeartbeatRequest | SyncGroupRequest) and response.error_code == 0:
                self.confirmed = asked  # a stopped process may have read the response much later
            return response

        self.coordinator_answered = time.monotonic()
        coordinator._send_req = send_and_note  # noqa: SLF001 - as above

    # Calls from the application's loop

    async def call_thread(self, fun: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        if self._ended:
            # Else a rebalance during a stop would wait for its last commit forever, and the stop for it.
            raise driver.ConsumerStoppedError
        promise: asyncio.Future[Any] = self.parent_loop.create_future()
        self._calls.add(promise)
        try:
            return await (await self.method_queue.call(promise, fun, *args, **kwargs))
        finally:
            self._calls.discard(promise)

    def wake(self) -> None:
        """End the current fetch, which then returns nothing and has taken nothing."""
        if not self.thread_loop.is_closed():
            self.thread_loop.call_soon_threadsafe(lambda: self._poll is not None and self._poll.cancel())

    @in_thread
    async def fetch(
        self, wanted: Callable[[], set[TP] | None], epoch: int, timeout_seconds: float
    ) -> Fetched:
        """Wait for records of the wanted partitions; nothing if `wanted` returns None."""
        if not self._is_current(epoch) or (partitions := wanted()) is None:
            return Fetched()
        client = self._ensure_consumer()
        places = [TopicPartition(*tp) for tp in partitions]
        # A cancelled poll has taken nothing: from the wait on, `getmany` does not await.
        poll = client.getmany(*(places or [_NOWHERE]), timeout_ms=round(timeout_seconds * 1000))
        self._poll = asyncio.ensure_future(poll)
        try:
            await asyncio.wait({self._poll})
        finally:
            self._poll.cancel()
        if self._poll.cancelled():
            return Fetched()
        try:
            records = self._poll.result()
        except NoOffsetForPartitionError:
            return Fetched()  # no committed offset: `rewind` has set the start meanwhile
        if not self._is_current(epoch):
            return Fetched()
        # No await in between: a position past offsets without records belongs to these records.
        return Fetched(records, {place: await client.position(place) for place in places})

    def _is_current(self, epoch: int) -> bool:
        return self.consumer.flow_active and self.consumer.epoch == epoch

    @in_thread
    async def commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit; return False if the commit failed and may be retried."""
        try:
            await self._ensure_consumer().commit(
                {TopicPartition(*tp): OffsetAndMetadata(offset, "") for tp, offset in offsets.items()}
            )
        except (CommitFailedError, IllegalStateError, RebalanceInProgressError) as error:
            # The partition is revoked or about to be; its next owner starts from the last commit.
            self.log.info("Commit refused, the group is rebalancing: %r", error)
            return False
        except KafkaError as error:
            if not error.retriable:
                raise
            self.log.warning("Commit failed; retrying: %r", error)
            return False
        return True

    @in_thread
    async def rewind(self, epoch: int) -> tuple[dict[TP, int], dict[TP, int]]:
        """Seek every assigned partition to its start; return the starts, and the committed ones of them."""
        client = self._ensure_consumer()
        places = list(client.assignment())
        offsets = await asyncio.gather(*(client.committed(place) for place in places))
        committed = {
            place: offset for place, offset in zip(places, offsets, strict=True) if offset is not None
        }
        fresh = [place for place in places if place not in committed]
        starts = committed | await first_offsets(client, fresh, self.consumer.options.starts)
        # Faust abandons the call at the next assignment, but the thread goes on: it then seeks nothing.
        for place, offset in starts.items() if self.consumer.epoch == epoch else ():
            # Also without a committed offset: records taken by an abandoned fetch would be missing.
            client.seek(place, offset)
        return {TP(*at): offset for at, offset in starts.items()}, {
            TP(*at): offset for at, offset in committed.items()
        }

    @in_thread
    async def seek_all(self, offsets: Mapping[TP, int]) -> None:
        client = self._ensure_consumer()
        for tp, offset in offsets.items():
            with contextlib.suppress(IllegalStateError):  # revoked meanwhile
                client.seek(TopicPartition(*tp), offset)

    @in_thread
    async def bounds(self, tp: TP) -> Bounds:
        client, place = self._ensure_consumer(), TopicPartition(*tp)
        await client._client.force_metadata_update()  # noqa: SLF001 - nothing public looks the leader up again
        begin, end = await client.beginning_offsets([place]), await client.end_offsets([place])
        return Bounds(begin[place], end[place], await client.committed(place))

    def highwater(self, tp: TP) -> int | None:
        """Return the end of what can be read: later records are in open transactions."""
        client = self._ensure_consumer()
        stable: int | None = client.last_stable_offset(tp)
        highwater: int | None = client.highwater(tp)
        return highwater if stable is None or stable < 0 else stable

    def answered(self, tp: TP) -> float | None:
        """Return when the broker last answered for a partition, in seconds since the epoch; None before."""
        milliseconds: int | None = self._ensure_consumer().last_poll_timestamp(tp)
        return None if milliseconds is None else milliseconds / 1000

    # The end

    def _end_calls(self) -> None:
        self._ended = True
        for promise in self._calls:
            if not promise.done():
                promise.set_exception(driver.ConsumerStoppedError())

    async def on_thread_stop(self) -> None:
        """Refuse further calls, and leave the group."""
        if self._method_queue is not None:
            await self._method_queue.stop()
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
        """Do nothing at a rebalance during a stop: Faust's method would keep the member in the group."""
