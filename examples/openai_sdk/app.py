"""An application with the OpenAI SDK that answers a question and sends both to the topic.

OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL name the model that answers; settings.yaml names the judge.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from aiokafka import AIOKafkaProducer
from openai import AsyncOpenAI

MODEL = os.environ.get("OPENAI_MODEL", "gpt-4.1-mini")


async def answer(question: str, client: AsyncOpenAI, producer: AIOKafkaProducer) -> str:
    reply = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": question}]
    )
    text = reply.choices[0].message.content or ""
    event = {
        "event_id": reply.id,  # use the id from your own logs, to find the verdict
        "question": question,
        "answer": text,
        "labels": {"app": "assistant", "model": reply.model, "prompt_version": "v1"},
    }
    # Not awaited until delivery, so that the answer is not delayed.
    await producer.send("qa.events", json.dumps(event).encode(), key=reply.id.encode())
    return text


async def main() -> None:
    question = " ".join(sys.argv[1:]) or "Where is the Eiffel Tower?"
    async with (
        AsyncOpenAI() as client,
        AIOKafkaProducer(bootstrap_servers=os.environ.get("KAFKA", "127.0.0.1:29092")) as producer,
    ):
        print(await answer(question, client, producer))


if __name__ == "__main__":
    asyncio.run(main())
