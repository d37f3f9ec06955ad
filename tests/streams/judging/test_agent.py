from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from judge.endpoints.lane import BatchRecord
from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import JudgeTask, Scored, Source, Suspicion, Usage, result_id
from streams.errors import TooLargeError
from streams.judging.agent import (
    MIN_RESULTS,
    WAITING_BATCHES,
    BatchTopic,
    CitationWatch,
    JudgeAgent,
    JudgeWatch,
    batch_options,
    is_fast,
    waiting_limit,
)
from streams.judging.budget import Spending
from streams.judging.endpoints import judge_endpoints, metric_judges, open_pool
from streams.judging.metrics import build_metrics
from streams.kafka.output import Output
from streams.kafka.reader import TopicBatch
from streams.kafka.record import Record
from streams.settings.broker import TopicSettings
from streams.settings.judge import BudgetSettings
from streams.settings.tree import Settings
from streams.telemetry.exposition import PartitionState, partition_values
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


_VALUE = _TASK.model_dump_json().encode()


async def _handled(value: bytes | None = _VALUE, spending: Any = None, free: Sequence[str] = ()) -> Outbox:
    output = Outbox()
    agent = JudgeAgent(
        judges={"tone": _Judge()}, output=cast("Output", output), citations=CitationWatch([]), free=free,
        topics=TopicSettings(), spending=spending or Spending(BudgetSettings()),
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
    outputs = [await _handled(), await _handled(spending=spending, free=["tone"])]
    for output in (*outputs, await _handled(again, spending=spending)):
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


# Tasks that wait for a batch

TASK = task_of(scored(1, 3, metric="coverage"))
PANEL = {"panel": {"samples": 3}}
LANE = {"batch": {"fast_share": 0}}


def settings() -> Settings:
    endpoint = {"name": "a", "base_url": "http://127.0.0.1:9/v1", "model": "offline-rules-1", "lane": LANE}
    plain = {**endpoint, "name": "b", "lane": None}
    metrics = {"coverage": {}, "relevance": {"endpoints": ["b", "a"]}, "refusal": PANEL}
    return Settings.model_validate({"judge": {"endpoints": [endpoint, plain]}, "metrics": metrics})


class Written:
    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, bytes]]] = []
        self.is_too_small = False

    async def write(self, topic: str, *, headers: list[tuple[str, bytes]], **_: Any) -> None:
        if self.is_too_small:
            raise TooLargeError("too large")
        self.records.append((topic, dict(headers)))

    def passed(self, topic: str) -> None:
        assert topic


def with_a_lane(suspicious: Callable[[JudgeTask], bool] = lambda _: False) -> tuple[JudgeAgent, Any, float]:
    """Return an agent, what it writes, and the seconds that a task may wait."""
    wanted, output = settings(), Written()
    pool = open_pool(wanted.judge, judge_endpoints(wanted.judge, {}))
    options = batch_options(wanted.judge.endpoints[0], wanted.judge)
    assert options is not None
    pool.endpoints[0].lane = cast("Any", SimpleNamespace(options=options, endpoint="a"))
    agent = JudgeAgent(
        judges=metric_judges(pool, build_metrics(wanted), wanted.metrics), output=cast("Any", output),
        topics=TopicSettings(), spending=Spending(BudgetSettings()), citations=CitationWatch([]),
        suspicious=suspicious,
    )  # fmt: skip
    return agent, output, options.longest_seconds


def record(task: JudgeTask = TASK, *, timestamp: float | None = None, **given: Any) -> Record:
    at = time.time() if timestamp is None else timestamp
    place: dict[str, Any] = {"topic": f"judge.tasks.{task.metric}", "partition": 2, "offset": 7}
    value = task.model_dump_json().encode()
    return Record(**place | {"timestamp": at, "key": b"k", "value": value} | given)


