"""A budget, with a broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal

import aiohttp
import pytest

from schemas import QAEvent, Scored
from streams.intake.selector import sampling_policy
from streams.judging.allocation import Demand
from streams.judging.ledger import Account, Ledger, parse_entry
from streams.judging.rates import Rates, rates_record_kind
from tests.integration.deadlines import until
from tests.integration.processes import SOON_MISSED, Worker, process, running_endpoint
from tests.integration.stage import REPLY, Stage, decided, event
from tests.judge.scripted import ScriptedChat


def chat() -> ScriptedChat:
    return ScriptedChat(lambda _: REPLY, endpoint="scripted", model="m")


async def is_spent(session: aiohttp.ClientSession, what: str = "budget") -> bool:
    async with session.get("/readyz") as answer:
        return answer.status == 200 and f"{what} is spent" in await answer.text()


async def test_a_spent_budget_defers_and_loses_nothing(stage: Stage) -> None:
    """A worker that ends gives its lease back. With a spent budget the next one stays ready and says so."""
    stage.changes = {"judge.budget": {"calls_per_day": 5}}
    asked = chat()
    async with stage.worker(asked):
        await stage.produce([event(number) for number in range(3)])
        await until(lambda: len(asked.requests) == 3, "the first calls")
    async with stage.worker(asked) as (running, registry), aiohttp.ClientSession(running.url) as session:
        await stage.produce([event(number) for number in range(3, 12)])

        await until(lambda: is_spent(session), "a note that the budget is spent")
        spent = registry.get_sample_value(
            "judgestream_judge_budget_spent_ratio", {"period": "day", "cap": "all"}
        )
        assert spent == 1.0
        assert len(asked.requests) == 5
        started = asyncio.get_running_loop().time()
    # Deferred tasks do not delay the stop: it takes far less than the 20 s for work in flight.
    assert asyncio.get_running_loop().time() - started < 15
    assert len(await stage.results()) == 5
    ledger = Ledger()
    entries = [parse_entry(record.value) for record in await stage.read("budget")]
    held = [ledger.apply(entry) for entry in entries if entry.account.cap == "all"]
    assert (len(held) > 2, ledger.total[Account("all", "", "calls")]) == (True, 5)
    stage.changes = {}
    async with stage.worker(chat()):
        await stage.judges({f"e{number}" for number in range(12)})
    assert await stage.dead_letters() == []


async def test_a_falling_budget_lowers_the_rate_and_records_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `lower_rate` each event becomes a task with the rate in force or is skipped; none waits.

    It is as if 89.74% of the day had come: 90% spent are ahead by 2.5% of the rest, half a step too much.
    """
    monkeypatch.setattr(Demand, "by", lambda *_: 0.8974)
    stage.changes = {"judge.budget": {"calls_per_day": 10, "when_spent": "lower_rate"}}
    asked = chat()
    async with stage.worker(asked) as (_, registry):
        await stage.produce([event(number) for number in range(9)])
        await until(lambda: len(asked.requests) == 9, "most of the budget spent")
        await stage.holds(scores=9)
        await stage.produce([event(number) for number in range(100, 200)])
        await until(lambda: decided(registry).total() == 109, "all events decided upon")
        await until(lambda: len(asked.requests) == 10, "the last lease")
        assert decided(registry)["skipped", "not_sampled"]
    # Nine of ten calls are spent: the rate is at most a half, and one call is left.
    probabilities = {task.event_id: task.sampling.probability for task in await stage.tasks()}
    assert all(probabilities[f"e{number}"] in {1.0, 0.5} for number in range(9))
    later = {probability for name, probability in probabilities.items() if len(name) == 4}
    assert later
    assert max(later) <= 0.5
    assert len(asked.requests) == 10


@pytest.mark.slow
async def test_one_budget_holds_for_all_workers(stage: Stage) -> None:
    """Three workers, of which one is killed and one suspended, spend one budget: never more than it, and all
    but the leases that these two hold. Suspended, a worker is cut off: it spends nothing beyond its lease.

    A lease is 600 / 200 = 3 calls: 600 - 2 * 3 = 594, and 98% of the budget are 588. The suspended worker's
    calls in flight, 3 at most, time out and are repeated.
    """
    stage.changes |= {**SOON_MISSED, "judge.budget": {"calls_per_day": 600}}
    async with running_endpoint() as judge, contextlib.AsyncExitStack() as stack:
        stage.base_url = judge.url
        logs = [f"worker{number}.log" for number in range(3)]
        workers = [await stack.enter_async_context(process(stage, log=log)) for log in logs]
        # So many that no partition is empty at the end: each worker then has tasks that wait.
        await stage.produce([event(number) for number in range(2_000)])
        await until(lambda: judge.asked >= 150, "the first calls")
        workers[0].send_signal(signal.SIGKILL)
        await until(lambda: judge.asked >= 300, "further calls")
        workers[1].send_signal(signal.SIGSTOP)
        await until(lambda: judge.asked >= 594, "the rest", deadline_seconds=180)
        workers[1].send_signal(signal.SIGCONT)
        # A new worker knows what was spent before it.
        async with stage.worker(None) as (running, _), aiohttp.ClientSession(running.url) as session:
            await until(lambda: is_spent(session), "a note that the budget is spent")
        assert 594 <= judge.asked <= 603


