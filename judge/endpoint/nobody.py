"""The endpoint of a code metric: none."""

from __future__ import annotations

from typing import Final

from judge.chat import ChatReply, ChatRequest
from judge.errors import JudgeConfigurationError

CODE: Final = "code"
"""Endpoint and model of what no model has judged."""


class Nobody:
    """An endpoint that is never asked; its model names the evaluator of a code metric."""

    endpoint = CODE
    model = CODE

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Refuse.

        Raises:
            JudgeConfigurationError: Always.
        """
        raise JudgeConfigurationError(f"a code metric has no judge, got {len(request.messages)} messages")

    async def close(self) -> None:
        """Nothing is open."""


NOBODY: Final = Nobody()
