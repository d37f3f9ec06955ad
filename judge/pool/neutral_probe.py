"""Probe an endpoint with a neutral event, to tell its failures from those of single events."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from judge.errors import EventError, JudgeConfigurationError, JudgeError, JudgeUnavailableError
from judge.verdict.dialogue import Ask
from judge.verdict.evaluator import Judge


class NeutralProbe:
    """Judges the neutral event at one endpoint.

    Args:
        ask: Sends its calls.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.judges: dict[str, Judge] = {}
        """Evaluators of the endpoint, by metric name."""
        self._running: dict[str, asyncio.Task[JudgeError | None]] = {}

    async def trouble(self, metric: str) -> JudgeError | None:
        """Return the error of judging the neutral event, or None.

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
        """Return the first error if every metric fails the neutral event, else None.

        A metric also passes if it fails in another way than the events did.

        Args:
            first: The metric to try first.
            kinds: Error types of the events' failures; empty if there was no answer, then any answer passes.
            shared: Whether to join a call in flight.
        """
        found: JudgeError | None = None
        for metric in dict.fromkeys((first, *self.judges)):
            trouble = await (self.trouble(metric) if shared else self._try(metric))
            if trouble is None or (isinstance(trouble, EventError) and trouble.error_type not in kinds):
                return None
            found = found or trouble
            if isinstance(trouble, JudgeUnavailableError):
                break  # the other metrics would fail in the same way
        return found

    def stop(self) -> None:
        """Cancel probes in flight."""
        for running in self._running.values():
            running.cancel()

    async def _try(self, metric: str) -> JudgeError | None:
        try:
            await self.judges[metric].try_neutral(self._ask)
        except (JudgeUnavailableError, JudgeConfigurationError, EventError) as error:
            return error
        return None
