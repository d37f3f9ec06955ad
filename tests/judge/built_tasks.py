"""Builds judge tasks from events, as the intake does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from judge.metric import Metric, build_task
from schemas import JudgeTask, QAEvent, Sampling, Source

OCCURRED = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)
SAMPLED = OCCURRED + timedelta(seconds=1)


def task_for(
    metric: Metric,
    *,
    question: str = "Where is the Eiffel Tower, and since when?",
    answer: str = "An answer.",
    reference: str | None = None,
    context: Mapping[str, str] | None = None,
    event_id: str = "e-1",
    **further: Any,
) -> JudgeTask:
    event = QAEvent.model_validate(
        {
            "event_id": event_id,
            "occurred_at": OCCURRED,
            "question": question,
            "answer": answer,
            "reference": reference,
            "context": None if context is None else dict(context),
            "labels": {"app": "guide"},
        }
        | further
    )
    return build_task(
        event,
        metric,
        source=Source(topic="qa.events", partition=0, offset=7),
        sampling=Sampling(probability=0.5, stratum="default", policy="p-1"),
        recorded_at=OCCURRED,
        sampled_at=SAMPLED,
    )
