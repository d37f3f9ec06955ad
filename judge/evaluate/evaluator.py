"""Turn one task into one result: prompt, ask, repair turn, check, result with evaluator and cost."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import orjson

from judge.chat import ChatClient, ChatMessage, ChatReply, ChatRequest
from judge.errors import EventError, InvalidVerdictError, JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.cache import VerdictCache, cache_entry, cache_key, from_entry
from judge.evaluate.guard import neutral_task
from judge.evaluate.limited import DEFAULT_SECONDS, MetricProcess, run_limited
from judge.evaluate.prices import PriceTable, total_cost, total_usage
from judge.metric import Metric, Outcome, ScoredOutcome, UnscoredOutcome, reading_size, size_of
from schemas import Evaluator as EvaluatorFacts
from schemas import (
    Failed,
    FailedType,
    JudgeCall,
    JudgeTask,
    Result,
    Scored,
    Times,
    Unscored,
    Usage,
    is_rejudged,
)

Ask: TypeAlias = Callable[[ChatRequest], Awaitable[ChatReply]]

CODE: Final = "code"
TEMPERATURE: Final = 0.0
"""For reproducible verdicts, as far as the model allows."""
DEFAULT_REPAIR_ATTEMPTS: Final = 2
MAX_DETAIL_CHARS: Final = 2_000
MAX_SHOWN_CHARS: Final = 8_000
"""Limit of the reply in a repair turn; the middle is left out."""
MAX_KEPT_CHARS: Final = 1_000
"""Limit of an unrepaired reply in the result; its end is kept, where verdicts are."""
MAX_PROBLEM_CHARS: Final = 900
REPAIR_BEGINNING: Final = "Your reply cannot be used as it is."
_REPAIR = (
    f"{REPAIR_BEGINNING} What is wrong with it:\n\n{{problem}}\n\n"
    "Judge the same data once more by the same instructions and give the whole reply again, with this "
    "repaired, and with nothing around it."
)
_LEFT_OUT = "\n[... left out ...]\n"
_READY: Final = ChatRequest(
    messages=(ChatMessage("user", "Answer with the single word: ready"),), max_output_tokens=64
)

TRANSPORT: Final = frozenset(
    {
        *("service_tier", "prompt_cache_key", "prompt_cache_retention", "store"),
        *("user", "safety_identifier", "metadata"),
        *("priority", "request_id", "cache_salt"),  # vLLM's
    }
)
"""Parameters of how a call is served, billed or cached: they are sent, but change no verdict."""
_OF_TASK: Final = (
    *("result_id", "event_id", "replay_id", "trace_id", "span_id"),
    *("labels", "metric", "source", "sampling"),
)
MESSAGE_TOKENS: Final = 8
"""Tokens of a turn besides its text: role and separators."""
_LETTERS = string.ascii_letters.encode()
_ASCII_OTHERS = bytes(byte for byte in range(0x80) if byte not in _LETTERS + b" \t")
# Lead bytes of UTF-8 by the length of the character; continuation bytes count nothing.
_LEADS = (bytes(range(0xC0, 0xE0)), bytes(range(0xE0, 0xF0)), bytes(range(0xF0, 0xF8)))
_TENTHS: Final = ((_LETTERS, 3), (_ASCII_OTHERS, 10), *zip(_LEADS, (10, 20, 30), strict=True))


class Evaluator:
    """Judges one metric at one endpoint; the caller closes endpoint, cache and process.

    Args:
        chat: None: a code metric, which asks no endpoint.
        max_output_tokens: None: the metric's own limit.
        context_tokens: The model's window, input and reply together; a longer request is `Unscored`.
        verification_seconds: Time limit for processing an event's texts or a reply; above 0.
        process: Child process for a code metric's own code; None: run it in this process.
    """

    def __init__(
        self,
        metric: Metric,
        chat: ChatClient | None,
        *,
        prices: PriceTable | None = None,
        parameters: Mapping[str, Any] | None = None,
        max_output_tokens: int | None = None,
        context_tokens: int | None = None,
        repair_attempts: int = DEFAULT_REPAIR_ATTEMPTS,
        cache: VerdictCache | None = None,
        verification_seconds: float = DEFAULT_SECONDS,
        process: MetricProcess | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.metric = metric
        self._complete: Ask = _nobody if chat is None else chat.complete
        self._endpoint, self._model = (CODE, CODE) if chat is None else (chat.endpoint, chat.model)
        self._prices = prices or PriceTable()
        self._parameters = dict(parameters or {})
        self._max_output_tokens = max_output_tokens
        self._context_tokens = context_tokens
        self._repair_attempts = repair_attempts
        self._cache = cache
        self._verification_seconds = verification_seconds
        self._process = process
        self._clock = clock
        self.evaluator = evaluator_of(metric, model=self._model, parameters=self._parameters)

    async def judge(self, task: JudgeTask, ask: Ask | None = None) -> Result:
        """Judge one answer, by calls of `ask` (None: directly). A failure of this event alone is a result.

        Raises:
            JudgeUnavailableError: The endpoint cannot answer now; try again later.
            JudgeConfigurationError: No event can be judged with this configuration.
        """
        if task.metric != self.metric.name:
            raise ValueError(
                f"a judge of {self.metric.name} was given a task of {task.metric}; look it up by name"
            )
        replies: list[ChatReply] = []
        is_asked = False
        try:
            cache = None if is_rejudged(task.replay_id) else self._cache
            key = "" if cache is None else self._key(task)
            entry = None if cache is None else cache.get(key)
            cached = None if entry is None else from_entry(entry, self._common(task, [], is_asked=False))
            if cached is not None:
                return cached
            size = reading_size(task)
            prepared: ChatRequest | Outcome
            prepare = self.metric.prepare  # not this object's own, which no process could be sent
            if self._process is not None:
                prepared = await self._process.call(self._process.seconds, prepare, task)
            else:
                prepared = await run_limited(size, self._verification_seconds, prepare, task)
                prepared = self._bounded(prepared)
            if isinstance(prepared, ChatRequest):
                is_asked = True
                prepared = await self._asked(task, size, prepared, ask or self._complete, replies)
            result = _result(prepared, self._common(task, replies, is_asked=is_asked))
            if cache is not None and replies:
                cache.put(key, cache_entry(result))
            return result  # noqa: TRY300 - a failure to build it is handled below like any other
        except (JudgeUnavailableError, JudgeConfigurationError):
            raise
        except Exception as error:  # noqa: BLE001 - a failure is data: one event must not stop the stream
            if not isinstance(error, EventError):
                error = EventError("internal_error", f"{type(error).__name__}: {error}")
            common = self._common(task, replies, is_asked=is_asked)
            return Failed(error_type=error.error_type, detail=_truncated(error.detail), **common)

    async def try_neutral(self, ask: Ask) -> None:
        """Judge the neutral event with one call; raise what keeps this metric from being judged."""
        task = neutral_task(self.metric, now=self._clock())
        prepared = self._bounded(self.metric.prepare(task))
        if isinstance(prepared, ChatRequest):
            reply = await ask(prepared)
            self.metric.interpret(task, reply.text)
        else:
            await ask(_READY)  # the metric needs no call for this event

    def failed(self, task: JudgeTask, error_type: FailedType, detail: str, *, tries: int) -> Failed:
        common = self._common(task, [], is_asked=True)
        common["judge"] = self._call([], tries=tries)
        return Failed(error_type=error_type, detail=_truncated(detail), **common)

    def cost_usd(self, usage: Usage, factor: float = 1.0) -> float | None:
        """Return the cost of one call; None if the price is unknown."""
        return self._prices.cost_usd(self._model, usage, endpoint=self._endpoint, factor=factor)

    def _bounded(self, request: ChatRequest | Outcome) -> ChatRequest | Outcome:
        if not isinstance(request, ChatRequest):
            return request
        parameters = {**request.parameters, **self._parameters}
        if request.embeds:
            return replace(request, parameters=parameters)  # no text is generated
        request = replace(
            request,
            parameters=parameters,
            max_output_tokens=self._max_output_tokens or request.max_output_tokens,
            temperature=TEMPERATURE,
        )
        if self._context_tokens is not None:
            limit = self._context_tokens - request.max_output_tokens
            tokens = request_tokens(request)
            if tokens > limit:
                return UnscoredOutcome("too_long", evidence={"estimated_tokens": tokens, "limit": limit})
        return request

    async def _asked(
        self, task: JudgeTask, size: int, request: ChatRequest, ask: Ask, replies: list[ChatReply]
    ) -> Outcome:
        """Ask until the reply is valid or repairs are used up; an objection is sent back only once."""
        objected: Outcome | None = None
        problem = ""
        asking, repairs = request, 0
        while True:
            try:
                reply = await ask(asking)
            except EventError as error:
                replies += [] if error.reply is None else [error.reply]
                if objected is not None:
                    return objected
                if problem and error.error_type == "context_too_long":  # only the repair turn is
                    raise unrepaired(problem, replies[-1].text, repairs - 1) from error
                raise
            replies.append(reply)
            outcome, problem = await self._interpreted(task, size, reply.text)
            if objected is not None:
                return outcome or objected
            if outcome is not None and (not problem or repairs >= self._repair_attempts):
                return outcome
            if repairs >= self._repair_attempts:
                raise unrepaired(problem, reply.text, repairs)
            objected, repairs = outcome, repairs + 1
            asking = repair_request(request, reply.text, problem)

    async def _interpreted(self, task: JudgeTask, size: int, reply: str) -> tuple[Outcome | None, str]:
        """Return the outcome of a reply, if any, and what the judge must repair, or ""."""
        seconds, interpret = self._verification_seconds, self.metric.interpret
        try:
            outcome = await run_limited(size + size_of(reply), seconds, interpret, task, reply)
        except InvalidVerdictError as error:
            return None, error.detail
        return outcome, (isinstance(outcome, ScoredOutcome) and outcome.objection) or ""

    def _key(self, task: JudgeTask) -> str:
        return cache_key(task, fingerprint=self.evaluator.fingerprint, context_tokens=self._context_tokens)

    def _common(self, task: JudgeTask, replies: list[ChatReply], *, is_asked: bool) -> dict[str, Any]:
        # A failed call may have been billed; its cost is unknown. Calls are priced singly, because price
        # tiers depend on a call's size.
        is_unknown = is_asked and not replies
        return {
            **{name: getattr(task, name) for name in _OF_TASK},
            "evaluator": self.evaluator,
            "judge": self._call(replies) if is_asked else None,
            "usage": total_usage(reply.usage for reply in replies),
            "cost_usd": None
            if is_unknown
            else total_cost(self.cost_usd(reply.usage, reply.price_factor) for reply in replies),
            "times": Times(
                occurred_at=task.occurred_at,
                sampled_at=task.sampled_at,
                judged_at=self._clock(),
                judge_seconds=sum(reply.seconds for reply in replies) if replies else None,
            ),
        }

    def _call(self, replies: list[ChatReply], *, tries: int = 0) -> JudgeCall:
        return JudgeCall(
            endpoint=self._endpoint,
            model_asked=self._model,
            model_answered=replies[-1].model if replies else self._model,
            system_fingerprint=replies[-1].system_fingerprint if replies else None,
            tries=max(1, tries, len(replies)),
        )


async def _nobody(_: ChatRequest) -> ChatReply:
    raise TypeError("a code metric asks no endpoint")


def evaluator_of(metric: Metric, *, model: str, parameters: Mapping[str, Any]) -> EvaluatorFacts:
    facts: dict[str, Any] = {
        "prompt": metric.prompt_hash,
        "schema": metric.schema_hash,
        "scoring": metric.scoring_version,
        "model": model,
        "parameters": {name: value for name, value in parameters.items() if name not in TRANSPORT},
    }
    named = {**facts, "metric": metric.name, "mode": metric.mode, "score_range": metric.score_range}
    digest = hashlib.sha256(orjson.dumps(named, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return EvaluatorFacts.model_validate({"fingerprint": digest[:16], **facts})


def estimated_tokens(text: str) -> int:
    """Count in tenths: ASCII letters 3, blanks 0, others 10 to 30; for English prose a third too many."""
    data = text.encode("utf-8", "surrogatepass")
    tenths = sum((len(data) - len(data.translate(None, kind))) * weight for kind, weight in _TENTHS)
    return -(-tenths // 10)


def request_tokens(request: ChatRequest) -> int:
    tokens = sum(estimated_tokens(message.content) + MESSAGE_TOKENS for message in request.messages)
    if request.response_schema is not None:
        schema = orjson.dumps(dict(request.response_schema.schema)).decode()
        tokens += estimated_tokens(schema) + MESSAGE_TOKENS
    return tokens


def _result(outcome: Outcome, common: dict[str, Any]) -> Scored | Unscored:
    given = {one.name: getattr(outcome, one.name) for one in fields(outcome) if one.name != "objection"}
    given["verdict"] = None if outcome.verdict is None else dict(outcome.verdict)
    return Unscored(**common, **given) if isinstance(outcome, UnscoredOutcome) else Scored(**common, **given)


def repair_request(request: ChatRequest, reply: str, problem: str) -> ChatRequest:
    """Append the last reply and its problem, so that the prefix stays cacheable."""
    shown = reply
    if len(reply) > MAX_SHOWN_CHARS:
        half = (MAX_SHOWN_CHARS - len(_LEFT_OUT)) // 2
        shown = f"{reply[:half]}{_LEFT_OUT}{reply[-half:]}"
    # Some chat templates refuse an empty turn, or two consecutive user turns.
    turns = (
        ChatMessage("assistant", shown if shown.strip() else "(an empty reply)"),
        ChatMessage("user", _REPAIR.format(problem=problem[:MAX_PROBLEM_CHARS])),
    )
    return replace(request, messages=(*request.messages, *turns))


def unrepaired(problem: str, reply: str, repairs: int) -> InvalidVerdictError:
    after = f" (after {repairs} repair {'attempt' if repairs == 1 else 'attempts'})" if repairs else ""
    kept = reply if len(reply) <= MAX_KEPT_CHARS else f"…{reply[1 - MAX_KEPT_CHARS :]}"
    return InvalidVerdictError(f"{problem[:MAX_PROBLEM_CHARS]}{after}; the reply: {kept}")


def _truncated(detail: str) -> str:
    return detail if len(detail) <= MAX_DETAIL_CHARS else f"{detail[: MAX_DETAIL_CHARS - 1]}…"
