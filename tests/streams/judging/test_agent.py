from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import JudgeTask, Scored, Source, Suspicion, Usage
from streams.judging.agent import MIN_RESULTS, CitationWatch, JudgeAgent, JudgeWatch
from streams.judging.budget import Spending
from streams.kafka.output import Output
from streams.settings.judge import BudgetSettings
from streams.telemetry.instruments import Metrics
from tests.streams.records import Outbox
from tests.streams.results import START, scored, task_of

_RESULT = scored(1, 3, metric="tone")
_PLACE = Source(topic="judge.tasks.tone", partition=2, offset=7)
_KEPT = _RESULT.model_copy(update={"task": _PLACE})
_TASK = task_of(_RESULT)


class _Judge:
    async def judge(self, task: JudgeTask) -> Scored:
        assert task.event_id == _TASK.event_id
        return _RESULT


async def _handled(
    value: bytes | None = _TASK.model_dump_json().encode(),
    spending: Spending | None = None,
    free: Sequence[str] = (),
) -> Outbox:
    output = Outbox()
    agent = JudgeAgent(
        judges={"tone": _Judge()}, output=cast("Output", output), citations=CitationWatch([]), free=free,
        spending=spending or Spending(BudgetSettings()),
    )  # fmt: skip
    await agent.handle(cast("Any", SimpleNamespace(value=value, **_PLACE.model_dump())), "tone")
    return output


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
    ((reason, said),) = (await _handled(value)).letters
    assert reason == "invalid_task"
    assert detail in said
    assert "secret" not in said


async def test_a_task_becomes_a_result() -> None:
    spending = Spending(BudgetSettings(calls_per_day=1), now=lambda: START)
    spending.book(None)
    again = _TASK.model_copy(update={"replay_id": "burst-1"}).model_dump_json().encode()
    for output in (
        await _handled(),
        await _handled(spending=spending, free=["tone"]),
        await _handled(again, spending=spending),
    ):
        assert (output.results, output.letters) == ([_KEPT], [])
    assert spending.spent_ratio() == 1


def _result(number: int, *, cites: bool, metric: str = "relevance") -> Scored:
    suspicions = () if cites else (Suspicion(kind="no_citation", detail="secret text"),)
    result = scored(number, 1)
    changes = {"metric": metric, "event_id": f"event-{number}", "suspicions": suspicions}
    return result.model_copy(update=changes)


@pytest.mark.parametrize(
    ("metric", "cites", "notes"),
    [
        ("relevance", lambda _: False, 1),
        ("relevance", lambda number: number % 2 == 0, 0),  # half is not most
        ("relevance", lambda _: True, 0),
        ("tone", lambda _: False, 0),
    ],
)
def test_uncited_answers_are_logged_once(metric: str, cites: Callable[[int], bool], notes: int) -> None:
    watch = CitationWatch(["relevance"])
    with capture_logs() as logs:
        for number in range(2 * MIN_RESULTS):
            watch.add(_result(number, cites=cites(number), metric=metric))
            assert bool(watch.note) == (notes == 1 and number + 1 >= MIN_RESULTS)
    assert len(logs) == notes
    for words in ("'event-0'", "citation_pattern"):
        assert words in (watch.note or words)
    assert "secret" not in str(logs)


def test_calls_and_outages_are_counted_and_logged() -> None:
    registry, clock = CollectorRegistry(), [10.0]
    watch = JudgeWatch(Metrics(registry), PriceTable(), print, now=lambda: clock[0])
    endpoint = {"endpoint": "primary"}
    with capture_logs() as lines:
        watch.down("primary", None)
        assert registry.get_sample_value("judgestream_judge_breaker_open", endpoint) == 0
        watch.in_flight("primary", 3)
        watch.asked("primary", "m", "timeout", 30.0)
        watch.down("primary", "connection refused")
        assert registry.get_sample_value("judgestream_judge_breaker_open", endpoint) == 1
        clock[0] = 72.5
        watch.down("primary", None)
    watch.cache_failed()
    assert registry.get_sample_value("judgestream_verdict_cache_failures_total") == 1
    assert registry.get_sample_value("judgestream_judge_breaker_open", endpoint) == 0
    assert registry.get_sample_value("judgestream_judge_in_flight", endpoint) == 3
    labels = {**endpoint, "model": "m", "outcome": "timeout"}
    assert registry.get_sample_value("judgestream_judge_call_seconds_sum", labels) == 30
    assert [(line["log_level"], line.get("error"), line.get("down_seconds")) for line in lines] == [
        ("error", "connection refused", None),
        ("info", None, 62.5),
    ]


def test_tokens_are_priced_and_what_no_result_carries_is_booked() -> None:
    """1,000 tokens at 2 USD per million are 0.002 USD."""
    registry, booked = CollectorRegistry(), list[float | None]()
    prices = PriceTable(endpoints={"primary": ModelPrice(2.0, 8.0)})
    watch = JudgeWatch(Metrics(registry), prices, booked.append)
    watch.used("primary", "m", Usage(input_tokens=1_000), for_verdict=True)
    watch.used("primary", "m", Usage(input_tokens=1_000), for_verdict=False)
    watch.used("spare", "n", Usage(input_tokens=1_000), for_verdict=False)
    labels = {"endpoint": "primary", "model": "m"}
    assert registry.get_sample_value("judgestream_judge_cost_usd_total", labels) == 0.004
    assert registry.get_sample_value("judgestream_judge_tokens_total", {**labels, "kind": "input"}) == 2_000
    assert booked == [0.002, None]
