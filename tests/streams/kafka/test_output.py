from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    MessageSizeTooLargeError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)
from faust.exceptions import ProducerSendError
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from schemas import RESULT, DeadLetter
from streams.errors import DeadLetterLimitError, TooLargeError
from streams.kafka import output as module
from streams.kafka.dead_letters import CUT_VALUE_BYTES, WHOLE_BYTES, letter_forms
from streams.kafka.output import Output
from streams.kafka.record import Record, moment
from streams.settings.broker import DeadLetterSettings, TopicSettings
from streams.telemetry.instruments import Metrics
from tests.integration.deadlines import until
from tests.streams.records import make_record
from tests.streams.results import scored as a_result

_record = partial(make_record, topic="t", partition=2, offset=5, timestamp=0.0, key=b"k")


class _Sender:
    def __init__(self, *failures: Exception, limit: int = 10**9) -> None:
        self.failures = list(failures)
        self.limit = limit
        self.sent: list[tuple[str, bytes | None, bytes | None, Any]] = []

    async def send(self, topic: str, key: bytes | None, value: bytes | None, *rest: Any) -> Awaitable[Any]:
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.failures:
            error = self.failures.pop(0)
            if isinstance(error, ProducerSendError):
                raise error
            confirmed.set_exception(error)
        elif len(key or b"") + len(value or b"") > self.limit:
            confirmed.set_exception(MessageSizeTooLargeError())
        else:
            self.sent.append((topic, key, value, rest[-1]))
            confirmed.set_result(None)
        return confirmed


TOPICS = TopicSettings(scores="s", dead_letters="d", alerts="a", prefix="t.")


def _output(sender: _Sender, policy: DeadLetterSettings | None = None) -> tuple[Output, Metrics]:
    metrics = Metrics(CollectorRegistry())
    return Output(lambda: sender, metrics, TOPICS, policy=policy), metrics


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_SECONDS", 0.0)


async def test_a_failed_write_is_tried_until_it_works() -> None:
    """Meanwhile the trouble has the latest reason."""
    troubles: list[Any] = []

    class Noting(_Sender):
        async def send(self, *record: Any) -> Awaitable[Any]:
            troubles.append(output.trouble and (output.trouble.topic, output.trouble.error))
            return await super().send(*record)

    refused = ProducerSendError("no metadata")
    refused.__cause__ = KafkaConnectionError()
    errors = (refused, RequestTimedOutError(), TopicAuthorizationFailedError("s"))
    sender = Noting(*errors)
    output, _ = _output(sender)
    await output.write("s", key=b"k", value=b"v")
    assert sender.sent == [("s", b"k", b"v", [])]
    assert troubles == [None, *(("s", error) for error in errors)]
    assert output.trouble is None


HUGE_KEY, HUGE_VALUE, ODD = b"k" * 2_000_000, b"x" * 1_000_000, "d\ud800" * 5_000


@pytest.mark.parametrize(
    ("limit", "record", "detail", "kept"),
    [
        (600_000, {"value": HUGE_VALUE}, "not JSON", {"key": b"k", "value": HUGE_VALUE[:CUT_VALUE_BYTES]}),
        (5_000, {"headers": [("h", b"x" * 20_000)]}, ODD, {"key": b"k", "value": b"", "headers": ()}),
        (1_000, {"key": HUGE_KEY}, "not JSON", {"key": None, "value": None, "headers": ()}),
    ],
    ids=["value", "headers", "key"],
)
async def test_a_dead_letter_that_does_not_fit_is_cut(
    limit: int, record: dict[str, Any], detail: str, kept: dict[str, Any]
) -> None:
    sender = _Sender(limit=limit)
    output, metrics = _output(sender)
    cut = _record(**record)
    await output.dead_letter(cut, "undecodable", detail, event_id="e1")
    ((topic, key, value, _),) = sender.sent
    letter = DeadLetter.model_validate_json(value or b"")
    assert (topic, key, letter.truncated) == ("d", kept["key"], True)
    assert letter.value_bytes == len(cut.value or b"")
    assert (letter.topic, letter.partition, letter.offset, letter.event_id) == ("t", 2, 5, "e1")
    assert {name: getattr(letter, name) for name in kept} == kept
    assert letter.detail.startswith(detail[:2].replace("\ud800", "?"))
    assert metrics.registry.get_sample_value("judgestream_dead_letters_total", {"reason": "undecodable"}) == 1


