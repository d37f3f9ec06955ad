"""The offline judge without a server, for the library and for tests without HTTP."""

from __future__ import annotations

import asyncio
import time

from judge.chat import OFFLINE_MODEL, ChatReply, ChatRequest
from judge.endpoint.embeddings import compared
from judge.errors import EventError
from judge.offline.embeddings import vectors
from judge.offline.scorer import judge_messages
from schemas import Usage


class OfflineChat:
    """Answers like `judge.offline.server.OfflineJudge`, in this process."""

    @property
    def endpoint(self) -> str:
        """The endpoint's name."""
        return "offline"

    @property
    def model(self) -> str:
        """The name of the rules, which distinguishes its results from a language model's."""
        return OFFLINE_MODEL

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer by rules.

        Raises:
            EventError: The prompt contains no answer.
        """
        began = time.monotonic()
        if request.embeds:
            text = compared(vectors([message.content for message in request.messages])) or ""
            return ChatReply(text, OFFLINE_MODEL, Usage(), time.monotonic() - began)
        said = await asyncio.to_thread(judge_messages, request.messages, schema=request.response_schema)
        if said.text is None:
            raise EventError("content_refused", said.refusal or "no answer")
        return ChatReply(said.text, OFFLINE_MODEL, Usage(), time.monotonic() - began)

    async def close(self) -> None:
        """Do nothing."""
