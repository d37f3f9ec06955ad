"""A hand-written judging loop: aiokafka, the SDK's typed call, Pydantic, a record per verdict."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from openai import AsyncOpenAI
from pydantic import BaseModel, ValidationError

from benchmarks.contestants.pace import Pace
from benchmarks.contestants.plain_loop import run_plainly
from benchmarks.contestants.profiling import profiled
from judge.metrics.prompting import load_prompt
from judge.metrics.relevance import RELEVANCE_SCHEMA

RESPONSE_FORMAT: Any = {
    "type": "json_schema",
    "json_schema": {"name": RELEVANCE_SCHEMA.name, "strict": True, "schema": RELEVANCE_SCHEMA.schema},
}


class Task(BaseModel):
    """An input record."""

    event_id: str
    question: str
    answer: str
    context: dict[str, str]


class Claim(BaseModel):
    """One claim, as listed by the judge."""

    claim_span: str
    supported: bool
    relevant: bool


class Reply(BaseModel):
    """The judge's reply."""

    claims: list[Claim]
    score: int
    justification: str


class Verdict(BaseModel):
    """An output record."""

    event_id: str
    metric: str
    score: int
    justification: str
    claims: list[Claim]
    model: str
    input_tokens: int
    output_tokens: int


class PlainLoop:
    """Judges a number of tasks concurrently."""

    def __init__(self, plan: dict[str, Any], pace: Pace, producer: AIOKafkaProducer) -> None:
        self._plan = plan
        self._pace = pace
        self._producer = producer
        self._slots = asyncio.Semaphore(plan["in_flight"])
        self._client = AsyncOpenAI(api_key="none-needed", base_url=plan["base_url"])
        self._system = load_prompt("relevance.evidence")
        self._count = 0
        self.done = asyncio.Event()

    async def judge(self, value: bytes) -> None:
        """Judge one task and write the verdict."""
        try:
            task = Task.model_validate_json(value)
            pages = "\n".join(f"{name}:\n{text}" for name, text in task.context.items())
            prompt = f"Question:\n{task.question}\nAnswer:\n{task.answer}\nPages:\n{pages}"
            completion = await self._client.chat.completions.create(
                model="instant-1",
                messages=[{"role": "system", "content": self._system}, {"role": "user", "content": prompt}],
                response_format=RESPONSE_FORMAT,
                max_tokens=4096,
            )
            reply = Reply.model_validate_json(completion.choices[0].message.content or "")
        except ValidationError as error:
            raise SystemExit(f"the plain loop cannot read what it gets: {error}") from error
        finally:
            self._slots.release()
        usage = completion.usage
        verdict = Verdict(
            event_id=task.event_id,
            metric="relevance",
            score=reply.score,
            justification=reply.justification,
            claims=reply.claims,
            model=completion.model,
            input_tokens=usage.prompt_tokens if usage else 0,
            output_tokens=usage.completion_tokens if usage else 0,
        )
        await self._producer.send_and_wait(
            self._plan["scores"], verdict.model_dump_json().encode(), key=task.event_id.encode()
        )
        self._count += 1
        if self._pace.seen(self._count):
            self.done.set()

    async def read(self, consumer: AIOKafkaConsumer) -> None:
        """Start a task for each record while there are slots."""
        tasks: set[asyncio.Task[None]] = set()
        async for record in consumer:
            await self._slots.acquire()
            task = asyncio.create_task(self.judge(record.value))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


async def _run(plan: dict[str, Any], pace: Pace) -> None:
    servers = plan["bootstrap_servers"]
    consumer = AIOKafkaConsumer(
        plan["tasks"], bootstrap_servers=servers, group_id=plan["group"], auto_offset_reset="earliest"
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, acks="all", enable_idempotence=True, linger_ms=plan["linger_ms"]
    )
    await producer.start()
    await consumer.start()
    loop = PlainLoop(plan, pace, producer)
    reading = asyncio.create_task(loop.read(consumer))
    await loop.done.wait()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await consumer.stop()
    await producer.stop()


if __name__ == "__main__":
    the_plan = json.loads(sys.argv[1])
    the_pace = Pace(the_plan["total"])
    with profiled():
        if the_plan["uvloop"]:
            run_plainly(_run(the_plan, the_pace))
        else:
            asyncio.run(_run(the_plan, the_pace))
    the_pace.tell()
