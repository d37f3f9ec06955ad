"""Verdicts in batches, with a broker and the offline judge."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from aiohttp import web

from tests.integration.deadlines import DEADLINE_SECONDS, until
from tests.integration.processes import SOON_MISSED, process
from tests.integration.stage import Stage, event
from tests.judge.batch_judge import BatchJudge, line_of

EVENTS: Final = 24
IDS: Final = {f"e{number}" for number in range(EVENTS)}


@pytest.fixture
async def judge() -> AsyncIterator[BatchJudge]:
    async with BatchJudge() as running:
        yield running


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path, judge: BatchJudge) -> Stage:
    return with_lane(Stage(bootstrap_servers, tmp_path), judge)


def with_lane(stage: Stage, judge: BatchJudge, **batch: Any) -> Stage:
    values = {"close_after_seconds": 2, "max_requests": 500, "give_up_after_seconds": 600, "fast_share": 0.25}
    endpoint = {
        "name": "offline",
        "base_url": judge.base_url,
        "model": "offline-rules-1",
        "usd_per_million_tokens": {"input": 1, "output": 1},
        "lane": {"batch": values | batch},
    }
    stage.changes |= {"judge.endpoints": [endpoint], "judge.timeout_seconds": 1, "judge.budget": "none"}
    return stage


def batched(results: Sequence[Any]) -> set[str]:
    """The events whose verdicts cost half."""
    usd = {one.event_id: (one.usage.input_tokens + one.usage.output_tokens) / 1e6 for one in results}
    assert all(one.cost_usd in (usd[one.event_id], usd[one.event_id] / 2) for one in results)
    return {one.event_id for one in results if one.cost_usd < usd[one.event_id]}


async def test_most_verdicts_come_in_a_batch_at_half_the_price(stage: Stage, judge: BatchJudge) -> None:
    """The others come at once; each names its task on its metric's topic."""
    async with stage.worker(None) as (_, registry):
        await stage.produce([event(number) for number in range(EVENTS)])
        await stage.judges(IDS)
        results = await stage.results()
        waited = await stage.read("batch_tasks")
        assert len(results) == judge.answered == EVENTS
        assert batched(results) == {record.key.decode() for record in waited}
        assert 0 < len(waited) < EVENTS
        cost = registry.get_sample_value(
            "judgestream_judge_cost_usd_total", {"endpoint": "offline", "model": "offline-rules-1"}
        )
        assert cost == pytest.approx(sum(one.cost_usd or 0 for one in results))
        gauge = {"endpoint": "offline"}
        assert registry.get_sample_value("judgestream_judge_batch_requests", gauge) == 0
    tasks = {(one.partition, one.offset): one for one in await stage.read("tasks.tone")}
    for one in results:
        assert one.task is not None
        assert one.task.topic == stage.topic("tasks.tone")
        assert tasks[one.task.partition, one.task.offset].key.decode() == one.event_id
    assert len({one.evaluator.fingerprint for one in results}) == 1


FAULTS: Final[dict[str, dict[str, Any]]] = {
    "lines": {"missing": 2, "failed": 3, "cut": 5, "doubled": 7},
    "expired": {"status": "expired", "missing": 2},
    "slow": {},
    "refused": {"status": "failed", "missing": 1},
}
NEVER: Final = EVENTS + 1


def with_faults(
    judge: BatchJudge,
    *,
    missing: int = NEVER,
    failed: int = NEVER,
    cut: int = NEVER,
    doubled: int = NEVER,
    status: str = "completed",
) -> None:
    """Make every n-th line of the judge's batches wrong."""
    batches = judge.batches

    async def complete(batch: dict[str, Any]) -> None:
        output, errors = list[bytes](), list[bytes]()
        for number, raw in enumerate(batches.files[batch["input_file_id"]].splitlines(), start=1):
            line = orjson.loads(raw)
            if number % failed == 0 and number % missing:
                errors.append(line_of(line, {"error": {"message": "failed on request"}}, 500))
            elif number % missing:
                body = await judge.completion(orjson.dumps(line["body"]))
                if number % cut == 0:
                    body["choices"][0]["finish_reason"] = "length"
                again = [] if number % doubled else [line_of(line, body | {"choices": []})]
                output += [line_of(line, body), *again]
        files = {"output_file_id": batches.keep(output), "error_file_id": batches.keep(errors)}
        batch |= files | {"status": status}

    batches.complete = complete  # type: ignore[method-assign]