def test_timestamps_that_are_none() -> None:
    assert moment(0.0) == datetime(1970, 1, 1, tzinfo=UTC)
    for timestamp in (None, -0.001, 1e18, 2**62 / 1000):
        assert moment(timestamp) is None


async def test_a_dead_letter_waits_until_the_topic_accepts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELL_AGAIN_SECONDS", 0.01)
    sender = _Sender(limit=10)
    output, _ = _output(sender)
    waiting = asyncio.create_task(output.dead_letter(_record(), "undecodable", "not JSON"))
    await until(lambda: output.trouble is not None, "the trouble")
    assert output.trouble is not None
    assert str(output.trouble.error).endswith("too large; raise max.message.bytes of d")
    sender.limit = 10**6
    await asyncio.wait_for(waiting, 60)
    assert len(sender.sent) == 1
    assert output.trouble is None


async def test_a_result_that_is_too_large_loses_its_evidence() -> None:
    scored = a_result(1, 4)
    large = scored.model_copy(update={"evidence": {"claims": ["c" * 5_000]}})
    sender = _Sender(limit=len(scored.model_dump_json()) + 500)
    output, _ = _output(sender)
    await output.result(large)
    ((_, _, value, _),) = sender.sent
    cut = scored.model_copy(update={"evidence": {"truncated": True}})
    assert RESULT.validate_json(value or b"") == cut
    sender.limit = 100
    size = len(cut.model_dump_json())
    with pytest.raises(TooLargeError, match=rf"{size} bytes is too large for topic s .*max\.message\.bytes"):
        await output.result(large)


def _forms(record: Record, detail: str = "d" * 5_000) -> list[DeadLetter]:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return list(letter_forms(record, "undecodable", detail, event_id="e1", failed_at=now))


@settings(max_examples=40)  # three kinds of values, three of keys, up to two headers
@given(
    st.one_of(st.none(), st.binary(max_size=300), st.just(b"v" * 600_000)),
    st.one_of(st.none(), st.binary(max_size=300), st.just(b"k" * 300_000)),
    st.lists(st.tuples(st.text(max_size=5), st.just(b"h" * 200_000)), max_size=2),
)
def test_every_form_is_smaller_and_says_where_the_record_is(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    """The first is whole."""
    forms = _forms(_record(value=value, key=key, headers=headers), detail="not JSON")
    assert (forms[0].value, forms[0].key, forms[0].truncated) == (value, key, False)
    assert {(one.topic, one.partition, one.offset, one.event_id) for one in forms} == {("t", 2, 5, "e1")}
    # The hash of a truncated value adds 64 digits.
    sizes = [len(one.model_dump_json().encode()) for one in forms]
    assert all(after <= before + 64 for before, after in pairwise(sizes))
    assert sizes[-1] < 800
    digest = sha256(value).hexdigest() if value else None
    assert (forms[-1].value_sha256, forms[-1].value_bytes) == (digest, len(value or b""))
    assert (forms[-1].key, forms[-1].value, forms[-1].headers) == (None, None, ())


def test_a_huge_record_is_truncated_at_once() -> None:
    assert all(one.truncated for one in _forms(_record(value=b"v" * (WHOLE_BYTES + 1))))


async def test_a_share_of_the_latest_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """With max_ratio 0.5 of the latest ten records (1,000 outside this test) the sixth letter raises."""
    monkeypatch.setattr(module, "RATIO_OVER_RECORDS", 10)
    unlimited, _ = _output(_Sender())
    limit, _ = _output(_Sender(), DeadLetterSettings(max_ratio=0.5))

    async def set_aside(topic: str, output: Output = limit) -> None:
        await output.dead_letter(_record(topic=topic), "undecodable", "not JSON")

    for _ in range(20):
        await set_aside("t", unlimited)
    for _ in range(5):
        await set_aside("t")
        await set_aside("u")
        limit.passed("t")
    limit.passed("t")  # the oldest, a dead letter, leaves the window: 4 of 10
    await set_aside("t")  # a good one leaves the window: 5 of 10
    await set_aside("t")  # a dead letter leaves the window: 5 of 10
    with pytest.raises(DeadLetterLimitError, match=r"6 of the latest 10 records of t"):
        await set_aside("t")
    with pytest.raises(DeadLetterLimitError, match=r"records of u"):
        await set_aside("u")  # six of six
