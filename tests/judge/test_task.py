from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from judge.metric import READ_AT_ONCE, build_task, size_of
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import parse_pack
from schemas import QAEvent, Sampling, Source, result_id

RECORDED = datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)
SOURCE = Source(topic="qa.events", partition=3, offset=9)


def metric_using(names: str) -> PackMetric:
    raw = f"[{{role: user, content: '{names}'}}]".encode()
    return PackMetric("tone", parse_pack(raw, dialect="yaml", origin="p"), score_range=(1, 5))


@pytest.mark.parametrize("replay_id", [None, "r-1"])
def test_a_task_holds_only_the_texts_of_its_metric(replay_id: str | None) -> None:
    event = QAEvent(
        event_id="e",
        question="q",
        answer="a",
        reference="r",
        context={"Page-1": "x"},
        labels={"app": "b"},
        trace_id="0" * 32,
    )
    task = build_task(
        event,
        metric_using("{answer} {context}"),
        source=SOURCE,
        sampling=Sampling(probability=1, stratum="default", policy="p"),
        recorded_at=RECORDED,
        sampled_at=RECORDED + timedelta(seconds=5),
        replay_id=replay_id,
    )
    assert (task.question, task.answer, task.reference, task.context) == ("", "a", None, {"Page-1": "x"})
    assert task.occurred_at == RECORDED
    assert task.labels == {"app": "b"}
    assert task.trace_id == "0" * 32
    assert task.result_id == result_id(topic="qa.events", event_id="e", metric="tone", replay_id=replay_id)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("Rain fell.", 10),
        ("\u00e9 a", 22),  # decomposed into two characters: 2 * 10 + 2
        ("\ufdfa", 180),  # NFKC expands it to 18 characters
        ("a\u200b\u200b", 21),  # invisible characters: 1 + 2 * 10
        ("\u200b" * (READ_AT_ONCE + 1), READ_AT_ONCE + 1),  # above READ_AT_ONCE: its length
    ],
)
def test_how_much_there_is_to_read(text: str, size: int) -> None:
    """A non-ASCII character counts ten times its compared length, and at least ten."""
    assert size_of(text) == size
