"""The library for programs without an event loop: scripts, notebooks, pandas and Polars."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from judge.errors import InvalidEventError
from judge.library import CONCURRENCY, Event, Judge, MetricChoice, Progress, read_event
from judge.rows import fields_of
from schemas import Failed, QAEvent, Scored, Unscored

_CHOSEN = frozenset({"boolean", "label"})


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

    def score(self, event: Event, metric: MetricChoice) -> Scored | Unscored | Failed:
        """Judge one answer; see `Judge.score`."""
        result: Scored | Unscored | Failed = self._run(self._judge.score(event, metric))
        return result

    def score_many(
        self,
        events: Iterable[Event],
        metric: MetricChoice,
        *,
        concurrency: int = CONCURRENCY,
        progress: Progress | None = None,
    ) -> Iterator[Scored | Unscored | Failed]:
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

    def score_frame(
        self,
        frame: Any,
        metric: MetricChoice,
        *,
        concurrency: int = CONCURRENCY,
        progress: Progress | None = None,
    ) -> Any:
        """Judge the rows of a pandas or Polars data frame.

        Args:
            frame: Its columns are fields of events (see `judge.rows`).
            metric: As for `score`.
            concurrency: As for `score_many`.
            progress: As for `score_many`.

        Returns:
            A frame of the same kind with the additional columns `status`, `score`, `label`, `reason` and
            `justification`. `label` is set for metrics whose result is a label or true/false. A row that is
            not a valid event gets the status `invalid` and a reason.

        Raises:
            TypeError: It is neither kind of frame.
            JudgeError: As `score`.
        """
        rows = [_read(row) for row in rows_of(frame)]
        events = [row for row in rows if isinstance(row, QAEvent)]
        results = self.score_many(events, metric, concurrency=concurrency, progress=progress)
        return with_columns(frame, [next(results) if isinstance(row, QAEvent) else row for row in rows])

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._thread.is_alive():
            self._run(self._judge.close())
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
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


def rows_of(frame: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data frame as fields of events.

    Raises:
        TypeError: It is neither a pandas nor a Polars data frame.
    """
    if hasattr(frame, "iter_rows"):  # Polars
        rows: Iterable[dict[str, Any]] = frame.iter_rows(named=True)
    elif hasattr(frame, "to_dict"):  # pandas
        rows = frame.to_dict(orient="records")
    else:
        raise TypeError(f"frame must be a pandas or Polars data frame, got {type(frame).__name__}")
    for row in rows:
        yield fields_of(row)


def _read(fields: dict[str, Any]) -> QAEvent | str:
    """Return the event, or the reason why it is invalid, so that one bad row does not stop the others."""
    try:
        return read_event(fields)
    except InvalidEventError as error:
        return str(error)


def with_columns(frame: Any, results: list[Scored | Unscored | Failed | str]) -> Any:
    """Add the results, or the reasons for invalid rows, to a data frame as columns."""
    columns: dict[str, list[Any]] = {
        "status": ["invalid" if isinstance(one, str) else one.status for one in results],
        "score": [one.amount if isinstance(one, Scored) else None for one in results],
        "label": [one.shown if isinstance(one, Scored) and one.kind in _CHOSEN else None for one in results],
        "reason": [
            one if isinstance(one, str) else getattr(one, "reason", None) or getattr(one, "error_type", None)
            for one in results
        ],
        "justification": [None if isinstance(one, str) else _justification(one) for one in results],
    }
    if hasattr(frame, "with_columns"):  # Polars
        import polars  # noqa: ICN001, PLC0415 - the caller has it

        return frame.with_columns([polars.Series(name, values) for name, values in columns.items()])
    return frame.assign(**columns)


def _justification(result: Scored | Unscored | Failed) -> str | None:
    if isinstance(result, Failed):
        return result.detail
    verdict = result.verdict or {}
    if "justification" in verdict:
        return str(verdict["justification"])
    lines = verdict.get("rationale")
    return "\n".join(map(str, lines)) if isinstance(lines, list) else None
