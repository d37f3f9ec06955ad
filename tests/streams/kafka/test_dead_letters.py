"""Dead letters in decreasing sizes, and the limit of their number."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import DeadLetter
from streams.errors import DeadLetterLimitError
from streams.kafka.dead_letters import WHOLE_BYTES, DeadLetterLimit, letter_forms
from streams.kafka.record import Record
from tests.streams.kafka.test_output import _record

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _forms(record: Record, detail: str = "d" * 5_000) -> list[DeadLetter]:
    return list(letter_forms(record, "undecodable", detail, event_id="e1", failed_at=NOW))


def _bytes(letter: DeadLetter) -> int:
    return len(letter.model_dump_json().encode())


@given(
    st.one_of(st.none(), st.binary(max_size=300), st.just(b"v" * 600_000)),
    st.one_of(st.none(), st.binary(max_size=300), st.just(b"k" * 300_000)),
    st.lists(st.tuples(st.text(max_size=5), st.just(b"h" * 200_000)), max_size=2),
)
def test_every_form_is_smaller_and_says_where_the_record_is(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    """Each form is smaller than the one before and has position, reason and event id; the first is whole."""
    forms = _forms(_record(value=value, key=key, headers=headers), detail="not JSON")
    assert (forms[0].value, forms[0].key, forms[0].truncated) == (value, key, False)
    assert {(one.topic, one.partition, one.offset, one.event_id) for one in forms} == {("t", 2, 5, "e1")}
    # The hash of a truncated value adds 64 digits.
    sizes = [_bytes(one) for one in forms]
    assert all(after <= before + 64 for before, after in pairwise(sizes))
    assert sizes[-1] < 800


def test_the_smallest_form_has_the_hash_and_nothing_that_grows() -> None:
    value = b"v" * 3_000_000
    smallest = _forms(_record(value=value, key=b"k" * 2_000_000))[-1]
    assert (smallest.key, smallest.value, smallest.headers) == (None, None, ())
    assert (smallest.value_sha256, smallest.value_bytes) == (sha256(value).hexdigest(), 3_000_000)
    assert _bytes(smallest) < 700


def test_a_huge_record_is_truncated_at_once() -> None:
    """A record above WHOLE_BYTES is truncated at once, because its letter takes several times its memory."""
    assert all(one.truncated for one in _forms(_record(value=b"v" * (WHOLE_BYTES + 1))))


def test_a_share_of_the_latest_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """With max_ratio 0.5 of the latest ten records (1,000 outside this test) the sixth letter raises."""
    monkeypatch.setattr("streams.kafka.dead_letters.RATIO_OVER_RECORDS", 10)
    unlimited = DeadLetterLimit(None)
    for _ in range(100):
        unlimited.set_aside("t")
    limit = DeadLetterLimit(0.5)
    for _ in range(5):
        limit.set_aside("t")
        limit.set_aside("u")
        limit.finished("t")
    limit.finished("t")  # the oldest, a dead letter, leaves the window: 4 of 10
    limit.set_aside("t")  # a good one leaves the window: 5 of 10
    limit.set_aside("t")  # a dead letter leaves the window: 5 of 10
    with pytest.raises(DeadLetterLimitError, match=r"6 of the latest 10 records of t"):
        limit.set_aside("t")
    with pytest.raises(DeadLetterLimitError, match=r"records of u"):
        limit.set_aside("u")  # six of six
