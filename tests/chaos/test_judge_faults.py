"""A judge that hangs, refuses, is gone or is slow: everything waits for it, nothing is set aside."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.chaos.arena import Arena
from tests.chaos.conftest import Verdict
from tests.integration.deadlines import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]


@pytest.mark.parametrize("mode", ["hang", "refuse"])
async def test_the_judge_does_not_answer(arena: Arena, verdict: Verdict, mode: str) -> None:
    """For some seconds requests are taken and never answered, or refused with 503."""
    await arena.start_workers(2)
    arena.start_feed()
    await arena.judged(20)
    await arena.judge.change(mode=mode)
    await asyncio.sleep(6)  # the fault's own length: longer than one call may take
    await arena.judge.change(mode="answer")
    report = await verdict(f"judge {'hangs' if mode == 'hang' else 'refuses (503)'}")
    assert report.dead_letters == 0


async def test_the_judge_is_gone(arena: Arena, verdict: Verdict) -> None:
    """Its process is killed, and started again at the same address."""
    await arena.start_workers(2)
    arena.start_feed()
    await arena.judged(20)
    await arena.judge.kill()
    await asyncio.sleep(6)  # the fault's own length
    await arena.judge.start()
    report = await verdict("judge killed and started")
    assert report.dead_letters == 0


async def test_the_judge_is_slow(arena: Arena, verdict: Verdict) -> None:
    """Each verdict takes 2 of the 3 seconds it may take, until all events are there."""
    await arena.start_workers(2)
    await arena.judge.change(latency_seconds=2.0)
    arena.start_feed()
    await until(lambda: not arena.feeding, "the feed's end", deadline_seconds=300)
    await arena.judge.change(latency_seconds=0.02)
    report = await verdict("judge slow")
    assert report.dead_letters == 0


async def test_the_judge_is_gone_while_workers_restart(arena: Arena, verdict: Verdict) -> None:
    """Workers that wait for a judge end in order when asked to; what they held is judged once it is back."""
    await arena.start_workers(2)
    arena.start_feed()
    await arena.judged(20)
    await arena.judge.kill()
    for worker in arena.workers:
        assert await worker.end(signal.SIGTERM) == 0, worker.tail()
        await worker.start()
    await arena.judge.start()
    report = await verdict("judge killed, workers restarted")
    assert report.dead_letters == 0
