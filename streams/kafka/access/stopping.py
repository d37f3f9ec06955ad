"""Stops consumers, in the two cases in which aiokafka's own `stop` does not come to its end."""

from __future__ import annotations

import asyncio
from typing import Any, Final

SILENT_SECONDS: Final = 3


async def stop_consumer(consumer: Any) -> None:
    """Stop a consumer, its connections included.

    Where it is just giving up its partitions, aiokafka's fetcher takes the one cancellation that would end it
    for that of a fetch, and waits for an assignment forever: a second one ends it. Where a fetch was waiting
    after an error, `stop` raises that fetch's cancellation, and leaves the connections open.

    Args:
        consumer: An AIOKafkaConsumer, started or not, without a group: leaving one may take its time.
    """
    stopping = asyncio.ensure_future(consumer.stop())
    while not (await asyncio.wait({stopping}, timeout=SILENT_SECONDS))[0]:
        stopping.cancel()
    if stopping.cancelled():
        await consumer._client.close()  # noqa: SLF001 - aiokafka can only stop as a whole
    else:
        stopping.result()
