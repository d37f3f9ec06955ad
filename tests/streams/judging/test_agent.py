from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from schemas import JudgeTask, Scored
from streams.judging.agent import CitationWatch, JudgeAgent
from streams.judging.budget import BudgetLimits, Spending
from streams.kafka.output import Output
from tests.streams.results import START, scored, task_of

_RESULT = scored(1, 3, metric="tone")
_TASK = task_of(_RESULT)


class _Judge:
    async def judge(self, task: JudgeTask) -> Scored:
        assert task == _TASK
        return _RESULT


class _Output:
    def __init__(self) -> None:
        self.results: list[Scored] = []
        self.letters: list[tuple[str, str]] = []

    async def result(self, result: Scored) -> None:
        self.results.append(result)

    async def dead_letter(self, _: Any, reason: str, detail: str, **__: Any) -> None:
        self.letters.append((reason, detail))


async def _handled(
    value: bytes | None = _TASK.model_dump_json().encode(),
    spending: Spending | None = None,
    free: Sequence[str] = (),
) -> _Output:
    output = _Output()
    agent = JudgeAgent(
        judges={"tone": _Judge()},
        output=cast("Output", output),
        spending=spending or Spending(BudgetLimits()),
        citations=CitationWatch([]),
        free=free,
    )
    await agent.handle(cast("Any", SimpleNamespace(value=value)), "tone")
    return output


async def test_a_task_becomes_a_result() -> None:
    """A task becomes the result of its metric's judge."""
    output = await _handled()
    assert output.results == [_RESULT]
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
    ((reason, said),) = (await _handled(value)).letters
    assert reason == "invalid_task"
    assert detail in said
    assert "secret" not in said


async def test_a_free_metric_waits_for_no_budget() -> None:
    """Free metrics are judged while the budget is spent."""
    spending = Spending(BudgetLimits(calls=1), now=lambda: START)
    spending.book(None)
    assert len((await _handled(spending=spending, free=["tone"])).results) == 1
