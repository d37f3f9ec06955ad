"""Turn one task into one result: ask the judge, check the reply, add evaluator and cost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from judge.chat import ChatClient, ChatMessage, ChatReply, ChatRequest
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.metric import Metric, Outcome, ScoredOutcome, UnscoredOutcome
from judge.task import reading_size
from judge.verdict import aside
from judge.verdict.cache import VerdictCache, cache_entry, cache_key, from_entry
from judge.verdict.dialogue import Ask, Asking, Dialogue
from judge.verdict.fitting import Fitted
from judge.verdict.neutral import neutral_task
from judge.verdict.preparation import Preparation
from judge.verdict.pricing import PriceTable
from judge.verdict.processes.metric_process import MetricProcess
from judge.verdict.repair import DEFAULT_REPAIR_ATTEMPTS
from schemas import Evaluator, Failed, FailedType, JudgeCall, JudgeTask, Scored, Times, Unscored, Usage

_READY: Final = ChatRequest(
    messages=(ChatMessage("user", "Answer with the single word: ready"),), max_output_tokens=64
)

MAX_DETAIL_CHARS = 2000
"""Limit of a failure's detail."""


class Judge:
    """Judges one metric at one endpoint.

    Args:
        metric: The metric.
        chat: The endpoint; the caller closes it.
        prices: Prices of tokens.
        parameters: Sampling parameters of the endpoint (temperature, seed, ...); they override the metric's
            own.
        max_output_tokens: Limit of a reply; None: the metric's own.
        context_tokens: The model's context window, input and reply together; `judge.verdict.fitting` cuts
            longer texts. None: unknown, nothing is cut.
        repair_attempts: How often the judge may repair an invalid reply; 0 or more.
        cache: Cache of verdicts; the caller closes it.
        verification_seconds: Time limit for processing an event's texts or a reply; above 0.
        process: Child process for a code metric's own code; None: run it in this process. The caller closes
            it.
        clock: Returns the current time, with its UTC offset.
    """

    def __init__(
        self,
        metric: Metric,
        chat: ChatClient,
        *,
        prices: PriceTable | None = None,
        parameters: Mapping[str, Any] | None = None,
        max_output_tokens: int | None = None,
        context_tokens: int | None = None,
        repair_attempts: int = DEFAULT_REPAIR_ATTEMPTS,
        cache: VerdictCache | None = None,
        verification_seconds: float = aside.DEFAULT_SECONDS,
        process: MetricProcess | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._metric = metric
        self._chat = chat
        self._prices = prices or PriceTable()
        self._parameters = dict(parameters or {})
        self._preparation = Preparation(metric, self._parameters, max_output_tokens, context_tokens)
        self._verification_seconds = verification_seconds
        self._dialogue = Dialogue(
            metric,
            self._preparation,
            repair_attempts=repair_attempts,
            verification_seconds=verification_seconds,
        )
        self._cache = cache
        self._process = process
        self._clock = clock
        self._evaluator = evaluator_of(metric, model=chat.model, parameters=self._parameters)

    @property
    def metric(self) -> Metric:
        """The metric."""
        return self._metric

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of all its results."""
        return self._evaluator

    async def judge(self, task: JudgeTask, asking: Asking | None = None) -> Scored | Unscored | Failed:
        """Judge one answer.

        A failure that concerns only this event is a result.

        Args:
            task: A task of this judge's metric.
            asking: Makes the calls to the endpoint; None: directly.

        Raises:
            JudgeUnavailableError: The endpoint cannot answer now; try again later.
            JudgeConfigurationError: No event can be judged with this configuration.
            ValueError: The task belongs to another metric.
        """
        if task.metric != self._metric.name:
            raise ValueError(
                f"a judge of {self._metric.name} was given a task of {task.metric}; look it up by name"
            )
        replies: list[ChatReply] = []
        asked = False
        try:
            known = self._known(task)
            if known is not None:
                return known
            prepared = await self._prepared(task)
            if isinstance(prepared, tuple):
                asked = True
                asking = asking or Asking(self._chat.complete)
                outcome = await self._dialogue.outcome(task, prepared, asking, replies)
            else:
                outcome = prepared
            result = self._result(outcome, self._common(task, replies, asked=asked))
            if self._cache is not None and replies:
                self._cache.put(self._key(task), cache_entry(result))
            return result  # noqa: TRY300 - a failure to build it is handled below like any other
        except (JudgeUnavailableError, JudgeConfigurationError):
            raise
        except Exception as error:  # noqa: BLE001 - a failure is data: one event must not stop the stream
            error_type, detail = failure_of(error)
            return Failed(error_type=error_type, detail=detail, **self._common(task, replies, asked=asked))

    async def _prepared(self, task: JudgeTask) -> tuple[Fitted, ...] | Outcome:
        if self._process is not None:
            return await self._process.call(self._preparation, task)
        return await aside.read(reading_size(task), self._verification_seconds, self._preparation, task)

    async def try_neutral(self, ask: Ask) -> None:
        """Judge the neutral event with one call, to test whether this metric can be judged.

        Args:
            ask: Makes the call.

        Raises:
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: The endpoint refuses the call because of the configuration.
            EventError: It refuses the neutral event, or its reply is invalid.
        """
        task = neutral_task(self._metric, now=self._clock())
        prepared = self._preparation(task)
        if isinstance(prepared, tuple):
            whole = prepared[0]  # too short for parts
            reply = await ask(whole.request)
            self._metric.interpret(whole.task, reply.text)
        else:
            await ask(_READY)  # the metric needs no call for this event

    def failed(self, task: JudgeTask, error_type: FailedType, detail: str, *, tries: int) -> Failed:
        """Return the failure of a task that is abandoned for a reason beyond a single call.

        Args:
            task: The task.
            error_type: The type of failure.
            detail: What happened; truncated.
            tries: Number of calls made.
        """
        common = self._common(task, [], asked=True)
        common["judge"] = self._call([]).model_copy(update={"tries": max(1, tries)})
        return Failed(error_type=error_type, detail=_cut(detail), **common)

    def cost_usd(self, usage: Usage) -> float | None:
        """Return the cost of one call to its endpoint, in USD; None if the price is unknown."""
        return self._prices.cost_usd(self._chat.model, usage, endpoint=self._chat.endpoint)

    def _known(self, task: JudgeTask) -> Scored | Unscored | None:
        """Return the cached verdict on the same texts."""
        entry = None if self._cache is None else self._cache.get(self._key(task))
        return None if entry is None else from_entry(entry, self._common(task, [], asked=False))

    def _key(self, task: JudgeTask) -> str:
        return cache_key(
            task, fingerprint=self._evaluator.fingerprint, context_tokens=self._preparation.context_tokens
        )

    def _common(self, task: JudgeTask, replies: list[ChatReply], *, asked: bool) -> dict[str, Any]:
        usage = _sum(replies)
        return {
            "result_id": task.result_id,
            "event_id": task.event_id,
            "replay_id": task.replay_id,
            "trace_id": task.trace_id,
            "span_id": task.span_id,
            "labels": task.labels,
            "metric": task.metric,
            "source": task.source,
            "evaluator": self._evaluator,
            "judge": self._call(replies) if asked else None,
            "usage": usage,
            # A failed call may have been billed; its cost is unknown.
            "cost_usd": self._cost_usd(replies) if replies else None if asked else 0.0,
            "sampling": task.sampling,
            "times": Times(
                occurred_at=task.occurred_at,
                sampled_at=task.sampled_at,
                judged_at=self._clock(),
                judge_seconds=sum(reply.seconds for reply in replies) if replies else None,
            ),
        }

    def _cost_usd(self, replies: list[ChatReply]) -> float | None:
        """Return the total cost; calls are priced singly, because price tiers depend on a call's size."""
        costs = [self.cost_usd(reply.usage) for reply in replies]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def _call(self, replies: list[ChatReply]) -> JudgeCall:
        return JudgeCall(
            endpoint=self._chat.endpoint,
            model_asked=self._chat.model,
            model_answered=replies[-1].model if replies else self._chat.model,
            tries=max(1, len(replies)),
        )

    @staticmethod
    def _result(outcome: Outcome, common: dict[str, Any]) -> Scored | Unscored:
        match outcome:
            case ScoredOutcome():
                return Scored(
                    verdict=dict(outcome.verdict),
                    score=outcome.score,
                    kind=outcome.kind,
                    value=outcome.value,
                    score_exact=outcome.score_exact,
                    evidence=outcome.evidence,
                    corrections=outcome.corrections,
                    suspicions=outcome.suspicions,
                    **common,
                )
            case UnscoredOutcome():
                return Unscored(
                    reason=outcome.reason,
                    verdict=None if outcome.verdict is None else dict(outcome.verdict),
                    evidence=outcome.evidence,
                    corrections=outcome.corrections,
                    suspicions=outcome.suspicions,
                    **common,
                )


def failure_of(error: Exception) -> tuple[FailedType, str]:
    """Map an exception to the failure of one event.

    Returns:
        The `error_type`, and the truncated detail.
    """
    if isinstance(error, EventError):
        return error.error_type, _cut(error.detail)
    return "internal_error", _cut(f"{type(error).__name__}: {error}")


def evaluator_of(metric: Metric, *, model: str, parameters: Mapping[str, Any]) -> Evaluator:
    """Return the evaluator of a metric, with a fingerprint over all its fields.

    Args:
        metric: The metric.
        model: The model.
        parameters: Sampling parameters of the call.
    """
    fields: dict[str, Any] = {
        "prompt": metric.prompt_hash,
        "schema": metric.schema_hash,
        "scoring": metric.scoring_version,
        "model": model,
        "parameters": dict(parameters),
    }
    named = {**fields, "metric": metric.name, "mode": metric.mode, "score_range": metric.score_range}
    digest = hashlib.sha256(orjson.dumps(named, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Evaluator.model_validate({"fingerprint": digest[:16], **fields})


def _sum(replies: list[ChatReply]) -> Usage:
    return Usage(
        input_tokens=sum(reply.usage.input_tokens for reply in replies),
        cached_tokens=sum(reply.usage.cached_tokens for reply in replies),
        output_tokens=sum(reply.usage.output_tokens for reply in replies),
    )


def _cut(detail: str) -> str:
    return detail if len(detail) <= MAX_DETAIL_CHARS else f"{detail[: MAX_DETAIL_CHARS - 1]}…"
