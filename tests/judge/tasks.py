"""Builds minimal judge tasks, and tasks from events as the intake does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from judge.evaluate.guard import GuardedMetric, TextLimits
from judge.metric import Metric, Outcome, build_task
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import PromptPack, parse_pack
from judge.text.redaction import Kind, Redactor
from schemas import JudgeTask, QAEvent, Sampling, Source

_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OCCURRED = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)
SAMPLED = OCCURRED + timedelta(seconds=1)


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


def task_for(
    metric: Metric,
    *,
    question: str = "Where is the Eiffel Tower, and since when?",
    answer: str = "An answer.",
    reference: str | None = None,
    context: Mapping[str, str] | None = None,
    event_id: str = "e-1",
    replay_id: str | None = None,
    **further: Any,
) -> JudgeTask:
    about = {"event_id": event_id, "occurred_at": OCCURRED, "labels": {"app": "guide"}}
    texts = {"question": question, "answer": answer, "reference": reference}
    pages = None if context is None else dict(context)
    return build_task(
        QAEvent.model_validate(about | texts | {"context": pages} | further),
        metric,
        source=Source(topic="qa.events", partition=0, offset=7),
        sampling=Sampling(probability=0.5, stratum="default", policy="p-1"),
        recorded_at=OCCURRED,
        sampled_at=SAMPLED,
        replay_id=replay_id,
    )


def guarded(metric: Metric, *kinds: Kind, limits: TextLimits | None = None) -> GuardedMetric:
    return GuardedMetric(metric, redactor=Redactor(kinds), limits=limits or TextLimits())


def yaml_pack(text: str) -> PromptPack:
    return parse_pack(text.encode(), dialect="yaml", origin="p")


def pack_metric(text: str = "{answer}", *, name: str = "tone") -> PackMetric:
    return PackMetric(name, yaml_pack(f'[{{role: user, content: "{text}"}}]'), score_range=(1, 5))


TONE = pack_metric()


class Told(PackMetric):
    def __init__(self, outcome: Callable[[], Outcome]) -> None:
        super().__init__("told", TONE.pack, score_range=(1, 5))
        self._outcome = outcome

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        del task, reply
        return self._outcome()
