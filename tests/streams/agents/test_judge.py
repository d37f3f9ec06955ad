from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from judge.errors import JudgeUnavailableError
from judge.evaluator import Judge
from schemas import Evaluator, JudgeCall, JudgeTask, Sampling, Scored, Source, Times
from streams.agents.judge import Availability, JudgeAgent
from streams.metrics import Metrics
from streams.output import Output

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
    """Says what it is told, and scores when there is nothing left to say."""

    evaluator = _EVALUATOR

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def judge(self, task: JudgeTask) -> Scored:
        self.calls += 1
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
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


def _agent(judge: _Judge, output: _Output) -> tuple[JudgeAgent, Metrics]:
    metrics = Metrics(CollectorRegistry())
    agent = JudgeAgent(
        judges={"tone": cast("Judge", judge)},
        availability=Availability("primary", metrics),
        max_in_flight=1,
        output=cast("Output", output),
        counts=metrics,
        first_wait_seconds=0.001,
    )
    return agent, metrics


async def test_an_outage_is_waited_out_and_shown() -> None:
    """Three refusals, then a verdict: one result, no dead letter, and the breaker closed again."""
    judge, output = _Judge(*(JudgeUnavailableError("down") for _ in range(3))), _Output()
    agent, metrics = _agent(judge, output)
    await agent.handle(cast("Any", _Record()), "tone")
    assert judge.calls == 4
    assert len(output.results) == 1
    assert output.letters == []
    value: Callable[..., float | None] = metrics.registry.get_sample_value
    labels = {"endpoint": "primary", "model": "m"}
    assert value("judgestream_judge_call_seconds_count", {**labels, "outcome": "unavailable"}) == 3
    assert value("judgestream_judge_call_seconds_count", {**labels, "outcome": "scored"}) == 1
    assert value("judgestream_judge_breaker_open", {"endpoint": "primary"}) == 0
    assert value("judgestream_judge_in_flight", {"endpoint": "primary"}) == 0


async def test_an_endpoint_is_left_alone_as_long_as_it_asks() -> None:
    """With a retry-after of an hour there is one call, until the endpoint answers somebody else."""
    judge, output = _Judge(JudgeUnavailableError("busy", retry_after_seconds=3600)), _Output()
    agent, _ = _agent(judge, output)
    waiting = asyncio.create_task(agent.handle(cast("Any", _Record()), "tone"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert judge.calls == 1
    assert agent.availability.reason == "busy"
    agent.availability.answered()
    await asyncio.wait_for(waiting, 5)
    assert len(output.results) == 1


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (b"{", "JSON"),
        (None, "not a task"),
        (_TASK.model_copy(update={"metric": "style"}).model_dump_json().encode(), "got style"),
        (b'{"question": "secret words"}', "result_id"),
    ],
)
async def test_what_is_no_task_is_set_aside_without_its_texts(value: bytes | None, detail: str) -> None:
    """The reason names fields, never what stood in them."""
    output = _Output()
    agent, _ = _agent(_Judge(), output)
    await agent.handle(cast("Any", _Record(value)), "tone")
    ((reason, said),) = output.letters
    assert reason == "invalid_task"
    assert detail in said
    assert "secret" not in said
