"""Stop consumers, also in the two cases in which aiokafka's `stop` does not complete."""

from __future__ import annotations

import asyncio
from typing import Any, Final

SILENT_SECONDS: Final = 3


async def stop_consumer(consumer: Any) -> None:
    """Stop a consumer and close its connections.

    While partitions are given up, aiokafka's fetcher mistakes the cancellation by `stop` for that of a fetch
    and waits for an assignment forever; a second cancellation ends it. If a fetch was waiting after an error,
    `stop` raises that fetch's cancellation and leaves the connections open.

    Args:
        consumer: An AIOKafkaConsumer, started or not, without a group: leaving one may take longer.
    """
    stopping = asyncio.ensure_future(consumer.stop())
    cancelled: asyncio.CancelledError | None = None
    while not stopping.done():
        try:
            if not (await asyncio.wait({stopping}, timeout=SILENT_SECONDS))[0]:
                stopping.cancel()
        except asyncio.CancelledError as error:  # of the caller, who would leave the connections open
            cancelled = error
    if stopping.cancelled():
        await consumer._client.close()  # noqa: SLF001 - aiokafka has no public way to close the client
    if cancelled is not None:
        raise cancelled
    if not stopping.cancelled():
        stopping.result()