async def test_a_spent_cap_holds_back_its_own_metric_and_label_value(stage: Stage) -> None:
    stage.metrics = ("tone", "style")
    caps = [{"by": "tenant", "metric": "tone", "calls_per_day": 3}, {"metric": "style", "calls_per_day": 7}]
    stage.changes = {"judge.budget": {"caps": caps}}
    async with stage.worker(chat()) as (running, registry), aiohttp.ClientSession(running.url) as session:
        tenants = "aaaaabbbbbcc"
        await stage.produce([event(n, labels={"tenant": tenant}) for n, tenant in enumerate(tenants)])
        await stage.holds(scores=3 + 3 + 2 + 7)
        assert await is_spent(session, "budget of style, tone by tenant")
        labels = {"period": "day", "cap": "style"}
        assert registry.get_sample_value("judgestream_judge_budget_spent_ratio", labels) == 1.0
    found = [(one.metric, one.labels["tenant"]) for one in await stage.results()]
    assert [found.count(("tone", tenant)) for tenant in "abc"] == [3, 3, 2]


async def test_two_judges_share_the_answers_of_a_metric(stage: Stage) -> None:
    """Each event has one result; half of them by both judges, in the worker's numbers as one mean."""
    async with running_endpoint() as small, running_endpoint() as large:
        small.reply = lambda *_: json.dumps({"score": 2})
        large.reply = lambda *_: json.dumps({"score": 4})
        urls = {"large": large.url, "small": small.url}
        endpoints = [{"name": name, "base_url": url, "model": name} for name, url in urls.items()]
        stage.changes = {
            "judge.endpoints": endpoints,
            "metrics.tone.endpoints": ["large"],
            "metrics.tone.two_phase": {"endpoint": "small", "strong_share": 0.5},
        }
        async with stage.worker(None) as (_, registry):
            await stage.produce([event(number) for number in range(60)])
            await stage.holds(scores=60)
            scores = [one.score for one in await stage.results() if isinstance(one, Scored)]
            assert (small.asked, large.asked, len(scores)) == (60, scores.count(4), 60)

            def window() -> dict[str, float]:
                found = registry.collect()
                samples = [one for family in found for one in family.samples]
                name = "judgestream_monitor_window_mean"
                return {one.labels["fingerprint"]: one.value for one in samples if one.name == name}

            await until(lambda: len(window()) == 2, "the means of both judges")
        results = await stage.results()
    assert len({one.result_id for one in results}) == 60
    phase = results[0].first_phase
    assert phase is not None
    assert 15 < large.asked < 45
    assert {one.sampling.probability for one in results} == {0.5}
    means = window()
    # The prediction begins with the cheap score, so the mean of 4 is near, not exact.
    assert means[phase.fingerprint] == pytest.approx(2)
    assert means[phase.strong] == pytest.approx(4, abs=0.5)


@pytest.mark.slow
async def test_all_workers_sample_by_the_published_rates(stage: Stage) -> None:
    """Each event is decided by the rates in force at its record's time, also when their publisher is killed.

    The log says afterwards which events must have tasks, with which probability: exactly these have them,
    also those that were read again after the kill.
    """
    rules = [{"name": "gold", "when": {"tier": "gold"}, "rate": 0.5}]
    sampling = {"budget": {"verdicts_per_day": 400_000}, "rules": rules}
    stage.changes = {**SOON_MISSED, "sampling": sampling}
    stage.constants = {
        f"streams.judging.rates.{name}_SECONDS": seconds
        for name, seconds in {"REPORT": 0.5, "SILENT": 3.0, "CHANGE": 2.0, "AGAIN": 2.0, "LEAD": 8.0}.items()
    }
    most, sent = stage.settings.sampling.most, 0

    async def log(kind: str) -> list[str]:
        records = [one for one in await stage.read("budget") if rates_record_kind(one.key) == kind]
        return [json.loads(one.value)["worker"] for one in records]

    async with running_endpoint() as judge, contextlib.AsyncExitStack() as stack:
        stage.base_url = judge.url
        workers, names = list[Worker](), list[str]()

        async def has_reported() -> bool:
            names.extend(dict.fromkeys(one for one in await log("report") if one not in names))
            return len(names) == len(workers)

        for _ in range(2):
            workers.append(await stack.enter_async_context(process(stage)))
            await until(has_reported, "a worker's report")
        first = names.index(min(names))

        async def feed(what: str, publisher: str, policies: int) -> None:
            nonlocal sent
            asked = judge.asked

            async def published() -> bool:
                nonlocal sent
                labels = [{"tier": "gold"} if n % 5 == 0 else {} for n in range(sent, sent + 40)]
                await stage.produce([event(sent + n, labels=one) for n, one in enumerate(labels)])
                sent += 40
                done = (await log("policy")).count(publisher)
                return done >= policies and judge.asked >= asked + 30

            await until(published, what)

        await feed("rates of the first publisher", names[first], 2)
        workers[first].send_signal(signal.SIGKILL)
        await feed("rates of the next publisher", names[1 - first], 3)

        known = Rates(most, limit=1, in_dollars=False, worker="", spent=lambda: 0.0)
        policy = sampling_policy(stage.settings.sampling)

        async def as_published() -> bool:
            for one in await stage.read("budget"):
                known.heard(one.key, one.value)
            wanted = {}
            for record in await stage.read("events"):
                decided = policy.decide_event(QAEvent.model_validate_json(record.value), record.key)
                decision = decided.lowered(*known.in_force(record.timestamp / 1000, decided.stratum))
                if decision.keep:
                    sampled = (float(decision.probability), decision.policy)
                    wanted[record.partition, record.offset] = sampled
            tasks = await stage.tasks()
            found = {
                (one.source.partition, one.source.offset): (one.sampling.probability, one.sampling.policy)
                for one in tasks
            }
            assert found.items() <= wanted.items()
            return found == wanted and len({policy for _, policy in found.values()}) > 1

        await until(as_published, "a task of each event in the sample")
    assert await stage.dead_letters() == []
