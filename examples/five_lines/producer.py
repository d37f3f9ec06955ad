"""A producer in five lines: send an answered question to the topic as JSON."""

import asyncio
import json
import os

from aiokafka import AIOKafkaProducer

EVENT = {
    "event_id": "1",
    "question": "Where is the Eiffel Tower?",
    "answer": "In Paris.",
    "reference": "In Paris.",
}


async def main() -> None:
    async with AIOKafkaProducer(bootstrap_servers=os.environ.get("KAFKA", "127.0.0.1:29092")) as producer:
        await producer.send_and_wait("qa.events", json.dumps(EVENT).encode(), key=EVENT["event_id"].encode())


asyncio.run(main())
