"""Judging without Kafka, from your own program."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeAlias, get_args

from pydantic import ValidationError

from judge.chat import ChatClient
from judge.endpoints.options import EndpointOptions
from judge.endpoints.pool import EndpointPool, JudgingOptions
from judge.endpoints.retrying import RetryingJudge
from judge.errors import InvalidEventError, JudgeConfigurationError
from judge.evaluate.cache import VerdictCache
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.guard import GuardedMetric, TextLimits, redactor
from judge.evaluate.prices import PriceTable
from judge.metric import Metric, unsampled_task
from judge.metrics.code import awaited
from judge.metrics.packs.pack import load_pack
from judge.metrics.registry import build_metric, metric_names
from judge.text.printable import problems_of
from judge.text.redaction import Kind, Redactor
from schemas import QAEvent, Result

Event: TypeAlias = QAEvent | Mapping[str, Any]
"""An event, or its fields."""
MetricChoice: TypeAlias = str | Path | Metric
"""A built-in metric's name, the path of a prompt pack, or a metric."""
Progress: TypeAlias = Callable[[int], object]
"""Called with the number of results so far."""
CONCURRENCY = 16


class Judge:
    """Scores answers; an asynchronous context manager.

    Use it to judge answers from your own program. Without `base_url` and `api_key` (as arguments or as
    OPENAI_BASE_URL and OPENAI_API_KEY) the offline judge is used: rules in this process that compare words.
    Its results carry its name.

    Args:
        base_url: An OpenAI-compatible endpoint, including `/v1`; default: OPENAI_BASE_URL, else OpenAI's own.
        model: The model; default: OPENAI_MODEL.
        api_key: Its key; default: OPENAI_API_KEY.
        chat: A client of your own instead of these three; you close it.
        parameters: Sampling parameters as the endpoint names them (temperature, seed, ...).
        redact: What to replace in all texts before they leave the process (`judge.text.redaction.Kind`;
            `names` needs the extra `presidio`).
        timeout_seconds: Time limit of one call, above 0.
        retry: Retry transient failures (an outage, a rate limit) without a time limit, as a worker does; else
            a failed call raises `JudgeUnavailableError`.
        requests_per_minute: The endpoint's limit, if its headers do not report it; used with `retry`.
        tokens_per_minute: Likewise, input and output together.
        context_tokens: The model's context window; an event that needs more is `Unscored`. None: unknown.
        options: Concurrency, retries, limit of replies, repair turns.
        limits: Limits of texts.
        prices: Prices of tokens, for `cost_usd`.
        cache: Cache of verdicts; closed with the judge.

    Raises:
        JudgeConfigurationError: An endpoint is given without a model, `base_url` is not a valid address, or
            `redact` names an unknown kind.
    """

    def __init__(
        self,
        *,
        base_url: str | None = None,
        model: str | None = None,
        api_key: str | None = None,
        chat: ChatClient | None = None,
        parameters: Mapping[str, Any] | None = None,
        redact: Iterable[Kind] = (),
        timeout_seconds: float = 60.0,
        retry: bool = False,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        context_tokens: int | None = None,
        options: JudgingOptions | None = None,
        limits: TextLimits | None = None,
        prices: PriceTable | None = None,
        cache: VerdictCache | None = None,
    ) -> None:
        asked = chat or _chat(base_url, model, api_key, timeout_seconds)
        endpoint = EndpointOptions(
            asked,
            parameters=parameters or {},
            borrowed=chat is not None,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            call_seconds=timeout_seconds,
            context_tokens=context_tokens,
        )
        self._pool = EndpointPool([endpoint], options, prices=prices, cache=cache)
        self._retry = retry
        self._limits = limits or TextLimits()
        self._redactor = _redactor(redact)
        self._judges: dict[MetricChoice, tuple[Metric, Evaluator | RetryingJudge]] = {}
        self._scored = 0

    async def score(self, event: Event, metric: MetricChoice) -> Result:
        """Judge one answer. Calls may run concurrently.

        Args:
            event: The event, or its fields: `question`, `answer`, and what the metric needs of `reference`
                and `context` (a mapping of page names to texts, or a list of texts). The default `event_id`
                is a hash of the texts.
            metric: The name of a metric, the path of a prompt pack that names its score range, or a metric.

        Returns:
            The result. A problem of this event is a result, too: `Unscored` or `Failed`.

        Raises:
            JudgeUnavailableError: The endpoint cannot answer now. Without `retry` one call is made.
            JudgeConfigurationError: No event can be judged with this configuration.
            PromptPackError: The prompt pack is invalid.
            InvalidEventError: The fields are no valid event.
        """
        known = self._judges.get(metric)
        if known is None:
            known = self._judges[metric] = self._judge(metric)
        guarded, judge = known
        now = datetime.now(UTC)
        self._scored += 1
        task = unsampled_task(read_event(event), guarded, source="library", now=now, number=self._scored - 1)
        return await judge.judge(task)

    async def score_many(
        self,
        events: Iterable[Event],
        metric: MetricChoice,
        *,
        concurrency: int = CONCURRENCY,
        progress: Progress | None = None,
    ) -> AsyncGenerator[Result, None]:
        """Judge several answers concurrently; yields results in the order of the events.

        Use it for a list or generator of any length: at most `concurrency` events are held in memory.

        Args:
            events: The events, as `score` takes them.
            metric: As for `score`.
            concurrency: Events judged concurrently; at least 1.
            progress: Called with the number of results so far, before each result is yielded.

        Raises:
            JudgeError: As `score`; the first error ends the iteration.
            ValueError: `concurrency` is less than 1.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}; raise it")
        pending: deque[asyncio.Task[Result]] = deque()
        waiting = iter(events)
        done = 0
        try:
            while True:
                for event in islice(waiting, concurrency - len(pending)):
                    pending.append(asyncio.ensure_future(self.score(event, metric)))
                if not pending:
                    return
                result = await pending.popleft()
                done += 1
                if progress is not None:
                    progress(done)
                yield result
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    def __repr__(self) -> str:
        return f"Judge(model={self._pool.endpoints[0].model!r})"

    def _judge(self, metric: MetricChoice) -> tuple[Metric, Evaluator | RetryingJudge]:
        if isinstance(metric, str) and metric not in metric_names() and Path(metric).suffix:
            metric = Path(metric)
        if isinstance(metric, Path):
            built = build_metric(metric.stem, pack=load_pack(metric))
        elif isinstance(metric, str):
            built = build_metric(metric)
        else:
            built = metric
        guarded = GuardedMetric(built, redactor=self._redactor, limits=self._limits)
        return guarded, self._pool.judge(guarded) if self._retry else self._pool.evaluator(guarded)

    async def close(self) -> None:
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


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
        future: Future[Any] = asyncio.run_coroutine_threadsafe(awaited(work), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def read_event(event: Event) -> QAEvent:
    """Read an event from its fields; InvalidEventError if they are none."""
    if isinstance(event, QAEvent):
        return event
    fields = dict(event)
    if isinstance(fields.get("event_id"), int):
        fields["event_id"] = str(fields["event_id"])  # as in table columns
    at = fields.get("occurred_at")
    if isinstance(at, datetime) and at.tzinfo is None:
        fields["occurred_at"] = at.replace(tzinfo=UTC)
    if not fields.get("event_id"):
        texts = repr([fields.get(name) for name in ("question", "answer", "reference", "context")])
        fields["event_id"] = hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    if isinstance(fields.get("context"), list | tuple):
        fields["context"] = {f"Page-{number}": text for number, text in enumerate(fields["context"], start=1)}
    try:
        return QAEvent.model_validate(fields)
    except ValidationError as error:
        raise InvalidEventError(problems_of(error, "event", most=5)) from None


def _redactor(kinds: Iterable[Kind]) -> Redactor:
    given: tuple[Kind, ...] = () if isinstance(kinds, str) else tuple(kinds)
    kinds_known = get_args(Kind)
    unknown = [kind for kind in given if kind not in kinds_known]
    if unknown or isinstance(kinds, str):
        shown = f"the text {kinds!r}" if isinstance(kinds, str) else ", ".join(map(repr, unknown))
        raise JudgeConfigurationError(f"redact must be a list of {', '.join(kinds_known)}; got {shown}")
    return redactor(given)


def _chat(base_url: str | None, model: str | None, api_key: str | None, timeout_seconds: float) -> ChatClient:
    address = base_url or os.environ.get("OPENAI_BASE_URL", "")
    key = api_key or os.environ.get("OPENAI_API_KEY", "")
    if not (address or key):
        if model:
            raise JudgeConfigurationError(
                f"model {model} is given without an endpoint; give base_url or api_key, or set "
                "OPENAI_BASE_URL or OPENAI_API_KEY"
            )
        from judge.offline.server import OfflineChat  # noqa: PLC0415 - the server's library takes long, too

        return OfflineChat()
    asked = model or os.environ.get("OPENAI_MODEL", "")
    if not asked:
        raise JudgeConfigurationError("an endpoint needs a model; give model, or set OPENAI_MODEL")
    # Imported here, because the SDK takes longer than everything else.
    from judge.endpoints.openai_chat import OpenAIChat  # noqa: PLC0415

    return OpenAIChat(
        endpoint="library",
        model=asked,
        base_url=address or "https://api.openai.com/v1",
        api_key=key,
        timeout_seconds=timeout_seconds,
    )
