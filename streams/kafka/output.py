"""Write records and wait until the broker confirms them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from random import uniform
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordTooLargeError
from faust.exceptions import ProducerSendError
from pydantic import TypeAdapter

from schemas import Alert, DeadLetter, DeadLetterReason, Failed, JudgeTask, Scored, Unscored, is_rejudged
from streams.errors import DeadLetterLimitError, TooLargeError
from streams.kafka.dead_letters import KEPT_KEY_BYTES, MAX_DETAIL_CHARS, letter_forms
from streams.kafka.decoding import Unreadable
from streams.kafka.record import Record
from streams.settings.broker import DeadLetterSettings, TopicSettings
from streams.telemetry.instruments import Metrics

_log = structlog.stdlib.get_logger(__name__)

FIRST_WAIT_SECONDS: Final = 0.2
LONGEST_WAIT_SECONDS: Final = 15.0
_TASK: Final = TypeAdapter(JudgeTask)  # dumps bytes; the model's own method dumps text, to be encoded again
TELL_AGAIN_SECONDS: Final = 60.0
"""Pause before the retry of a dead letter that is too large in every form."""
RATIO_OVER_RECORDS: Final = 1000

Headers = Sequence[tuple[str, bytes]]


def _cause(error: BaseException) -> BaseException:
    """Return the Kafka error: Faust wraps errors that occur before a record is sent."""
    return error.__cause__ if isinstance(error, ProducerSendError) and error.__cause__ is not None else error


@dataclass(frozen=True, slots=True)
class WriteTrouble:
    topic: str
    since: float
    """Time of the first failure, on the monotonic clock."""
    error: Exception


class Output:
    """Writes the worker's records. A failed write is retried with growing pauses until it succeeds."""

    def __init__(
        self,
        producer: Callable[[], Any],
        metrics: Metrics,
        topics: TopicSettings,
        *,
        policy: DeadLetterSettings | None = None,
    ) -> None:
        self._producer = producer
        self._metrics = metrics
        self._topics = topics
        self._policy = DeadLetterSettings() if policy is None else policy
        self._latest = defaultdict[str, deque[bool]](lambda: deque(maxlen=RATIO_OVER_RECORDS))
        """By topic, whether each of the latest records became a dead letter."""
        self._failing: dict[str, WriteTrouble] = {}

    @property
    def trouble(self) -> WriteTrouble | None:
        """The write failure that has lasted longest; None if all writes succeed."""
        return min(self._failing.values(), key=lambda trouble: trouble.since, default=None)

    async def write(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Write one record, by default to its key's partition, and wait until the broker confirms it."""
        longest = FIRST_WAIT_SECONDS
        while True:
            try:
                await (await self._producer().send(topic, key, value, partition, None, list(headers)))
                break
            except (KafkaError, ProducerSendError) as error:
                if isinstance(_cause(error), MessageSizeTooLargeError | RecordTooLargeError):
                    raise TooLargeError(
                        f"record of {len(value or b'')} bytes is too large for topic {topic} "
                        f"({_cause(error)!r}); raise its max.message.bytes or lower ingest.max_event_bytes"
                    ) from error
                self._note_failure(topic, error)
            await asyncio.sleep(uniform(0, longest))  # noqa: S311 - jitter, not security
            longest = min(2 * longest, LONGEST_WAIT_SECONDS)
        if self._failing.pop(topic, None) is not None:
            _log.info("writing works again", topic=topic)

    def _note_failure(self, topic: str, error: Exception) -> None:
        known = self._failing.get(topic)
        self._failing[topic] = WriteTrouble(topic, time.monotonic() if known is None else known.since, error)
        if known is None:
            _log.error("writing fails; retrying until it works", topic=topic, error=repr(error))

    async def task(self, task: JudgeTask) -> None:
        await self.write(
            self._topics.task_topic(task.metric),
            key=task.event_id.encode(),
            value=_TASK.dump_json(task),
            headers=[("result_id", task.result_id.encode())],
        )
        self.passed(task.source.topic)

    async def result(self, result: Scored | Unscored | Failed) -> None:
        """Publish a result; if it is too large, without evidence."""
        key, headers = result.event_id.encode(), result_headers(result)
        problem: TooLargeError | None = None
        for form in result_forms(result):
            try:
                await self.write(
                    self._topics.scores, key=key, value=form.model_dump_json().encode(), headers=headers
                )
            except TooLargeError as error:
                problem = error
                continue
            if not is_rejudged(result.replay_id):
                self._metrics.observe_result(result)
            self.passed(self._topics.task_topic(result.metric))
            return
        assert problem is not None, "there is at least one form"  # noqa: S101 - result_forms gives the result itself
        raise problem

    async def alert(self, alert: Alert) -> None:
        await self.write(
            self._topics.alerts, key=alert.metric.encode(), value=alert.model_dump_json().encode()
        )

    async def observation(self, result: Scored | Unscored | Failed) -> None:
        await self.write(
            self._topics.observations,
            key=result.metric.encode(),
            value=bare(result).model_dump_json().encode(),
        )

    async def monitor_state(self, key: bytes, value: bytes | None) -> None:
        """Write a record of the monitor's state; None deletes it."""
        await self.write(self._topics.monitor_state, key=key, value=value)

    def passed(self, topic: str) -> None:
        """Count a record of an input topic that became no dead letter, for `dead_letters.max_ratio`."""
        if self._policy.max_ratio is not None:
            self._latest[topic].append(False)

    def _set_aside(self, topic: str) -> None:
        """Count a record that is about to become a dead letter; raise if something seems to be set wrong."""
        most = self._policy.max_ratio
        if most is None:
            return
        latest = self._latest[topic]
        latest.append(True)
        aside = sum(latest)
        if aside > most * RATIO_OVER_RECORDS:
            raise DeadLetterLimitError(
                f"{aside} of the latest {RATIO_OVER_RECORDS} records of {topic} would become dead letters, "
                f"dead_letters.max_ratio is {most:g}; check the latest dead letters, then fix their cause or "
                "raise the limit"
            )

    async def dead_letter(
        self, record: Record, reason: DeadLetterReason, detail: str, *, event_id: str | None = None
    ) -> None:
        """Write a record as a dead letter, in the largest form that the topic accepts.

        If every form is too large, the write is retried and no later offset of the partition is committed.
        """
        self._set_aside(record.topic)
        forms = partial(letter_forms, record, reason, detail, event_id=event_id, failed_at=datetime.now(UTC))
        while not await self._written(forms(), record.key):
            self._note_failure(
                self._topics.dead_letters,
                TooLargeError(
                    f"every dead letter of {record.topic}-{record.partition} at offset {record.offset} is "
                    f"too large; raise max.message.bytes of {self._topics.dead_letters}"
                ),
            )
            await asyncio.sleep(TELL_AGAIN_SECONDS)
        self._metrics.count("judgestream_dead_letters_total", reason)

    async def _written(self, forms: Iterable[DeadLetter], key: bytes | None) -> bool:
        kept_key = None if key is not None and len(key) > KEPT_KEY_BYTES else key
        for letter in forms:
            try:
                await self.write(
                    self._topics.dead_letters, key=kept_key, value=letter.model_dump_json().encode()
                )
            except TooLargeError:
                continue
            return True
        return False

    async def unreadable(self, record: Record, problem: Unreadable) -> None:
        detail = f"{problem.detail} ({problem.size} bytes, SHA-256 {problem.sha256})"
        _log.warning(
            "records cannot be read",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            records=problem.records,
            detail=problem.detail,
        )
        await self.dead_letter(record, problem.reason, detail)


def result_headers(result: Scored | Unscored | Failed) -> list[tuple[str, bytes]]:
    names = ("result_id", "metric", "status", *(() if result.replay_id is None else ("replay_id",)))
    return [(name, getattr(result, name).encode()) for name in names]


def result_forms(result: Scored | Unscored | Failed) -> Iterator[Scored | Unscored | Failed]:
    """Yield a result whole, and without evidence, with corrections and suspicions cut short."""
    yield result
    if isinstance(result, Failed):
        yield result.model_copy(update={"detail": result.detail[:MAX_DETAIL_CHARS]})
        return
    short = {
        name: tuple(one.model_copy(update={"detail": one.detail[:100]}) for one in getattr(result, name)[:50])
        for name in ("corrections", "suspicions")
    }
    yield result.model_copy(update={"evidence": {"truncated": True}, **short})


def bare(result: Scored | Unscored | Failed) -> Scored | Unscored | Failed:
    """Return a result without the fields that the monitor does not use."""
    if isinstance(result, Failed):
        return result.model_copy(update={"detail": ""})
    return result.model_copy(update={"evidence": None, "corrections": (), "suspicions": ()})
