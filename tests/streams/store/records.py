from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schemas import Failed, JudgeTask, Scored, Unscored
from streams.settings import TopicSettings
from streams.store.decoding import Decoder
from streams.store.items import Batch
from tests.streams.results import at

TOPICS = TopicSettings()


@dataclass(frozen=True, slots=True)
class Record:
    topic: str
    partition: int
    offset: int
    value: bytes | None


def result_record(result: Scored | Unscored | Failed, offset: int = 0, **extra: Any) -> Record:
    """Return the record of a result, with additional fields of a newer writer."""
    import orjson

    value = result.model_dump(mode="json") | extra
    return Record(TOPICS.scores, 0, offset, orjson.dumps(value))


def task_record(
    result: Scored | Unscored | Failed,
    *,
    question: str = "Why?",
    answer: str = "Because.",
    reference: str | None = None,
    context: dict[str, str] | None = None,
    offset: int = 0,
) -> Record:
    """Return the record of a result's task."""
    task = JudgeTask(
        result_id=result.result_id,
        event_id=result.event_id,
        metric=result.metric,
        source=result.source,
        labels=result.labels,
        question=question,
        answer=answer,
        reference=reference,
        context=context,
        sampling=result.sampling,
        occurred_at=result.times.occurred_at,
        sampled_at=at(0),
    )
    return Record(TOPICS.task_topic(result.metric), 0, offset, task.model_dump_json().encode())


def batch_of(*records: Record, texts: Any = "full", oldest: int = 0) -> Batch:
    """Decode records."""
    positions = {(one.topic, one.partition): one.offset + 1 for one in records}
    return Decoder(TOPICS, ("coverage", "relevance"), texts).batch(records, positions, oldest=oldest)
