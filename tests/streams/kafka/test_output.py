from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    MessageSizeTooLargeError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)
from faust.exceptions import ProducerSendError
from prometheus_client import CollectorRegistry

from schemas import RESULT, DeadLetter, Scored
from streams.errors import TooLargeError
from streams.kafka import output as module
from streams.kafka.dead_letters import CUT_VALUE_BYTES
from streams.kafka.output import Output
from streams.kafka.record import moment
from streams.settings import DeadLetterSettings, TopicSettings
from streams.telemetry.instruments import Metrics
from tests.integration.deadlines import until
from tests.streams.records import make_record
from tests.streams.results import scored as a_result

_record = partial(make_record, topic="t", partition=2, offset=5, timestamp=0.0, key=b"k")


class _Sender:
    """Raises the given failures, then accepts records up to a size."""

    def __init__(self, *failures: Exception, limit: int = 10**9) -> None:
        self.failures = list(failures)
        self.limit = limit
        self.sent: list[tuple[str, bytes | None, bytes | None, Any]] = []

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,  # noqa: ARG002 - part of the protocol
        timestamp: float | None,  # noqa: ARG002 - part of the protocol
        headers: Any,
    ) -> Awaitable[Any]:
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.failures:
            error = self.failures.pop(0)
            if isinstance(error, ProducerSendError):
                raise error
            confirmed.set_exception(error)
        elif len(value or b"") > self.limit:
            confirmed.set_exception(MessageSizeTooLargeError())
        else:
            self.sent.append((topic, key, value, headers))
            confirmed.set_result(None)
        return confirmed


class _Silent(_Sender):
    """Raises the given failures, then never confirms."""

    async def send(self, *record: Any) -> Awaitable[Any]:
        return await super().send(*record) if self.failures else asyncio.get_running_loop().create_future()


TOPICS = TopicSettings(scores="s", dead_letters="d", alerts="a", tasks_prefix="t.")


def _output(sender: _Sender) -> tuple[Output, Metrics]:
    metrics = Metrics(CollectorRegistry())
    return Output(lambda: sender, metrics, TOPICS), metrics


@pytest.fixture
def scored() -> Scored:
    return a_result(1, 4)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_SECONDS", 0.0)


async def test_a_failed_write_is_tried_until_it_works() -> None:
    """A write refused by the client or the broker is retried and arrives once."""
    refused = ProducerSendError("no metadata")
    refused.__cause__ = KafkaConnectionError()
    sender = _Sender(refused, RequestTimedOutError(), KafkaConnectionError())
    output, _ = _output(sender)
    await output.write("s", key=b"k", value=b"v")
    assert sender.sent == [("s", b"k", b"v", [])]
    assert output.trouble is None


async def test_trouble_has_the_latest_reason() -> None:
    """`trouble` has the latest reason of a failing write."""
    output, _ = _output(_Silent(KafkaConnectionError(), TopicAuthorizationFailedError("s")))
    writing = asyncio.create_task(output.write("s", key=b"k", value=b"v"))

    def is_told() -> bool:
        return output.trouble is not None and isinstance(output.trouble.error, TopicAuthorizationFailedError)

    try:
        await until(is_told, "the reason")
        assert output.trouble is not None
        assert output.trouble.topic == "s"
    finally:
        writing.cancel()
        await asyncio.wait({writing})


async def test_a_record_that_is_too_large_is_not_retried() -> None:
    """A record that is too large is not retried; the error names size, topic and setting."""
    output, _ = _output(_Sender(limit=3))
    with pytest.raises(TooLargeError, match=r"4 bytes is too large for topic s .*max\.message\.bytes"):
        await output.write("s", key=None, value=b"1234")


async def test_a_dead_letter_that_does_not_fit_is_cut() -> None:
    """A value of 1 MB is truncated to 256 KiB with its original size, and the dead letter counts once."""
    sender = _Sender(limit=600_000)
    output, metrics = _output(sender)
    await output.dead_letter(_record(value=b"x" * 1_000_000), "undecodable", "not JSON")
    letter = DeadLetter.model_validate_json(sender.sent[0][2] or b"")
    assert letter.truncated
    assert letter.value == b"x" * CUT_VALUE_BYTES
    assert letter.value_bytes == 1_000_000
    count = metrics.registry.get_sample_value("judgestream_dead_letters_total", {"reason": "undecodable"})
    assert count == 1


