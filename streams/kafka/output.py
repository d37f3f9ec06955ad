"""Writes records and returns when the broker has confirmed them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import uniform
from typing import Any, Final, Protocol

import structlog
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordTooLargeError
from faust.exceptions import ProducerSendError
from pydantic import TypeAdapter
from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential

from schemas import Alert, DeadLetter, DeadLetterReason, Failed, Header, JudgeTask, Scored, Unscored
from streams.errors import TooLargeError
from streams.telemetry.instruments import Metrics

_log = structlog.stdlib.get_logger(__name__)

FIRST_WAIT_SECONDS: Final = 0.2
LONGEST_WAIT_SECONDS: Final = 15.0
_TASK: Final = TypeAdapter(JudgeTask)  # writes bytes, where the model itself has text to be encoded once more
CUT_VALUE_BYTES: Final = 256 * 1024
"""What is kept of a dead letter's value when the whole does not fit."""
MAX_DETAIL_CHARS: Final = 2_000

Headers = Sequence[tuple[str, bytes]]


class Sender(Protocol):
    """What sends: Faust's producer, or a fake."""

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Any,
    ) -> Awaitable[Any]:
        """Hand a record to the producer; what is returned ends when the broker has confirmed it."""


class Incoming(Protocol):
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: float | None
    key: bytes | None
    value: bytes | None
    headers: Any


def _cause(error: BaseException) -> BaseException:
    """What Kafka said: Faust wraps what is found out before a record leaves."""
    return error.__cause__ if isinstance(error, ProducerSendError) and error.__cause__ is not None else error


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, KafkaError | ProducerSendError) and not isinstance(
        _cause(error), MessageSizeTooLargeError | RecordTooLargeError
    )


@dataclass(frozen=True, slots=True)
class WriteTrouble:
    """A topic that cannot be written to at present.

    Args:
        topic: Its name.
        since: When that began, on the monotonic clock.
        error: What was said last.
    """

    topic: str
    since: float
    error: Exception


