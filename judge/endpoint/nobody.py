"""Placeholder endpoint of code metrics."""

from __future__ import annotations

from typing import Final

from judge.chat import ChatReply, ChatRequest
from judge.errors import JudgeConfigurationError

CODE: Final = "code"
"""Endpoint and model of results without a judge."""


class Nobody:
    """An endpoint that is never called; its model is part of a code metric's evaluator."""

    endpoint = CODE
    model = CODE

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raise an error.

        Raises:
            JudgeConfigurationError: Always.
        """
        raise JudgeConfigurationError(f"a code metric has no judge, got {len(request.messages)} messages")

    async def close(self) -> None:
        """Do nothing."""


NOBODY: Final = Nobody()
