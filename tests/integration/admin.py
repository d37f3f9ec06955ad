"""An admin client for a `with` block, which aiokafka's own does not support."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient


@contextlib.asynccontextmanager
async def kafka_admin(bootstrap_servers: str, **options: Any) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers, **options)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()
