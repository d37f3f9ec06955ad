"""The client connected to a fake endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from judge.endpoints.openai_chat import OpenAIChat
from tests.judge.fake_openai import Answer, FakeOpenAI, fake_openai

KEY = "sk-test-1234567890"


@asynccontextmanager
async def chat_with(*answers: Answer, **arguments: Any) -> AsyncIterator[tuple[OpenAIChat, FakeOpenAI]]:
    async with fake_openai(*answers) as fake:
        options = {"endpoint": "primary", "model": "m-1", "base_url": fake.url, "api_key": KEY} | arguments
        chat = OpenAIChat(**options)
        try:
            yield chat, fake
        finally:
            await chat.close()
