"""An admin client for a `with` block, which aiokafka's own does not support, and committed offsets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient


@contextlib.asynccontextmanager
async def kafka_admin(bootstrap_servers: str, **options: Any) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers, **options)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def committed_offsets(
    group_id: str, places: Iterable[TopicPartition], **options: Any
) -> list[int | None]:
    async with AIOKafkaConsumer(**options, group_id=group_id, enable_auto_commit=False) as consumer:
        return [await consumer.committed(place) for place in places]
