"""A judge that hangs, refuses, is gone or is slow: everything waits for it, nothing is set aside."""

from __future__ import annotations

import asyncio
import signal

from tests.chaos.arena import JUDGE_TIMEOUT_SECONDS, Arena
from tests.chaos.checker import Report, expected
from tests.chaos.fault import fault
from tests.chaos.feed import POISON_EVERY, event

OUTAGE_SECONDS = 2.5 * JUDGE_TIMEOUT_SECONDS
"""Longer than one call may take, so that calls fail and are repeated."""

FAILED_BEFORE_DOUBT = 10
"""Failed verdicts that a worker publishes before it takes the judge for the cause: five in a row, and as many
again where a good one comes in between."""


async def _all_judged(arena: Arena) -> Report:
    report = await arena.verdict()
    assert report.dead_letters == 0
    return report


async def _away(arena: Arena, mode: str) -> Report:
    await arena.begin(stretch=2)
    await arena.judge.change(mode=mode)
    await asyncio.sleep(OUTAGE_SECONDS)  # the fault's own length
    await arena.judge.change(mode="answer")
    return await _all_judged(arena)


@fault("judge hangs")
async def judge_hangs(arena: Arena) -> Report:
    """For some seconds requests are taken and never answered."""
    return await _away(arena, "hang")


@fault("judge refuses (503)")
async def judge_refuses(arena: Arena) -> Report:
    """For some seconds every request is answered 503."""
    return await _away(arena, "refuse")


@fault("judge never answers 1 event in 20")
async def some_hang(arena: Arena) -> Report:
    """Those end as failed, each of them and no other; the others are judged meanwhile."""
    await arena.judge.change(hang_every=20)
    await arena.begin()
    report = await _all_judged(arena)
    numbers = range(0, arena.size.events, 20)
    assert report.failed == {
        (f"event-{number}", metric)
        for number in numbers
        for metric in expected(event(number, POISON_EVERY), arena.policy)[1]
    }
    return report


@fault("judge babbles")
async def judge_babbles(arena: Arena) -> Report:
    """For some seconds no reply is a verdict: all but the few that show it are judged when that is over."""
    await arena.begin(stretch=2)
    await arena.judge.change(mode="babble")
    await asyncio.sleep(OUTAGE_SECONDS)  # the fault's own length
    await arena.judge.change(mode="answer")
    report = await _all_judged(arena)
    assert len(report.failed) <= arena.crew * FAILED_BEFORE_DOUBT
    return report


@fault("single refusals")
async def single_refusals(arena: Arena) -> Report:
    """Amid good replies one request each is answered 401, 403, 404 and 302: no worker ends for it."""
    await arena.begin()
    for status in (401, 403, 404, 302):
        await arena.judge.change(once=[status])
        await arena.judged(20)
    report = await _all_judged(arena)
    assert not report.failed
    assert all(worker.restarts == 0 for worker in arena.workers)
    return report


@fault("judge killed and started")
async def judge_gone(arena: Arena) -> Report:
    """Its process is killed, and started again at the same address."""
    await arena.begin(stretch=2)
    await arena.judge.kill()
    await asyncio.sleep(OUTAGE_SECONDS)  # the fault's own length
    await arena.judge.start()
    return await _all_judged(arena)


@fault("judge slow")
async def judge_slow(arena: Arena) -> Report:
    """Each verdict takes three quarters of the time it may take, until all events are there."""
    await arena.judge.change(latency_seconds=0.75 * JUDGE_TIMEOUT_SECONDS)
    await arena.begin(stretch=2)
    await arena.fed()
    await arena.judge.change(latency_seconds=0.02)
    return await _all_judged(arena)


@fault("judge killed, workers restarted")
async def judge_gone_while_workers_restart(arena: Arena) -> Report:
    """Workers that wait for a judge end in order when asked to; what they held is judged once it is back."""
    await arena.begin(stretch=3)
    await arena.judge.kill()
    await asyncio.sleep(OUTAGE_SECONDS)  # until they have understood that it is gone
    for worker in arena.workers:
        assert await worker.end(signal.SIGTERM) == 0, worker.tail()
        await worker.start()
    await arena.judge.start()
    return await _all_judged(arena)
