from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime
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

from schemas import DeadLetter
from streams.errors import TooLargeError
from streams.kafka import output as module
from streams.kafka.output import CUT_VALUE_BYTES, Output, moment
from streams.telemetry.instruments import Metrics
from tests.integration.deadlines import until


@dataclass
class _Record:
    value: bytes | None = b"v"
    topic: str = "t"
    partition: int = 2
    offset: int = 5
    timestamp: float | None = 0.0
    key: bytes | None = b"k"
    headers: Any = field(default_factory=list)


class _Sender:
    """Fails as it is told, then takes everything up to a size."""

    def __init__(self, *failures: Exception, limit: int = 10**9) -> None:
        self.failures = list(failures)
        self.limit = limit
        self.sent: list[tuple[str, bytes | None, bytes | None, Any]] = []

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,  # noqa: ARG002 - the protocol's
        timestamp: float | None,  # noqa: ARG002 - the protocol's
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
    """Fails as it is told, then leaves everybody waiting."""

    async def send(self, *record: Any) -> Awaitable[Any]:
        return await super().send(*record) if self.failures else asyncio.get_running_loop().create_future()


def _output(sender: _Sender) -> tuple[Output, Metrics]:
    metrics = Metrics(CollectorRegistry())
    return (
        Output(lambda: sender, metrics, scores="s", dead_letters="d", alerts="a", task_topic="t.{}".format),
        metrics,
    )


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_SECONDS", 0.0)


async def test_a_failed_write_is_tried_until_it_works() -> None:
    """Refused before it left, and refused by the broker: both are tried again, and the record arrives once."""
    refused = ProducerSendError("no metadata")
    refused.__cause__ = KafkaConnectionError()
    sender = _Sender(refused, RequestTimedOutError(), KafkaConnectionError())
    output, _ = _output(sender)
    await output.write("s", key=b"k", value=b"v")
    assert sender.sent == [("s", b"k", b"v", [])]
    assert output.trouble is None


async def test_what_fails_is_told_with_the_latest_reason() -> None:
    """First the broker was away, now a permission is missing: that is what somebody has to know."""
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


async def test_what_is_too_large_is_said_and_not_tried_again() -> None:
    """The error names size, topic and the setting to change."""
    output, _ = _output(_Sender(limit=3))
    with pytest.raises(TooLargeError, match=r"4 bytes is too large for topic s .*max\.message\.bytes"):
        await output.write("s", key=None, value=b"1234")


async def test_a_dead_letter_that_does_not_fit_is_cut() -> None:
    """A value of 1 MB becomes its first 256 KiB, flagged, with the original size; and it counts once."""
    sender = _Sender(limit=600_000)
    output, metrics = _output(sender)
    await output.dead_letter(_Record(value=b"x" * 1_000_000), "undecodable", "not JSON")
    letter = DeadLetter.model_validate_json(sender.sent[0][2] or b"")
    assert letter.truncated
    assert letter.value == b"x" * CUT_VALUE_BYTES
    assert letter.value_bytes == 1_000_000
    count = metrics.registry.get_sample_value("judgestream_dead_letters_total", {"reason": "undecodable"})
    assert count == 1


async def test_a_dead_letter_with_huge_headers_goes_without_them() -> None:
    """Where even the cut value does not fit, place and reason still arrive."""
    sender = _Sender(limit=5_000)
    output, _ = _output(sender)
    await output.dead_letter(_Record(headers=[("h", b"x" * 20_000)]), "oversized", "d\ud800" * 5_000)
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
    """A producer can write any number; what is no moment counts as missing."""
    assert moment(timestamp) == expected
