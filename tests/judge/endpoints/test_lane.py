"""The batch lane at the offline judge, with a log in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

import orjson
import pytest

from judge.chat import OFFLINE_MODEL, ChatReply, ChatRequest
from judge.endpoints.connection import BatchApi, read_lines, write_line
from judge.endpoints.lane import (
    CANCEL_SECONDS,
    KEPT_SECONDS,
    TAKE_OVER_FACTOR,
    BatchLane,
    BatchOptions,
    BatchRecord,
)
from judge.endpoints.openai_chat import OpenAIChat
from judge.errors import BatchMissedError, DrainingError
from judge.evaluate.evaluator import Evaluator
from schemas import JudgeTask
from tests.integration.deadlines import until
from tests.judge.batch_judge import BatchJudge
from tests.judge.fake_openai import fake_openai
from tests.judge.tasks import TONE, make_task

OPTIONS: Final = BatchOptions(
    close_after_seconds=0.2, give_up_after_seconds=600, max_requests=3, fast_share=0.2, call_seconds=5
)
REQUEST: Final = ChatRequest(TONE.prepare(make_task("tone")).messages)  # type: ignore[union-attr] # it asks


class Log:
    def __init__(self) -> None:
        self.records: dict[str, BatchRecord] = {}
        self.lanes: list[BatchLane] = []

    async def put(self, record: BatchRecord) -> None:
        self.records[record.key] = record
        await asyncio.sleep(0.1)
        for lane in self.lanes:
            lane.heard(record.key, record)

    async def drop(self, key: str) -> None:
        self.records.pop(key, None)
        for lane in self.lanes:
            lane.heard(key, None)


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


class Bench:
    def __init__(self, judge: BatchJudge) -> None:
        self.judge, self.log, self.clock, self.now = judge, Log(), Clock(), Clock()
        self.open = contextlib.AsyncExitStack()

    async def lane(
        self, *, hurried: Callable[[JudgeTask], bool] = lambda _: False, **given: Any
    ) -> BatchLane:
        chat = OpenAIChat(endpoint="offline", model=OFFLINE_MODEL, base_url=self.judge.base_url)
        self.open.push_async_callback(chat.close)
        options = replace(OPTIONS, **given)
        lane = BatchLane(chat, options, self.log, hurried=hurried, clock=self.clock, now=self.now)
        for key, record in self.log.records.items():
            lane.heard(key, record)
        self.log.lanes.append(lane)
        running = asyncio.create_task(lane.run())
        self.open.callback(running.cancel)
        return lane


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with BatchJudge() as judge:
        bench = Bench(judge)
        async with bench.open:
            yield bench


def numbered(number: int) -> JudgeTask:
    return make_task("tone").model_copy(update={"result_id": f"{number:032x}"})


def asked(lane: BatchLane, *numbers: int) -> list[asyncio.Task[ChatReply]]:
    return [asyncio.create_task(lane.ask(numbered(number), REQUEST)) for number in numbers]


async def test_a_batch_is_closed_when_it_is_full_or_old_enough(bench: Bench) -> None:
    lane = await bench.lane()
    replies = await asyncio.gather(*asked(lane, 1, 2, 3, 4, 4))
    assert [len(one.ids) for one in bench.log.records.values()] == [3, 1]
    assert {one.price_factor for one in replies} == {0.5}
    assert (bench.judge.answered, lane.waiting()) == (4, 0)


async def test_equal_tasks_get_equal_prompts_in_all_lanes() -> None:
    """At once, in the flex tier and in a batch: the same body but for the tier, and the same evaluator."""
    async with fake_openai() as server:
        chat = OpenAIChat(endpoint="e", model="m", base_url=server.url)
        flex = {"service_tier": "flex", "prompt_cache_key": "judge-1"}
        fast, slow = (Evaluator(TONE, chat, parameters={"seed": 7, **tier}) for tier in ({}, flex))
        lines: list[bytes] = []

        async def in_batch(request: ChatRequest) -> ChatReply:
            lines.append(write_line("id", chat.body(request)))
            return await chat.complete(request)

        for judge, ask in ((fast, None), (slow, None), (fast, in_batch)):
            await judge.judge(make_task("tone"), ask)
        await chat.close()
    single, tier, again = server.requests
    assert orjson.loads(lines[0])["body"] == single == again
    assert tier == single | flex
    assert fast.evaluator == slow.evaluator


async def test_a_suspicion_empties_the_lane(bench: Bench) -> None:
    suspicions: list[int] = []
    lane = await bench.lane(hurried=lambda _: bool(suspicions), close_after_seconds=2)
    waiting = asked(lane, 1)
    suspicions.append(1)
    with pytest.raises(BatchMissedError):
        await waiting[0]
    assert not bench.log.records


async def test_the_first_record_of_a_request_holds_it(bench: Bench) -> None:
    """Two workers have the same task, as after a lost session: one batch has it, both get its reply."""
    lanes = [await bench.lane(), await bench.lane()]
    await asyncio.gather(*asked(lanes[0], 1, 2), *asked(lanes[1], 2, 5))
    assert bench.judge.answered == 3
    # A successor reads the compacted log: the first one may stand after a record that did not hold it.
    first, second = sorted(bench.log.records.values(), key=lambda one: len(one.ids))
    assert (len(first.ids), len(second.ids)) == (1, 2)
    wrong = replace(first, ids=(*first.ids, numbered(2).result_id), batch_id="")
    bench.log.records = {first.key: wrong, second.key: second}
    await asyncio.gather(*asked(await bench.lane(), 2))
    assert bench.judge.answered == 3


@pytest.mark.parametrize("exists", [False, True])
async def test_a_batch_without_an_id_is_looked_for(bench: Bench, exists: bool) -> None:
    """Its creator died: after a time others list the batches; without one the request was not sent."""
    lane, key = await bench.lane(), "k1"
    await bench.log.put(BatchRecord(key, "offline", (numbered(1).result_id,), bench.now()))
    (waiting,) = asked(lane, 1)
    if exists:
        chat = OpenAIChat(endpoint="offline", model=OFFLINE_MODEL, base_url=bench.judge.base_url)
        api = BatchApi(chat)
        file_id = await api.upload([write_line(numbered(1).result_id, chat.body(REQUEST))])
        await api.create(file_id, key)
        for number in range(150):  # on the second page
            await api.create(file_id, f"other-{number}")
        await chat.close()
    await asyncio.sleep(0.3)
    assert not waiting.done()
    bench.clock.ahead = TAKE_OVER_FACTOR * OPTIONS.call_seconds
    if exists:
        assert (await waiting).price_factor == 0.5
    else:
        with pytest.raises(BatchMissedError):
            await waiting
    assert set(bench.log.records) == ({key} if exists else set())


async def test_who_reads_a_task_again_finds_its_batch(bench: Bench) -> None:
    bench.judge.batches.seconds = 600
    first = await bench.lane()
    waiting = asked(first, 1, 2)
    await until(lambda: any(one.batch_id for one in bench.log.records.values()), "a batch")
    first.drain(close=True)
    for one in (*waiting, *asked(first, 3)):
        with pytest.raises(DrainingError):
            await one
    bench.judge.batches.due_at = dict.fromkeys(bench.judge.batches.batches, 0.0)
    second = await bench.lane()
    await asyncio.gather(*asked(second, 1, 2))
    assert bench.judge.answered == 2
    bench.now.ahead = OPTIONS.give_up_after_seconds + CANCEL_SECONDS + KEPT_SECONDS
    await until(lambda: not (bench.log.records or bench.judge.batches.files), "deleted record and files")


async def test_what_a_cancelled_batch_does_not_answer_is_missed(bench: Bench) -> None:
    """A provider that does not even end a cancelled batch is waited for no longer than its time."""
    bench.judge.batches.seconds = 600
    lane = await bench.lane()
    (waiting,) = asked(lane, 1)
    await until(lambda: any(one.batch_id for one in bench.log.records.values()), "a batch")
    (batch,) = bench.judge.batches.batches.values()
    batch["status"] = "validating"
    bench.now.ahead = OPTIONS.give_up_after_seconds + 1
    await asyncio.sleep(0.3)
    assert not waiting.done()
    bench.now.ahead += CANCEL_SECONDS
    with pytest.raises(BatchMissedError):
        await waiting


async def test_without_the_routes_all_is_asked_singly(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async with fake_openai() as server:
        bench.judge = cast("Any", SimpleNamespace(base_url=server.url))
        with pytest.raises(BatchMissedError):
            await asked(await bench.lane(), 1)[0]
    assert "answered 404. Check that it serves /files and /batches" in caplog.text
    assert not bench.log.records


def test_lines_that_say_no_one_thing_have_no_reply() -> None:
    def line(name: str, body: Any = 1, *, status: int = 200, error: Any = None) -> bytes:
        response = {"status_code": status, "body": body}
        return orjson.dumps({"custom_id": name, "response": response, "error": error})

    lines = [line("a"), line("b"), line("b"), line("c"), line("c", 2), line("c"), line("d", status=500)]
    lines += [line("e", error={"code": "x"}), line("g"), line("g", status=500)]
    lines += [b'{"custom_id": "f"', b"[]", b"{}"]
    assert read_lines(b"\n".join(lines)) == {"a": b"1", "b": b"1", "c": None, "d": None, "e": None, "g": None}
