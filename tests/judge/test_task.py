from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import parse_pack
from judge.task import build_task
from schemas import QAEvent, Sampling, Source, result_id

RECORDED = datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)
SOURCE = Source(topic="qa.events", partition=3, offset=9)


def metric_using(names: str) -> PackMetric:
    raw = f"[{{role: user, content: '{names}'}}]".encode()
    return PackMetric("tone", parse_pack(raw, dialect="yaml", origin="p"), score_range=(1, 5))


@pytest.mark.parametrize("replay_id", [None, "r-1"])
def test_a_task_carries_only_what_its_metric_needs(replay_id: str | None) -> None:
    """The other texts stay behind; where an event has no time of its own its record's stands in."""
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
