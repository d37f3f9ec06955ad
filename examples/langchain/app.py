"""LangChain: a callback that sends each chat model's question and answer to the topic.

Needs langchain-core, and for `main` langchain-openai, which reads OPENAI_API_KEY and OPENAI_BASE_URL.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any
from uuid import UUID

from aiokafka import AIOKafkaProducer
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult


class QualityEvents(AsyncCallbackHandler):  # type: ignore[misc] # where LangChain is not installed
    """Use it with any runnable: `chain.ainvoke(..., config={"callbacks": [QualityEvents(producer)]})`."""

    def __init__(self, producer: AIOKafkaProducer, topic: str = "qa.events") -> None:
        self._producer = producer
        self._topic = topic
        self._asked: dict[UUID, str] = {}

    async def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **rest: Any
    ) -> None:
        """Keep the question; called by LangChain."""
        human = [message.text for message in messages[0] if message.type == "human"]
        self._asked[run_id] = human[-1] if human else ""

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **rest: Any) -> None:
        """Send question and answer; called by LangChain."""
        model = (response.llm_output or {}).get("model_name", "unknown")
        event = {
            "event_id": str(run_id),
            "question": self._asked.pop(run_id, ""),
            "answer": response.generations[0][0].text,
            "labels": {"app": "langchain", "model": model},
        }
        await self._producer.send(self._topic, json.dumps(event).encode(), key=str(run_id).encode())

    async def on_llm_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        """Forget the question; called by LangChain."""
        self._asked.pop(run_id, None)


async def main() -> None:
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_openai import ChatOpenAI

    chain = ChatPromptTemplate.from_messages([("system", "Answer in one sentence."), ("human", "{question}")])
    model = ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-4.1-mini"))
    async with AIOKafkaProducer(bootstrap_servers=os.environ.get("KAFKA", "127.0.0.1:29092")) as producer:
        reply = await (chain | model).ainvoke(
            {"question": "Where is the Eiffel Tower?"}, config={"callbacks": [QualityEvents(producer)]}
        )
        print(reply.text)


if __name__ == "__main__":
    asyncio.run(main())
