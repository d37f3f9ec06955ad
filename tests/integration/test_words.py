"""A judge that changes its mind in the middle is named by the alarm, over a broker and whole workers."""

from __future__ import annotations

import signal
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from judge.endpoints.clients import ScriptedChat
from streams.monitoring import partitions
from tests.integration.deadlines import until
from tests.integration.processes import SOON_MISSED, Endpoint, process
from tests.integration.stage import Stage, event

CALM, AFTER = 400, 360


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    changes = {"monitor": {"labels": [], "baseline_samples": 20}, "judge.budget.calls_per_day": CALM + AFTER}
    return Stage(bootstrap_servers, tmp_path, changes=changes)


@pytest.mark.slow
async def test_an_alarm_says_that_the_judge_moved(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge gives 4 and 5 in turn, and 2 and 3 once it has become stricter.

    160 old answers are judged again, each once, beside the budget of live ones, which they exhaust.

    The worker stops between alarm and word; the next one writes only what is not written.
    """
    monkeypatch.setattr(partitions, "LOOK_SECONDS", 0.2)
    calls, stricter = count(1), 0
    chat = ScriptedChat(lambda _: f'{{"score": {4 + next(calls) % 2 - stricter}}}')
    async with stage.worker(chat):
        await stage.produce([event(number) for number in range(CALM)])
        await stage.holds(scores=CALM, observations=CALM)
        stricter = 2
        await stage.produce([event(number) for number in range(CALM, CALM + 60)])
        await stage.holds(at_least=True, alerts=1, tasks_tone=CALM + 61)
    async with stage.worker(chat):
        await stage.produce([event(number) for number in range(CALM + 60, CALM + AFTER)])
        await named(stage)


@pytest.mark.slow
async def test_a_sigkill_amid_the_burst_has_no_task_written_twice(stage: Stage, endpoint: Endpoint) -> None:
    """The worker is killed while old answers are being judged; the next one finishes, and says the word."""
    stage.base_url = endpoint.url
    stage.changes |= SOON_MISSED
    endpoint.reply = lambda call, _: f'{{"score": {4 + call % 2 - 2 * (call > CALM)}}}'
    async with process(stage) as worker:
        await stage.produce([event(number) for number in range(CALM)])
        await stage.holds(scores=CALM, observations=CALM)
        await stage.produce([event(number) for number in range(CALM, CALM + 60)])
        await until(lambda: endpoint.answered >= CALM + 60 + 20, "some old answers judged again")
        await worker.end(signal.SIGKILL)
    async with process(stage):
        await stage.produce([event(number) for number in range(CALM + 60, CALM + AFTER)])
        await named(stage)


async def named(stage: Stage) -> None:
    """Wait for the word, which is that the judge moved; every old answer was asked for once."""

    async def explained() -> bool:
        return any(alert.word is not None for alert in await stage.alerts())

    await until(explained, "an alert has its word", deadline_seconds=90)
    said = [alert for alert in await stage.alerts() if alert.word is not None]
    word = said[0].word
    assert word is not None
    # By chance the product's interval excludes 0 in one of eighty runs; the judge's never has 0.
    assert word.said in ("judge", "both")
    assert word.judge is not None
    assert word.judge.low > 1.5
    assert len({alert.alert_id for alert in said}) == 1
    tasks = Counter(task.result_id for task in await stage.tasks("tone") if task.replay_id is not None)
    assert (len(tasks), set(tasks.values())) == (160, {1})
    again = [result for result in await stage.results() if result.replay_id is not None]
    assert {result.result_id for result in again} == set(tasks)
