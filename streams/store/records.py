"""Turns the topics' records into rows of the store. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import orjson
from pydantic import ValidationError

from schemas import RESULT, Alert, Failed, JudgeTask, Label, Scored
from streams.settings.broker import TopicSettings

DAY_MS: Final = 86_400_000
TextsKept = Literal["full", "excerpt", "none"]
EXCERPT_CHARS: Final = 300
SEARCHED_CHARS: Final = 20_000
"""Maximum characters of question and answer that are searchable."""


@dataclass(slots=True)
class Rows:
    """The rows of one transaction; results by column, with the columns of their series and body."""

    results: list[dict[str, Any]] = field(default_factory=list)
    texts: list[tuple[bytes, int, bytes, str]] = field(default_factory=list)
    alerts: list[tuple[str, int, bytes]] = field(default_factory=list)
    labels: list[tuple[str, bytes, int, str, bytes]] = field(default_factory=list)
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    unreadable: int = 0


class Decoder:
    def __init__(self, topics: TopicSettings, metrics: Iterable[str], texts: TextsKept) -> None:
        self._topics = topics
        self._tasks = frozenset(topics.task_topic(metric) for metric in metrics)
        self._texts = texts

    @property
    def topics(self) -> list[str]:
        tasks = sorted(self._tasks) if self._texts != "none" else []
        return [self._topics.scores, *tasks, self._topics.alerts, self._topics.labels]

    def batch(self, records: Iterable[Any], positions: Mapping[tuple[str, int], int], *, oldest: int) -> Rows:
        """Decode the records of one poll, without older results and texts."""
        batch = Rows(positions=dict(positions))
        for record in records:
            try:
                if record.value is not None:
                    self._add(batch, record, oldest)
            except (ValidationError, UnicodeDecodeError, RecursionError):
                batch.unreadable += 1
        return batch

    def _add(self, batch: Rows, record: Any, oldest: int) -> None:
        value: bytes = record.value
        if record.topic == self._topics.scores:
            result = result_row(value, partition=record.partition, offset=record.offset)
            batch.results += [result] if result["at"] >= oldest else []
        elif record.topic in self._tasks:
            text = text_row(JudgeTask.model_validate_json(value), self._texts)
            batch.texts += [text] if text[1] >= oldest else []
        elif record.topic == self._topics.alerts:
            alert = Alert.model_validate_json(value)
            batch.alerts.append((alert.alert_id, milliseconds(alert.raised_at), pack(value)))
        else:
            label = Label.model_validate_json(value)
            at, result_id = milliseconds(label.labelled_at), bytes.fromhex(label.result_id)
            batch.labels.append((label.label_id, result_id, at, label.who, pack(value)))


def result_row(raw: bytes, *, partition: int, offset: int) -> dict[str, Any]:
    result = RESULT.validate_json(raw)
    at, score, kinds = milliseconds(result.times.occurred_at), None, set[str]()
    if isinstance(result, Scored):
        # A number to three digits, so that sums have few groups.
        score = float(f"{result.amount:.3g}") if result.kind == "number" else result.score
    if not isinstance(result, Failed):
        kinds |= {f"correction:{one.kind}" for one in result.corrections}
        kinds |= {f"suspicion:{one.kind}" for one in result.suspicions}
    return {
        "result_id": bytes.fromhex(result.result_id),
        "event_id": clean(result.event_id),
        "replay": result.replay_id is not None,
        "metric": result.metric,
        "fingerprint": result.evaluator.fingerprint,
        "model": result.evaluator.model,
        "stratum": clean(result.sampling.stratum),
        "labels": {clean(name): clean(value) for name, value in sorted(result.labels.items())},
        "status": result.status,
        "score": score,
        "at": at,
        "day": at // DAY_MS,
        "judged": milliseconds(result.times.judged_at),
        "probability": result.sampling.probability,
        "cluster": result.sampling.cluster,
        "cost": result.cost_usd,
        "marks": f" {' '.join(sorted(kinds))} " if kinds else "",
        "partition": partition,
        "offset": offset,
        "body": pack(raw),
    }


def text_row(task: JudgeTask, kept: TextsKept) -> tuple[bytes, int, bytes, str]:
    """Return result id, time, packed texts, which are already redacted, and searchable words."""
    cut = EXCERPT_CHARS if kept == "excerpt" else None

    def beginnings(texts: Mapping[str, str]) -> dict[str, str]:
        return {name: text[:cut] for name, text in texts.items()}

    further = {} if task.other_answer is None else {"other answer": task.other_answer}
    for name, turns in (("messages", task.messages), ("tool calls", task.tool_calls)):
        if turns is not None:
            further[name] = "\n".join("  ".join(map(str, turn.model_dump().values())) for turn in turns)
    texts: dict[str, Any] = {
        "question": task.question[:cut],
        "answer": task.answer[:cut],
        "reference": task.reference and task.reference[:cut],
        "context": task.context and beginnings(task.context),
        "further": beginnings(further | (task.fields or {})),
        "excerpt": cut is not None,
    }
    at, packed = milliseconds(task.sampled_at), pack(orjson.dumps(texts))
    return bytes.fromhex(task.result_id), at, packed, searched(texts)


def searched(texts: Mapping[str, Any]) -> str:
    """Return the searchable words of question and answer."""
    return clean(f"{texts['question']} {texts['answer']}"[:SEARCHED_CHARS])


def clean(text: str) -> str:
    """Return text that SQLite accepts: without lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def pack(data: bytes) -> bytes:
    return zlib.compress(data, level=1)


def unpacked(data: bytes) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(zlib.decompress(data))
    return value


def number_of(message: Mapping[str, Any]) -> float | None:
    """Return the exact number of a result or a label; None without a score."""
    value = message.get("value")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return message.get("score")