class Output:
    """The worker's way out. A write that fails is tried again, with growing pauses, for as long as it takes.

    Args:
        sender: What sends.
        metrics: Counts what was written.
        scores, dead_letters, alerts: Names of the topics.
        task_topic: Names the task topic of a metric.
    """

    def __init__(
        self,
        sender: Callable[[], Sender],
        metrics: Metrics,
        *,
        scores: str,
        dead_letters: str,
        alerts: str,
        task_topic: Callable[[str], str],
    ) -> None:
        self._sender = sender
        self._metrics = metrics
        self._scores = scores
        self._dead_letters = dead_letters
        self._alerts = alerts
        self._task_topic = task_topic
        self._failing: dict[str, WriteTrouble] = {}

    @property
    def trouble(self) -> WriteTrouble | None:
        """The write failure that has lasted longest; None where all is well."""
        return min(self._failing.values(), key=lambda trouble: trouble.since, default=None)

    async def write(self, topic: str, *, key: bytes | None, value: bytes, headers: Headers = ()) -> None:
        """Write one record and wait until the broker has confirmed it.

        Raises:
            TooLargeError: It is too large for the topic or the producer.
        """
        try:
            try:
                await self._send(topic, key, value, headers)
            except (KafkaError, ProducerSendError) as error:
                if not _may_pass(error):
                    raise
                self._note_failure(topic, error)
                await self._send_again(topic, key, value, headers)
        except (ProducerSendError, MessageSizeTooLargeError, RecordTooLargeError) as error:
            raise TooLargeError(
                f"record of {len(value)} bytes is too large for topic {topic} ({_cause(error)!r}); "
                "raise its max.message.bytes or lower ingest.max_event_bytes"
            ) from error
        if self._failing.pop(topic, None) is not None:
            _log.info("writing works again", topic=topic)

    async def _send(self, topic: str, key: bytes | None, value: bytes, headers: Headers) -> None:
        await (await self._sender().send(topic, key, value, None, None, list(headers)))

    async def _send_again(self, topic: str, key: bytes | None, value: bytes, headers: Headers) -> None:
        """Go on until it works. The first try is made without all this, which costs more than the try itself."""
        waits = wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS)
        retrying = AsyncRetrying(
            wait=waits, retry=retry_if_exception(_may_pass), sleep=asyncio.sleep, reraise=True
        )
        await asyncio.sleep(uniform(0, FIRST_WAIT_SECONDS))  # noqa: S311 - spreads load, guards nothing
        async for attempt in retrying:
            with attempt:
                try:
                    await self._send(topic, key, value, headers)
                except (KafkaError, ProducerSendError) as error:
                    self._note_failure(topic, error)
                    raise

    def _note_failure(self, topic: str, error: Exception) -> None:
        known = self._failing.get(topic)
        self._failing[topic] = WriteTrouble(topic, time.monotonic() if known is None else known.since, error)
        if known is None:
            _log.error("writing fails and is tried again until it works", topic=topic, error=repr(error))

    async def task(self, task: JudgeTask) -> None:
        """Hand an event to its metric.

        Raises:
            TooLargeError: It is too large for the task topic.
        """
        await self.write(
            self._task_topic(task.metric),
            key=task.event_id.encode(),
            value=_TASK.dump_json(task),
            headers=[("result_id", task.result_id.encode())],
        )

    async def result(self, result: Scored | Unscored | Failed) -> None:
        """Publish a result; one that is too large goes without its evidence."""
        key = result.event_id.encode()
        headers = [
            ("result_id", result.result_id.encode()),
            ("metric", result.metric.encode()),
            ("status", result.status.encode()),
        ]
        try:
            await self.write(self._scores, key=key, value=result.model_dump_json().encode(), headers=headers)
        except TooLargeError:
            smaller = shrink(result)
            await self.write(self._scores, key=key, value=smaller.model_dump_json().encode(), headers=headers)
        self._metrics.observe_result(result)

    async def alert(self, alert: Alert) -> None:
        """Publish an alert."""
        await self.write(self._alerts, key=alert.metric.encode(), value=alert.model_dump_json().encode())

    async def dead_letter(
        self, record: Incoming, reason: DeadLetterReason, detail: str, *, event_id: str | None = None
    ) -> None:
        """Set a record aside, whole if it fits, else with its value cut."""
        letter = dead_letter(record, reason, detail, event_id=event_id, failed_at=datetime.now(UTC))
        for smaller in (letter, cut(letter, CUT_VALUE_BYTES), cut(letter, 0)):
            try:
                await self.write(self._dead_letters, key=record.key, value=smaller.model_dump_json().encode())
            except TooLargeError as error:
                problem = error
                continue
            self._metrics.count_dead_letter(reason)
            return
        raise problem


def dead_letter(
    record: Incoming, reason: DeadLetterReason, detail: str, *, event_id: str | None, failed_at: datetime
) -> DeadLetter:
    """Build the dead letter of a record."""
    return DeadLetter(
        reason=reason,
        detail=_text(detail)[:MAX_DETAIL_CHARS],
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=moment(record.timestamp),
        key=record.key,
        value=record.value,
        value_bytes=len(record.value or b""),
        headers=tuple(Header(name=_text(name), value=value) for name, value in record.headers or ()),
        event_id=event_id,
        failed_at=failed_at,
    )


def moment(timestamp: float | None) -> datetime | None:
    """Read a record's timestamp; None where it has none that is one (-1, or a year that no calendar has)."""
    if timestamp is None or timestamp < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def cut(letter: DeadLetter, keep_bytes: int) -> DeadLetter:
    """Keep the first bytes of a dead letter's value, and for none at all neither key nor headers."""
    changes: dict[str, Any] = {"value": (letter.value or b"")[:keep_bytes], "truncated": True}
    if keep_bytes == 0:
        changes |= {"key": (letter.key or b"")[:1024] or None, "headers": ()}
    return letter.model_copy(update=changes)


def shrink(result: Scored | Unscored | Failed) -> Scored | Unscored | Failed:
    """Take from a result what can be missed: evidence, and the details of corrections."""
    if isinstance(result, Failed):
        return result.model_copy(update={"detail": result.detail[:MAX_DETAIL_CHARS]})
    corrections = tuple(
        correction.model_copy(update={"detail": correction.detail[:100]})
        for correction in result.corrections[:50]
    )
    return result.model_copy(update={"evidence": {"truncated": True}, "corrections": corrections})


def _text(text: str) -> str:
    """Text that can be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
