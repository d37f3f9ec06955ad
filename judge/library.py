"""Judging without Kafka, in a few lines of one's own program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from judge.chat import ChatClient
from judge.errors import JudgeConfigurationError
from judge.metric import Metric
from judge.metrics.packs.pack import load_pack
from judge.metrics.registry import build_metric
from judge.offline.chat import OfflineChat
from judge.pool.pool import Endpoint
from judge.pool.stack import JudgingStack
from judge.task import build_task
from judge.text.redaction import Kind, Redactor
from judge.verdict import evaluator
from judge.verdict.guarded_metric import GuardedMetric, TextLimits
from schemas import Failed, QAEvent, Sampling, Scored, Source, Unscored

DEFAULT_BASE_URL = "https://api.openai.com/v1"

_SAMPLING = Sampling(probability=1.0, stratum="default", policy="every event")


class Judge:
    """Scores answers; an asynchronous context manager.

    Without an address and without a key, neither given nor in OPENAI_BASE_URL and OPENAI_API_KEY, the offline judge answers:
    rules inside this process, which understand nothing and cost nothing; its results carry its name.

    Args:
        base_url: An OpenAI-compatible endpoint, up to and with `/v1`; else OPENAI_BASE_URL, else OpenAI's own.
        model: The model to ask; else OPENAI_MODEL.
        api_key: Its key; else OPENAI_API_KEY.
        chat: An endpoint of one's own, in place of all these; stays the caller's to close.
        parameters: Sampling parameters as the endpoint names them (temperature, seed, ...).
        redact: What to replace in all texts before they leave the process (`judge.text.redaction.KINDS`).
        timeout_seconds: Bound on one call, above 0.

    Raises:
        JudgeConfigurationError: There is an endpoint and no model is named, or the address is none.
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
    ) -> None:
        asked = chat or _chat(base_url, model, api_key, timeout_seconds)
        self._stack = JudgingStack([Endpoint(asked, parameters=parameters or {}, borrowed=chat is not None)])
        self._redactor = Redactor(redact)
        self._judges: dict[str | Path | Metric, evaluator.Judge] = {}
        self._scored = 0

    async def score(
        self, event: QAEvent | Mapping[str, Any], metric: str | Path | Metric
    ) -> Scored | Unscored | Failed:
        """Judge one answer; any number at the same time.

        Args:
            event: The event, or its fields: `event_id`, `question`, `answer`, and what the metric needs of `reference` and
                `context`.
            metric: `coverage`, `relevance`, the path of a prompt pack that names its score range, or a metric.

        Returns:
            The result. What is wrong with this event alone is one, too: `Unscored` or `Failed`.

        Raises:
            JudgeUnavailableError: The endpoint cannot answer now; one call is made, trying again is the caller's to decide.
            JudgeConfigurationError: No event can be judged as things are.
            PromptPackError: The prompt pack cannot be used.
            pydantic.ValidationError: The fields are no event's.
        """
        judge = self._judges.get(metric)
        if judge is None:
            judge = self._judges[metric] = self._judge(metric)
        read = event if isinstance(event, QAEvent) else QAEvent.model_validate(dict(event))
        now = datetime.now(UTC)
        self._scored += 1
        task = build_task(
            read,
            judge.metric,
            source=Source(topic="library", partition=0, offset=self._scored - 1),
            sampling=_SAMPLING,
            recorded_at=now,
            sampled_at=now,
        )
        return await judge.judge(task)

    def _judge(self, metric: str | Path | Metric) -> evaluator.Judge:
        if isinstance(metric, Path):
            built = build_metric(metric.stem, pack=load_pack(metric))
        elif isinstance(metric, str):
            built = build_metric(metric)
        else:
            built = metric
        guarded = GuardedMetric(built, redactor=self._redactor, limits=TextLimits())
        return self._stack.evaluator(guarded)

    async def close(self) -> None:
        """Release the connections."""
        await self._stack.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _chat(base_url: str | None, model: str | None, api_key: str | None, timeout_seconds: float) -> ChatClient:
    address = base_url or os.environ.get("OPENAI_BASE_URL", "")
    key = api_key or os.environ.get("OPENAI_API_KEY", "")
    if not (address or key):
        if model:
            raise JudgeConfigurationError(
                f"model {model} is named, but no endpoint; give base_url or api_key, or set OPENAI_BASE_URL or OPENAI_API_KEY"
            )
        return OfflineChat()
    asked = model or os.environ.get("OPENAI_MODEL", "")
    if not asked:
        raise JudgeConfigurationError("an endpoint needs a model; give model, or set OPENAI_MODEL")
    # Here, because the SDK takes longer to import than all the rest.
    from judge.endpoint.openai_chat import OpenAIChat  # noqa: PLC0415

    return OpenAIChat(
        endpoint="library",
        model=asked,
        base_url=address or DEFAULT_BASE_URL,
        api_key=key,
        timeout_seconds=timeout_seconds,
    )