@pytest.mark.parametrize("name", FAULTS)
async def test_what_no_batch_answers_is_judged_at_once(stage: Stage, judge: BatchJudge, name: str) -> None:
    """Lines that are missing, failed, cut or ambiguous; batches that expire, fail or are given up."""
    with_lane(stage, judge, give_up_after_seconds=2 if name == "slow" else 600)
    judge.batches.seconds = 600 if name == "slow" else 0
    with_faults(judge, **FAULTS[name])
    async with stage.worker(None):
        await stage.produce([event(number) for number in range(EVENTS)])
        await stage.judges(IDS)
    results = await stage.results()
    assert len(results) == EVENTS
    assert {one.status for one in results} == {"scored"}
    assert bool(batched(results)) == (name in {"lines", "expired"})
    if name == "slow":
        assert {one["status"] for one in judge.batches.batches.values()} == {"cancelled"}
    if name != "lines":  # else cut and ambiguous lines are paid, too
        assert judge.answered == EVENTS


class Held:
    """Holds one of the judge's handlers, before it does its work or after."""

    def __init__(self, handler: Callable[[web.Request], Awaitable[web.Response]], *, after: bool) -> None:
        self.reached = asyncio.Event()
        self.released = False
        self._handler, self._after = handler, after

    async def handle(self, request: web.Request) -> web.Response:
        if self.released:
            return await self._handler(request)
        if self._after:
            await self._handler(request)
        self.reached.set()
        await asyncio.Event().wait()  # until the killed worker's connection is closed
        raise AssertionError


STEPS: Final = {
    "before upload": ("upload", False),
    "after upload": ("upload", True),
    "before creation": ("create", False),
    "after creation": ("create", True),
    "while waiting": ("retrieve", False),
    "amid collecting": ("content", True),
}


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
async def test_a_worker_killed_in_a_batch_s_life_pays_no_verdict_twice(
    bootstrap_servers: str, tmp_path: Path, step: str
) -> None:
    """Its successor finds the batch by its id, or by its key; without one it judges at once."""
    name, after = STEPS[step]
    judge = BatchJudge()
    held = Held(getattr(judge.batches, name), after=after)
    setattr(judge.batches, name, held.handle)
    async with judge:
        stage = with_lane(Stage(bootstrap_servers, tmp_path), judge)
        stage.changes |= SOON_MISSED
        async with process(stage) as worker:
            await stage.produce([event(number) for number in range(EVENTS)])
            await asyncio.wait_for(held.reached.wait(), DEADLINE_SECONDS)
            waiting = len(await stage.read("batch_tasks"))
            await stage.commits("tasks.tone", EVENTS)
            await stage.holds(scores=EVENTS - waiting)
            await worker.end(signal.SIGKILL)
        held.released = True
        async with process(stage):
            await stage.judges(IDS)
            await stage.commits("batch_tasks", waiting)
        results = await stage.results()
        assert len(results) == len({one.result_id for one in results}) == judge.answered == EVENTS
        sent = step not in {"before upload", "after upload", "before creation"}
        assert len(batched(results)) == (waiting if sent else 0)


@pytest.mark.slow
async def test_a_batch_outlives_the_workers_that_wait_for_it(stage: Stage, judge: BatchJudge) -> None:
    """A worker stops at once although a batch is open; of its successors one is killed."""
    judge.batches.seconds = 600
    stage.changes |= SOON_MISSED
    async with process(stage) as worker:
        await stage.produce([event(number) for number in range(EVENTS)])
        await until(lambda: bool(judge.batches.batches), "a batch")
        waiting = len(await stage.read("batch_tasks"))
        await stage.commits("tasks.tone", EVENTS)
        # What is waited for until the time limit is then released.
        assert "records released" not in await worker.end()
    async with process(stage, log="a.log") as first, process(stage, log="b.log"):
        first.send_signal(signal.SIGKILL)
        judge.batches.due_at = dict.fromkeys(judge.batches.batches, 0.0)
        await stage.judges(IDS)
    assert judge.answered == EVENTS
    assert len(batched(await stage.results())) == waiting
