"""The idempotent producer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import InvalidTimestampError, KafkaError, ProducerClosed
from faust.exceptions import ProducerSendError
from faust.transport.drivers import aiokafka as driver

if TYPE_CHECKING:
    from streams.kafka.app import Transport

CLOCK_SECONDS: Final = 5.0
"""Pause of renewals while this machine's clock is ahead, because the broker refuses every batch."""


class Producer(driver.Producer):
    """An idempotent producer, replaced after a batch that the broker rejects for good.

    aiokafka does not reuse its sequence numbers, so every later batch would be out of order. The caller must
    resend what fails meanwhile.
    """

    transport: Transport
    _producer: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        self._renewal = asyncio.Lock()
        self._retired: set[asyncio.Task[None]] = set()
        # Calls of `send` in progress, by producer: closing it during a call would block the call forever.
        self._entering: Counter[Any] = Counter()

    def _settings_auth(self) -> Mapping[str, Any]:
        return self.transport.options.client

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"enable_idempotence": True}

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Any,
        **_: Any,
    ) -> Awaitable[Any]:
        """Send a record; the caller must await the result, which completes when the broker confirms it."""
        # Do not call Faust's method: its signals and transactions are unused here.
        producer = self._ensure_producer()
        self._entering[producer] += 1
        try:
            sent = await producer.send(
                topic,
                value,
                key=key,
                partition=partition,
                timestamp_ms=None if timestamp is None else round(timestamp * 1000),
                headers=headers,
            )
        except KafkaError as error:
            raise ProducerSendError(f"Error while sending: {error!r}") from error
        finally:
            self._entering[producer] -= 1
        return self._confirmed(sent, producer)

    async def _confirmed(self, sent: Awaitable[Any], producer: Any) -> Any:
        try:
            return await sent
        except KafkaError as error:
            if not error.retriable and not isinstance(error, ProducerClosed):
                await self._renew(producer, error)
            raise

    async def _renew(self, producer: Any, cause: KafkaError) -> None:
        async with self._renewal:
            if self._producer is not producer or self.should_stop:
                return
            if isinstance(cause, InvalidTimestampError):
                await self.sleep(CLOCK_SECONDS)
            successor = self._new_producer()
            try:
                await successor.start()
            except KafkaError as error:
                self.log.warning("A new producer cannot start yet: %r", error)
                await successor.stop()
                return
            except asyncio.CancelledError:
                await successor.stop()
                raise
            self._producer = successor
            retired = asyncio.create_task(self._retire(producer))
            self._retired.add(retired)
            retired.add_done_callback(self._retired.discard)

    async def _retire(self, producer: Any) -> None:
        try:
            while self._entering[producer]:  # noqa: ASYNC110 - rare, and sending is not
                await asyncio.sleep(0.1)
            del self._entering[producer]
        finally:  # also at the end of the worker, which waits for no sender
            await producer.stop()

    async def on_stop(self) -> None:
        await super().on_stop()
        for retired in tuple(self._retired):
            retired.cancel()
        await asyncio.gather(*self._retired, return_exceptions=True)
