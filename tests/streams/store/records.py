from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schemas import Failed, Scored, Unscored
from streams.settings import TopicSettings
from streams.store.decoding import Decoder
from streams.store.items import Batch
from tests.streams.results import task_of

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


def task_record(result: Scored | Unscored | Failed, *, offset: int = 0, **texts: Any) -> Record:
    """Return the record of a result's task."""
    value = task_of(result, **texts).model_dump_json().encode()
    return Record(TOPICS.task_topic(result.metric), 0, offset, value)


def batch_of(*records: Record, texts: Any = "full", oldest: int = 0) -> Batch:
    """Decode records."""
    positions = {(one.topic, one.partition): one.offset + 1 for one in records}
    return Decoder(TOPICS, ("coverage", "relevance"), texts).batch(records, positions, oldest=oldest)