async def test_a_dead_letter_with_huge_headers_goes_without_them() -> None:
    """A dead letter that is too large with a truncated value is written without headers."""
    sender = _Sender(limit=5_000)
    output, _ = _output(sender)
    await output.dead_letter(_record(headers=[("h", b"x" * 20_000)]), "oversized", "d\ud800" * 5_000)
    letter = DeadLetter.model_validate_json(sender.sent[0][2] or b"")
    assert (letter.topic, letter.partition, letter.offset, letter.headers) == ("t", 2, 5, ())
    assert letter.detail.startswith("d?d?")


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0.0, datetime(1970, 1, 1, tzinfo=UTC)),
        (None, None),
        (-0.001, None),
        (1e18, None),
        (2**62 / 1000, None),
    ],
)
def test_timestamps_that_are_none(timestamp: float | None, expected: datetime | None) -> None:
    """An invalid timestamp of a record is read as missing."""
    assert moment(timestamp) == expected


class _SmallTopic(_Sender):
    """The topic of dead letters limits key and value together."""

    async def send(self, topic: str, key: bytes | None, value: bytes | None, *rest: Any) -> Awaitable[Any]:
        self.limit = self.limit if topic == "d" else 10**9
        return await super().send(topic, key, (key or b"") + (value or b""), *rest)


async def test_a_record_with_a_huge_key_is_set_aside_in_the_smallest_form() -> None:
    """A key of 2 MB on a topic of 1 KB records is left out of the dead letter."""
    sender = _SmallTopic(limit=1_000)
    output, metrics = _output(sender)
    await output.dead_letter(_record(key=b"k" * 2_000_000), "undecodable", "not JSON", event_id="e1")
    (_, key, value, _), *_ = sender.sent
    letter = DeadLetter.model_validate_json(value or b"")
    assert (key, letter.offset, letter.event_id, letter.reason) == (None, 5, "e1", "undecodable")
    assert metrics.registry.get_sample_value("judgestream_dead_letters_total", {"reason": "undecodable"}) == 1


async def test_a_record_whose_letter_fits_in_no_form_is_skipped_where_the_settings_say_so() -> None:
    """With when_refused=skip a dead letter that never fits is counted as skipped."""
    metrics = Metrics(CollectorRegistry())
    policy = DeadLetterSettings(when_refused="skip")
    output = Output(lambda: _Sender(limit=10), metrics, TOPICS, policy=policy)
    await output.dead_letter(_record(), "undecodable", "not JSON")
    count = metrics.registry.get_sample_value
    assert count("judgestream_dead_letters_skipped_total", {"reason": "undecodable"}) == 1
    assert count("judgestream_dead_letters_total", {"reason": "undecodable"}) is None


async def test_a_dead_letter_waits_until_the_topic_accepts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the write waits until the topic's limit is raised, and `trouble` names the remedy."""
    monkeypatch.setattr(module, "TELL_AGAIN_SECONDS", 0.01)
    sender = _Sender(limit=10)
    output, _ = _output(sender)
    waiting = asyncio.create_task(output.dead_letter(_record(), "undecodable", "not JSON"))
    await until(lambda: output.trouble is not None, "the trouble")
    assert output.trouble is not None
    assert "raise max.message.bytes of d, or set dead_letters.when_refused to skip" in str(
        output.trouble.error
    )
    sender.limit = 10**6
    await asyncio.wait_for(waiting, 60)
    assert len(sender.sent) == 1
    assert output.trouble is None


async def test_a_result_that_is_too_large_loses_evidence_and_labels(scored: Scored) -> None:
    """A result that is too large loses its evidence, then its labels, and then raises TooLargeError."""
    large = scored.model_copy(
        update={"evidence": {"claims": ["c" * 5_000]}, "labels": {"app": "a" * 200, "tenant": "t" * 200}}
    )
    bare = len(scored.model_dump_json())
    sender = _Sender(limit=bare + 900)
    output, _ = _output(sender)
    await output.result(large)
    sender.limit = bare + 200
    await output.result(large)
    written = [RESULT.validate_json(value or b"") for _, _, value, _ in sender.sent]
    assert [one.evidence for one in written if isinstance(one, Scored)] == [{"truncated": True}] * 2
    assert [bool(one.labels) for one in written] == [True, False]
    sender.limit = 100
    with pytest.raises(TooLargeError):
        await output.result(large)
