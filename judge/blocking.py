"""The library for programs without an event loop: scripts and notebooks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Self

from judge.library import CONCURRENCY, Event, Judge, MetricChoice, Progress
from schemas import Result


class BlockingJudge:
    """Scores answers synchronously; a context manager with the arguments of `Judge`.

    Use it in code without `await`, and in notebooks: the judge runs in its own thread and event loop. Several
    threads may call `score` concurrently.

    Raises:
        JudgeConfigurationError: As `Judge`.
    """

    def __init__(self, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judgestream", daemon=True)
        self._thread.start()
        try:
            self._judge = self._run(self._open(options))
        except BaseException:
            self._end()
            raise

    @staticmethod
    async def _open(options: dict[str, Any]) -> Judge:
        return Judge(**options)

    def score(self, event: Event, metric: MetricChoice) -> Result:
        result: Result = self._run(self._judge.score(event, metric))
        return result

    def score_many(
        self,
        events: Iterable[Event],
        metric: MetricChoice,
        *,
        concurrency: int = CONCURRENCY,
        progress: Progress | None = None,
    ) -> Iterator[Result]:
        """Judge answers, several concurrently; see `Judge.score_many`."""
        results = self._judge.score_many(events, metric, concurrency=concurrency, progress=progress)
        try:
            while True:
                try:
                    yield self._run(anext(results))
                except StopAsyncIteration:
                    return
        finally:
            self._run(results.aclose())

    def close(self) -> None:
        if self._thread.is_alive():
            self._run(self._judge.close())
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Blocking{self._judge!r}"

    def _run(self, work: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(_awaited(work), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _awaited(work: Any) -> Any:
    return await work