def test_each_stratum_has_the_stated_share_at_once_whatever_its_rate() -> None:
    """It depends on the event and metric alone. 4,000 events a stratum: within 4 standard errors (0.025)."""
    found: Counter[tuple[str, bool]] = Counter()
    for number in range(8_000):
        name = result_id(topic="qa.events", event_id=f"e{number}", metric="coverage", replay_id=None)
        task = TASK.model_copy(update={"result_id": name})
        found["even" if number % 2 else "odd", is_fast(task, 0.2)] += 1
        assert is_fast(task, 1)
        assert not is_fast(task, 0)
        assert is_fast(task, 0.3) or not is_fast(task, 0.2)
    for stratum in ("even", "odd"):
        assert found[stratum, True] / 4_000 == pytest.approx(0.2, abs=0.025)


async def test_only_live_tasks_of_a_metric_whose_first_endpoint_has_batches_wait() -> None:
    agent, *_ = with_a_lane(lambda task: task.labels.get("tenant") == "a")
    others: list[dict[str, Any]] = [{"metric": metric} for metric in ("relevance", "refusal", "unknown")]
    others += [{"replay_id": "burst-1"}, {"labels": {"tenant": "a"}}]
    for task in (TASK.model_copy(update=changes) for changes in others):
        assert not agent.may_wait(task, record(task))
    assert agent.may_wait(TASK, record())
    assert agent.may_wait(TASK.model_copy(update={"labels": {"tenant": "b"}}), record())
    assert not agent.may_wait(TASK, record(headers=(("judge_at_once", b"1"),)))


async def test_a_task_goes_to_the_waiting_ones_and_back() -> None:
    agent, output, longest = with_a_lane()
    await agent.handle(record(), "coverage")
    await agent.handle_in_batch(record(timestamp=time.time() - longest - 1))
    await agent.handle_in_batch(record(TASK.model_copy(update={"metric": "relevance"})))
    written = [(topic, *set(headers) - {"result_id"}) for topic, headers in output.records]
    back = [(f"judge.tasks.{name}", "judge_at_once") for name in ("coverage", "relevance")]
    assert written == [("qa.batch-tasks", "task_place"), *back]
    (_, headers), *_ = output.records
    kept = record(topic="qa.batch-tasks", headers=(("task_place", headers["task_place"]),))
    source = agent.source(scored(1, 3, metric="coverage"), kept)
    assert (source.topic, source.partition, source.offset) == ("judge.tasks.coverage", 2, 7)
    for damaged in (b"", b"2", b"2/x", b"2/7/1", None):  # the verdict is published all the same
        kept = record(topic="qa.batch-tasks", headers=(("task_place", damaged),))
        assert agent.source(scored(1, 3, metric="coverage"), kept).topic == "qa.batch-tasks"
    output.is_too_small = True
    assert not await agent.put(TASK, record())


def test_the_log_passes_on_what_is_a_batch() -> None:
    """Not other partitions, records without a key or damaged ones; a tombstone deletes."""
    heard: list[tuple[str, BatchRecord | None]] = []
    log = BatchTopic(cast("Any", None), cast("Any", None), "qa.batches")
    log.lanes.append(cast("Any", SimpleNamespace(heard=lambda *given: heard.append(given))))
    batch = {"key": "k", "endpoint": "a", "ids": ["1"], "created_at": 5.0, "batch_id": ""}
    value = str(batch).replace("'", '"').encode()
    given: list[dict[str, Any]] = [{}, {"partition": 1}, {"key": None}, {"value": b"{"}, {"value": None}]
    records = [replace(record(), **{"partition": 0, "value": value, **one}) for one in given]
    log._take(TopicBatch(records, {}, 0))
    assert [(key, one if one is None else one.ids) for key, one in heard] == [("k", ("1",)), ("k", None)]


def test_tasks_that_wait_are_bounded_and_no_lag_within_their_time() -> None:
    wanted = settings()
    assert waiting_limit(wanted.judge).records == WAITING_BATCHES * 500
    state = PartitionState("qa.batch-tasks", 0, 9, 1000.0, 9, 0)
    assert state.beyond(0.0, 5000) is state
    for now, lag, age in ((1500, None, 0), (2100, 9, 100)):
        found = {one.name: one.value for one in partition_values([state.beyond(1000, now)], now)}
        assert found.get("consumer_lag_records") == lag
        assert found["oldest_unfinished_seconds"] == age
