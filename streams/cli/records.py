"""Records of a topic: which ones `tail` shows, and how; `produce` and `replay` send and count them."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import typer
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from judge.text.printable import printable, reason_of
from schemas import RESULT, Alert, DeadLetter, JudgeTask, QAEvent, Scored
from streams.cli.running import CommandError, json_text
from streams.cli.session import Session
from streams.kafka.offsets import Start
from streams.kafka.record import Record
from streams.kafka.topics.table import message_of
from streams.settings.broker import TopicSettings
from streams.store.views.incidents import Folding

MAX_TEXT_CHARS = 80
MAX_UNCONFIRMED = 2000
MAX_PROBLEMS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Conditions on a record's value, all of which must hold; a record without the field does not match."""

    fields: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    max_score: int | None = None
    since: float | None = None
    """Seconds since 1970."""

    def fits(self, record: Record) -> bool:
        if self.since is not None and (record.timestamp or 0) < self.since:
            return False
        if not (self.fields or self.labels) and self.max_score is None:
            return True
        try:
            value = msgspec.json.decode(record.value or b"", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        score, labels = value.get("score"), value.get("labels")
        return (
            self.fields.items() <= value.items()
            and (not self.labels or (isinstance(labels, dict) and self.labels.items() <= labels.items()))
            and (self.max_score is None or (isinstance(score, int | float) and score <= self.max_score))
        )


def record_json(record: Record) -> str:
    """Return a record as one JSON object; bytes that are not text become base64 under `..._base64`."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": _moment(record).isoformat(),
        **_text_or_base64("key", record.key),
        "headers": {},
    }
    for name, content in record.headers:
        fields["headers"] |= _text_or_base64(name, content)
    try:
        fields["value"] = None if record.value is None else json.loads(record.value)
    except (ValueError, RecursionError):
        fields |= _text_or_base64("value", record.value)
    return json_text(fields)


def _text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value or b"").decode()}


class RecordLines:
    def __init__(self, topics: TopicSettings) -> None:
        self._topics = topics
        self._folding = Folding()

    def line(self, record: Record) -> str:
        head = f"{_moment(record):%H:%M:%S} {record.partition}@{record.offset}"
        value = record.value
        if value is None:
            return f"{head} (no value) key {'none' if record.key is None else _bytes_text(record.key)}"
        message = message_of(self._topics, record.topic) or ""
        writer = self._alert if message == "alert" else _WRITERS.get(message, _bytes_text)
        try:
            return f"{head} {writer(value)}"
        except (ValidationError, ValueError):
            return f"{head} (not in this topic's format) {_bytes_text(value)}"

    def _alert(self, value: bytes) -> str:
        """Return the card of a new incident, or what an alert adds to a known one."""
        alert = Alert.model_validate_json(value)
        step, incident, words = self._folding.add(alert)
        if step == "began":
            return f"INCIDENT {incident}: {words}{'' if alert.link is None else f'; {alert.link}'}"
        if step == "over":
            return f"INCIDENT {incident} is over: {words}"
        return f"{step} {incident or 'of an earlier incident'}: {words}"


def _event(value: bytes) -> str:
    event = QAEvent.model_validate_json(value)
    shown = [printable(text, MAX_TEXT_CHARS) for text in (event.event_id, event.question, event.answer)]
    return f"{shown[0]} {_labels(event.labels)}Q: {shown[1]} A: {shown[2]}"


def _task(value: bytes) -> str:
    task = JudgeTask.model_validate_json(value)
    return (
        f"{task.metric} {printable(task.event_id, MAX_TEXT_CHARS)} {_labels(task.labels)}"
        f"sampled with probability {task.sampling.probability:.4g} ({printable(task.sampling.stratum)})"
    )


def _result(value: bytes) -> str:
    result = RESULT.validate_json(value)
    verdict = result.shown if isinstance(result, Scored) else result.status
    return (
        f"{result.metric} {verdict} {printable(result.event_id, MAX_TEXT_CHARS)} {_labels(result.labels)}"
        f"{reason_of(result, 2 * MAX_TEXT_CHARS)}"
    )


def _dead_letter(value: bytes) -> str:
    letter = DeadLetter.model_validate_json(value)
    return (
        f"{letter.reason} {printable(letter.topic)} {letter.partition}@{letter.offset} "
        f"{printable(letter.detail, 3 * MAX_TEXT_CHARS)}"
    )


def _labels(labels: Mapping[str, str]) -> str:
    shown = " ".join(f"{printable(name, 24)}={printable(value, 24)}" for name, value in labels.items())
    return f"[{shown}] " if shown else ""


def _bytes_text(value: bytes) -> str:
    return printable(value[: 8 * MAX_TEXT_CHARS].decode(errors="backslashreplace"), 2 * MAX_TEXT_CHARS)


def _moment(record: Record) -> datetime:
    return datetime.fromtimestamp(record.timestamp or 0.0, UTC)


_WRITERS: Final[Mapping[str, Callable[[bytes], str]]] = {
    "qa_event": _event,
    "judge_task": _task,
    "result": _result,
    "dead_letter": _dead_letter,
}


async def follow(
    call: Session, topic: str, wanted: RecordFilter, start: Start, show: Callable[[Record], str]
) -> None:
    reader = await call.reader(topic)
    async with aclosing(reader.follow([topic], start=start)) as batches:
        async for batch in batches:
            for record in filter(wanted.fits, batch.records):
                typer.echo(show(record))


class Sender:
    """Sends records, at most `rate` a second, and counts what the broker acknowledges and refuses."""

    def __init__(
        self, producer: Any, rate: float | None, stop: asyncio.Event, unconfirmed: int = MAX_UNCONFIRMED
    ) -> None:
        self.confirmed = self.refused = self.without_key = 0
        self._problems: list[str] = []
        self._producer, self._rate, self._stop = producer, rate, stop
        self._unconfirmed, self._room = unconfirmed, asyncio.Semaphore(unconfirmed)

    async def run(self, records: AsyncIterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Send records, each after its place, until a signal; wait until every one is acknowledged."""
        started, sent = time.monotonic(), 0
        async for place, record in records:
            if self._rate is not None:
                delay = max(started + sent / self._rate - time.monotonic(), 0)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), delay)
            if self._stop.is_set():
                break
            await self._room.acquire()
            sent += 1
            self.without_key += record["key"] is None
            try:
                future = await self._producer.send(**record)
            except KafkaError as error:
                self._count(place, error)
            else:
                future.add_done_callback(lambda done, at=place: self._count(at, done.exception()))
        await self._producer.flush()
        for _ in range(self._unconfirmed):  # wait until every acknowledgement is counted
            await self._room.acquire()

    def _count(self, place: str, error: BaseException | None) -> None:
        self._room.release()
        if error is None:
            self.confirmed += 1
            return
        self.refused += 1
        if len(self._problems) < MAX_PROBLEMS_SHOWN:
            self._problems.append(f"  {place}: {type(error).__name__}: {printable(str(error), 200)}")

    def end(self) -> None:
        """Exit with 1 if records were refused, with 130 after a signal."""
        if self.refused:
            problems = "\n".join(self._problems)
            raise CommandError(f"the broker refused {self.refused} of the records:\n{problems}")
        if self._stop.is_set():
            raise typer.Exit(130)
