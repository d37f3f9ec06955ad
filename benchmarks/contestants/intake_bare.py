"""A hand-written reader: aiokafka and a predicate."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.contestants.choice import choice, handed_on
from benchmarks.contestants.pace import Pace
from benchmarks.contestants.plain_loop import run_plainly


async def _run(plan: dict[str, Any], pace: Pace) -> None:
    servers = plan["bootstrap_servers"]
    keep = choice(plan)
    consumer = AIOKafkaConsumer(
        plan["events"],
        bootstrap_servers=servers,
        group_id=plan["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
    await producer.start()
    await consumer.start()
    count = 0
    while not pace.seen(count):
        fetched = await consumer.getmany(timeout_ms=1000)
        sent = []
        for records in fetched.values():
            sent += [
                await producer.send(plan["tasks"], handed_on(record.value), key=record.key)
                for record in records
                if keep(record.key, record.value)
            ]
            count += len(records)
        if sent:
            await asyncio.gather(*sent)
        await consumer.commit()
    await consumer.stop()
    await producer.stop()


if __name__ == "__main__":
    the_plan = json.loads(sys.argv[1])
    the_pace = Pace(the_plan["total"])
    run_plainly(_run(the_plan, the_pace))
    the_pace.tell()
