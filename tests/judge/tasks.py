"""Builds minimal judge tasks."""

from __future__ import annotations

from datetime import UTC, datetime

from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import parse_pack
from schemas import JudgeTask, Sampling, Source

TONE = PackMetric(
    "tone", parse_pack(b'[{role: user, content: "{answer}"}]', dialect="yaml", origin="p"), score_range=(1, 5)
)
_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_task(
    metric: str,
    *,
    question: str = "What is it?",
    answer: str = "It is that.",
    reference: str | None = None,
    context: dict[str, str] | None = None,
) -> JudgeTask:
    return JudgeTask(
        result_id="0" * 32,
        event_id="event-1",
        metric=metric,
        source=Source(topic="qa.events", partition=0, offset=0),
        question=question,
        answer=answer,
        reference=reference,
        context=context,
        sampling=Sampling(probability=1.0, stratum="default", policy="test"),
        occurred_at=_AT,
        sampled_at=_AT,
    )
