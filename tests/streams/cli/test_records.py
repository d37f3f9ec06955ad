from __future__ import annotations

from typing import Any

import pytest

from streams.cli.records import RecordFilter
from streams.kafka.record import Record
from tests.streams.records import make_record
from tests.streams.results import scored, unscored


def _record(result: Any) -> Record:
    return make_record(result.model_dump_json().encode(), timestamp=1.0)


_TWO = _record(scored(1, 2, labels={"app": "support", "tenant": "gold"}))


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, True),
        ({"metric": "relevance"}, True),
        ({"metric": "coverage"}, False),
        ({"status": "scored"}, True),
        ({"status": "failed"}, False),
        ({"max_score": 2}, True),
        ({"max_score": 1}, False),
        ({"event_id": "e1"}, True),
        ({"event_id": "e2"}, False),
        ({"labels": {"app": "support"}}, True),
        ({"labels": {"app": "support", "tenant": "silver"}}, False),
        ({"since": 1.0}, True),
        ({"since": 1.001}, False),
    ],
)
def test_conditions(wanted: dict[str, Any], *, fits: bool) -> None:
    assert RecordFilter(**{"labels": {}, **wanted}).fits(_TWO) is fits


@pytest.mark.parametrize(
    "value", [None, b"", b"\xff", b"[]", b"3", b'{"labels": 3, "score": "x"}', b"[" * 10_000]
)
def test_a_record_of_another_form_fits_no_condition_and_stops_nothing(value: bytes | None) -> None:
    """A record of another form fails each condition, and is shown without conditions."""
    record = make_record(value)
    assert RecordFilter(labels={}).fits(record)
    assert not RecordFilter(labels={"app": "x"}).fits(record)
    assert not RecordFilter(labels={}, max_score=3).fits(record)


def test_what_has_no_score_is_not_a_low_one() -> None:
    assert not RecordFilter(labels={}, max_score=5).fits(_record(unscored(1)))
