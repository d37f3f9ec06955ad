"""Decodes records of the topics into a batch for the store. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError

from schemas import Alert, Label
from streams.settings import TopicSettings
from streams.store.items import (
    Batch,
    Item,
    TextItem,
    TextsKept,
    VerdictItem,
    alert_item,
    label_item,
    text_item,
    verdict_item,
)

_ALERT = TypeAdapter(Alert)
_LABEL = TypeAdapter(Label)


class Decoder:
    """Decodes the records of each topic.

    Args:
        topics: Names of topics.
        metrics: Names of metrics.
        texts: Which part of the texts is kept.
    """

    def __init__(self, topics: TopicSettings, metrics: Iterable[str], texts: TextsKept) -> None:
        self._scores = topics.scores
        self._alerts = topics.alerts
        self._labels = topics.labels
        self._tasks = frozenset(topics.task_topic(metric) for metric in metrics)
        self._texts = texts

    @property
    def topics(self) -> list[str]:
        """The topics to read."""
        tasks = sorted(self._tasks) if self._texts != "none" else []
        return [self._scores, *tasks, self._alerts, self._labels]

    def batch(
        self, records: Iterable[Any], positions: Mapping[tuple[str, int], int], *, oldest: int
    ) -> Batch:
        """Decode the records of one poll.

        Args:
            records: The records from aiokafka.
            positions: The next offsets.
            oldest: Older verdicts and texts are omitted, in milliseconds since 1970.
        """
        batch = Batch(positions=dict(positions))
        for record in records:
            try:
                item = self._item(record)
            except (ValidationError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                batch.unreadable += 1
                continue
            if item is None or (isinstance(item, VerdictItem | TextItem) and item.at < oldest):
                continue
            batch.items.append(item)
        return batch

    def _item(self, record: Any) -> Item | None:
        topic, value = record.topic, record.value
        if value is None:
            return None
        if topic == self._scores:
            return verdict_item(value, partition=record.partition, offset=record.offset)
        if topic in self._tasks:
            return text_item(value, self._texts)
        if topic == self._alerts:
            return alert_item(_ALERT.validate_json(value), value)
        return label_item(_LABEL.validate_json(value), value)
