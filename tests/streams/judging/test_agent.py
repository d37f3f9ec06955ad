from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from schemas import Evaluator, JudgeCall, JudgeTask, Sampling, Scored, Source, Times
from streams.judging.agent import JudgeAgent
from streams.judging.budget import BudgetLimits
from streams.judging.citations import CitationWatch
from streams.judging.spending import Spending
from streams.kafka.output import Output

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_EVALUATOR = Evaluator(fingerprint="f", prompt="p", schema_="s", scoring="v", model="m")
_TASK = JudgeTask(
    result_id="0" * 32,
    event_id="e",
    metric="tone",
    source=Source(topic="t", partition=0, offset=0),
    question="q",
    answer="a",
    sampling=Sampling(probability=1, stratum="default", policy="p"),
    occurred_at=_NOW,
    sampled_at=_NOW,
)


@dataclass
class _Record:
    value: bytes | None = field(default_factory=lambda: _TASK.model_dump_json().encode())


class _Judge:
    """A judge that scores each task 3."""

    async def judge(self, task: JudgeTask) -> Scored:
        return Scored(
            result_id=task.result_id,
            event_id=task.event_id,
            metric=task.metric,
            source=task.source,
            evaluator=_EVALUATOR,
            judge=JudgeCall(endpoint="primary", model_asked="m", model_answered="m"),
            sampling=task.sampling,
            times=Times(occurred_at=_NOW, sampled_at=_NOW, judged_at=_NOW),
            verdict={"score": 3},
            score=3,
        )


class _Output:
    def __init__(self) -> None:
        self.results: list[Scored] = []
        self.letters: list[tuple[str, str]] = []

    async def result(self, result: Scored) -> None:
        self.results.append(result)

    async def dead_letter(self, _: Any, reason: str, detail: str, **__: Any) -> None:
        self.letters.append((reason, detail))


async def _handled(record: _Record, spending: Spending | None = None, free: Sequence[str] = ()) -> _Output:
    output = _Output()
    agent = JudgeAgent(
        judges={"tone": _Judge()},
        output=cast("Output", output),
        spending=spending or Spending(BudgetLimits()),
        citations=CitationWatch([]),
        free=free,
    )
    await agent.handle(cast("Any", record), "tone")
    return output


async def test_a_task_becomes_a_result() -> None:
    """A task becomes the result of its metric's judge."""
    output = await _handled(_Record())
    assert [result.result_id for result in output.results] == [_TASK.result_id]
    assert output.letters == []


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (b"{", "JSON"),
        (None, "not a task"),
        (_TASK.model_copy(update={"metric": "style"}).model_dump_json().encode(), "got style"),
        (b'{"question": "secret words"}', "result_id"),
    ],
)
async def test_an_invalid_task_is_set_aside_without_its_texts(value: bytes | None, detail: str) -> None:
    """An invalid task becomes a dead letter that names fields and quotes no values."""
    ((reason, said),) = (await _handled(_Record(value))).letters
    assert reason == "invalid_task"
    assert detail in said
    assert "secret" not in said


async def test_a_free_metric_waits_for_no_budget() -> None:
    """Free metrics are judged while the budget is spent."""
    spending = Spending(BudgetLimits(calls_per_day=1), now=lambda: _NOW)
    spending.book(None)
    assert len((await _handled(_Record(), spending, free=["tone"])).results) == 1
