"""A service that retrieves pages, answers from them with citations, and sends all to the topic.

OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL name the model that answers; settings.yaml names the judge.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys

from aiokafka import AIOKafkaProducer
from openai import AsyncOpenAI

MODEL = os.environ.get("OPENAI_MODEL", "gpt-4.1-mini")
LIBRARY = (
    "The lamp weighs 340 g and is made of aluminium.",
    "A full charge of the lamp's battery lasts 12 hours at half brightness.",
    "The lamp may be returned within 30 days.",
)
TASK = "Answer from the pages alone. End each line with its source, in the form: Evidence: [Page 2]"


def retrieve(question: str) -> dict[str, str]:
    """Return the pages that share words with a question; a real service queries its index."""
    words = set(re.findall(r"\w{4,}", question.lower()))
    found = [page for page in LIBRARY if words & set(re.findall(r"\w{4,}", page.lower()))]
    return {f"Page-{number}": page for number, page in enumerate(found, start=1)}


async def answer(question: str, client: AsyncOpenAI, producer: AIOKafkaProducer) -> str:
    pages = retrieve(question)
    shown = "\n".join(f"[{name.replace('-', ' ')}] {text}" for name, text in pages.items())
    reply = await client.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": TASK},
            {"role": "user", "content": f"{shown}\n\nQuestion: {question}"},
        ],
    )
    text = reply.choices[0].message.content or ""
    event = {
        "event_id": reply.id,
        "question": question,
        "answer": text,
        "context": pages,  # the model's input: each claim is compared with the page it cites
        "labels": {"app": "lamps", "model": reply.model, "prompt_version": "v1"},
    }
    await producer.send("qa.events", json.dumps(event).encode(), key=reply.id.encode())
    return text


async def main() -> None:
    question = " ".join(sys.argv[1:]) or "How long does the lamp's battery last?"
    async with (
        AsyncOpenAI() as client,
        AIOKafkaProducer(bootstrap_servers=os.environ.get("KAFKA", "127.0.0.1:29092")) as producer,
    ):
        print(await answer(question, client, producer))


if __name__ == "__main__":
    asyncio.run(main())
