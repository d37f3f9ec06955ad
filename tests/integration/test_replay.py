"""Past events are judged again beside the live stream, by real processes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from schemas import QAEvent, Scored
from streams.batch.plan import Plan
from streams.cli.past import judge_past, plan_of
from streams.cli.running import BadUsageError
from streams.cli.session import Session
from streams.intake.selector import sampling_policy
from streams.store.agent import StoreWriter
from tests.integration.deadlines import until
from tests.integration.processes import process
from tests.integration.stage import PACK, Stage, event
from tests.judge.fake_openai import completed, serving_completions
from tests.streams.cli.processes import Ended, Service, running
from tests.streams.results import at
from tests.streams.store.records import batch_of
from tests.streams.store.views.serving import alert

EVENTS = 300
LIVE, NEW = "live-model", "new-model"


class Judges:
    """Two models at one endpoint: the new one scores one point less for an even number."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.told: set[str] = set()
        self.held = asyncio.Event()
        self.held.set()
        self.hold_after: int | None = None
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        model, text = body["model"], "\n".join(one["content"] for one in body["messages"])
        self.asked[model] += 1
        self.told.add(str(body["messages"][0]["content"]))
        if self.hold_after is not None and self.asked[NEW] > self.hold_after:
            await self.held.wait()
        number = int(text.rsplit("So ", 1)[1].split(".")[0])
        score = 4 - (model == NEW and number % 2 == 0)
        said = hashlib.sha256(text.encode()).digest()[0] % 40  # varies the length of replies
        reply = json.dumps({"score": score, "justification": model})
        return completed(reply, model=model, tokens=(len(text) // 4, 20 + said))


@pytest.fixture
async def judges() -> AsyncIterator[Judges]:
    judges = Judges()
    async with serving_completions(judges.answer) as judges.url:
        yield judges
        judges.held.set()


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path, judges: Judges) -> Stage:
    price = {"input": 1.0, "output": 10.0}
    endpoints = [
        {"name": name, "base_url": judges.url, "model": model, "usd_per_million_tokens": price}
        for name, model in (("live", LIVE), ("new", NEW))
    ]
    changes = {"judge.endpoints": endpoints, "judge.max_in_flight": 40, "sampling": {"default_rate": 0.9}}
    return Stage(bootstrap_servers, tmp_path, changes=changes)


def events(first: int, count: int) -> list[bytes]:
    return [event(n, question="Why? " * (1 + n * 7 % 50)) for n in range(first, first + count)]


def replay(stage: Stage, *options: str) -> AbstractAsyncContextManager[Service]:
    return running("replay", "--config", str(stage.write_settings()), "--yes", "--json", *options)


def report_of(ended: Ended, *, code: int = 0) -> dict[str, Any]:
    assert ended.code == code, ended.err
    report: dict[str, Any] = json.loads(ended.out)
    return report


async def replayed_now(stage: Stage, *options: str, code: int = 0) -> dict[str, Any]:
    async with replay(stage, *options) as command:
        return report_of(await command.end(), code=code)


async def published(stage: Stage) -> list[Scored]:
    results = await stage.results()
    assert all(isinstance(one, Scored) for one in results), results[:1]
    return [one for one in results if isinstance(one, Scored)]


def sampled(stage: Stage, values: Sequence[bytes]) -> list[str]:
    policy = sampling_policy(stage.settings.sampling)
    read = map(QAEvent.model_validate_json, values)
    return [one.event_id for one in read if policy.decide_event(one, None).keep]


async def judged_live(stage: Stage, values: Sequence[bytes]) -> list[Scored]:
    await stage.produce(values)
    async with stage.worker(None):
        await stage.holds(at_least=True, observations=len(sampled(stage, values)))
    return await published(stage)


@pytest.mark.kafka  # too slow for `make test`
async def test_a_killed_replay_resumes_and_judges_each_event_once(stage: Stage, judges: Judges) -> None:
    """Events after --to are judged live meanwhile, once each, and no replayed result is observed."""
    since = datetime.now(UTC).isoformat()
    live = await judged_live(stage, events(0, EVENTS))
    until_ = datetime.now(UTC).isoformat()

    options = ("--from", since, "--to", until_, "--metric", "tone", "--endpoint", "new", "--share", "0.5")
    judges.hold_after = len(live) // 2
    judges.held.clear()
    async with replay(stage, *options) as command:
        await until(lambda: judges.asked[NEW] > len(live) // 2 + 10, "half of the replay")
        killed = await command.stop(signal.SIGKILL)
    replay_id = killed.err.split(":")[0]
    assert replay_id.startswith("replay-"), killed.err
    judges.held.set()

    later = events(EVENTS, 20)  # after --to
    await stage.produce(later)
    async with process(stage):
        report = await replayed_now(stage, *options, "--resume", replay_id)
        await stage.holds(observations=len(live) + len(sampled(stage, later)))

    results = await published(stage)
    replayed = [one for one in results if one.replay_id == replay_id]
    assert Counter(one.event_id for one in replayed) == Counter(one.event_id for one in live)
    assert {one.result_id for one in replayed}.isdisjoint(one.result_id for one in live)
    assert {one.evaluator.model for one in replayed} == {NEW}
    once = Counter(one.event_id for one in results if one.replay_id is None)
    assert once == Counter([*(one.event_id for one in live), *sampled(stage, later)])
    assert report["end"] == "done"
    spent = sum(one.cost_usd or 0 for one in replayed)
    assert report["spent"]["cost_usd"] == pytest.approx(spent)
    estimate = report["estimate"]  # of what was left
    assert estimate["output_tokens"] == estimate["results"] * 400  # replies are short here
    assert estimate["cost_usd"] > spent * estimate["results"] / len(live)
    (comparison,) = report["comparisons"]
    even = sum(int(one.event_id[1:]) % 2 == 0 for one in live)
    assert (comparison["pairs"], comparison["worse"], comparison["better"]) == (len(live), even, 0)
    assert comparison["difference"] == pytest.approx(-even / len(live))
    assert comparison["disagreements"][0]["why_before"] == LIVE
    assert comparison["disagreements"][0]["why_now"] == NEW


@pytest.mark.slow
async def test_a_replay_prints_an_estimate_and_stops_at_its_budget(
    stage: Stage, judges: Judges, tmp_path: Path
) -> None:
    """Ctrl-C ends it after its calls in flight; --resume completes all events of the file."""
    since = datetime.now(UTC).isoformat()
    live = await judged_live(stage, events(0, 60))
    cost = sum(one.cost_usd or 0 for one in live)

    report = await replayed_now(stage, "--from", since, "--max-usd", str(cost / 2), code=1)
    assert report["end"] == "max_usd"
    assert report["estimate"]["output_tokens"] == len(live) * 400
    assert report["estimate"]["cost_usd"] > cost
    assert cost / 4 < report["spent"]["cost_usd"] < 1.2 * cost / 2
    replayed = [one for one in await published(stage) if one.replay_id == report["replay_id"]]
    assert len(replayed) == sum(report["results"]["tone"].values())

    (tmp_path / "again.jsonl").write_bytes(b"\n".join(events(0, 50)))
    judges.hold_after = 10
    judges.held.clear()
    options = ("--events", str(tmp_path / "again.jsonl"), "--endpoint", "new")
    async with replay(stage, *options) as command:
        await until(lambda: judges.asked[NEW] > 10, "calls under way")
        stopping = asyncio.create_task(command.stop(signal.SIGINT))
        await asyncio.sleep(0)  # the signal is sent before the calls may end
        judges.held.set()
        report = report_of(await stopping, code=130)
    assert report["end"] == "stopped"
    report = await replayed_now(stage, *options, "--resume", report["replay_id"])
    assert report["results"] == {"tone": {"scored": 50}}
    assert report["comparisons"][0]["pairs"] == len(
        {one.event_id for one in live} & {f"e{n}" for n in range(50)}
    )


async def test_an_incident_is_judged_again_with_other_prompts(
    stage: Stage, judges: Judges, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the events of the incident's time and labels are judged again, by its metric, with the pack and at
    most at the rate. Events 0 to 39 come a second apart; those with even numbers are of app a. The drop of a
    started at 10 and ended at 30: ten events.
    """
    stage.changes["sampling"] = {"default_rate": 1}
    stage.changes["store"] = {"path": str(stage.directory / "store.sqlite3")}
    stage.metrics = ("tone", "style")
    of_app: dict[str, Any] = {"metric": "tone", "labels": {"app": "a"}}
    alerts = [alert("1", 20, started=10, **of_app), alert("2", 30, kind="recovered", **of_app)]
    writer = StoreWriter(stage.settings.store.path)
    writer.write(batch_of(*alerts))
    writer.close()
    for number, value in enumerate(events(0, 40)):
        labelled = json.dumps({**json.loads(value), "labels": {"app": "ab"[number % 2]}})
        await stage.produce([labelled.encode()], timestamp_ms=round(at(number).timestamp() * 1000))
    pack = stage.directory / "kinder.md"
    pack.write_text(PACK.replace("Score the tone.", "Score how kind it is."), encoding="utf-8")
    where = Session(stage.settings)

    known = plan_of(Plan(incident="100000000000"), where)
    assert (known.since, known.until, known.metrics) == (at(10), at(30), ("tone",))
    plan = plan_of(Plan(incident="100000000000", pack=pack, endpoint="new", per_second=20), where)
    began = time.monotonic()
    await judge_past(where, plan, asyncio.Event(), resume=None, yes=True, as_json=True)
    assert time.monotonic() - began >= 9 / 20  # ten results, the first at once

    report = json.loads(capsys.readouterr().out)
    assert report["results"] == {"tone": {"scored": 10}}
    replayed = await published(stage)
    assert {one.event_id for one in replayed} == {f"e{number}" for number in range(10, 30, 2)}
    assert {(one.metric, one.replay_id, one.evaluator.model) for one in replayed} == {
        ("tone", report["replay_id"], NEW)
    }
    (told,) = judges.told
    assert "Score how kind it is." in told
    with pytest.raises(BadUsageError, match=r"there is no incident 'x'; the store has 100000000000"):
        plan_of(Plan(incident="x"), where)
