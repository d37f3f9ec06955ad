"""Trying an endpoint with a neutral event, to tell its trouble from that of single events."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from judge.errors import EventError, JudgeConfigurationError, JudgeError, JudgeUnavailableError
from judge.verdict.dialogue import Ask
from judge.verdict.evaluator import Judge


class NeutralProbe:
    """Has the neutral event judged at one endpoint.

    Args:
        ask: How its calls are made.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.judges: dict[str, Judge] = {}
        """The metrics that are judged at the endpoint, by name."""
        self._running: dict[str, asyncio.Task[JudgeError | None]] = {}

    async def trouble(self, metric: str) -> JudgeError | None:
        """Say what keeps the neutral event from being judged; None where nothing does.

        Concurrent callers share one call.
        """
        running = self._running.get(metric)
        if running is None:
            running = self._running[metric] = asyncio.create_task(self._try(metric))
            running.add_done_callback(lambda _: self._running.pop(metric, None))
        return await asyncio.shield(running)

    async def trouble_for_all(
        self, first: str, kinds: Collection[str], *, shared: bool = True
    ) -> JudgeError | None:
        """Say what keeps every metric from being judged.

        None where one is, or fails in another way than events did.

        Args:
            first: The metric to begin with.
            kinds: The error types of the events' failures; empty where there was no answer: then any answer
                will do.
            shared: Whether a call that is under way will do.
        """
        found: JudgeError | None = None
        for metric in dict.fromkeys((first, *self.judges)):
            trouble = await (self.trouble(metric) if shared else self._try(metric))
            if trouble is None or (isinstance(trouble, EventError) and trouble.error_type not in kinds):
                return None
            found = found or trouble
            if isinstance(trouble, JudgeUnavailableError):
                break  # the others would only wait for it, too
        return found

    def stop(self) -> None:
        """Give up what is under way."""
        for running in self._running.values():
            running.cancel()

    async def _try(self, metric: str) -> JudgeError | None:
        try:
            await self.judges[metric].try_neutral(self._ask)
        except (JudgeUnavailableError, JudgeConfigurationError, EventError) as error:
            return error
        return None
