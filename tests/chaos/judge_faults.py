"""A judge that hangs, refuses, is down or slow: tasks wait, and nothing becomes a dead letter."""

from __future__ import annotations

import asyncio

from tests.chaos.arena import JUDGE_TIMEOUT_SECONDS, Arena, fault
from tests.chaos.checker import Report, expected
from tests.chaos.feed import POISON_EVERY, event

OUTAGE_SECONDS = 2.5 * JUDGE_TIMEOUT_SECONDS
"""Longer than the limit of a call, so that calls fail and are retried."""

FAILED_BEFORE_DOUBT = 10
"""Failed verdicts that a worker publishes before it blames the judge: five in a row, and as many again
if a good one comes between."""


async def _away(arena: Arena, mode: str) -> Report:
    await arena.begin(stretch=2)
    await arena.judge.change(mode=mode)
    await asyncio.sleep(OUTAGE_SECONDS)  # part of the fault
    await arena.judge.change(mode="answer")
    return await arena.verdict(dead_letters=0)


@fault("judge hangs")
async def judge_hangs(arena: Arena) -> Report:
    """For some seconds requests are accepted and never answered."""
    return await _away(arena, "hang")


@fault("judge refuses (503)")
async def judge_refuses(arena: Arena) -> Report:
    """For some seconds every request is answered with 503."""
    return await _away(arena, "refuse")


@fault("judge never answers 1 event in 20")
async def some_hang(arena: Arena) -> Report:
    """One event in 20 is never answered: exactly those fail, and the others are judged meanwhile."""
    await arena.judge.change(hang_every=20)
    await arena.begin()
    report = await arena.verdict(dead_letters=0)
    numbers = range(0, arena.size.events, 20)
    assert report.failed == {
        (f"event-{number}", metric)
        for number in numbers
        for metric in expected(event(number, POISON_EVERY), arena.policy)[1]
    }
    return report


@fault("judge babbles")
async def judge_babbles(arena: Arena) -> Report:
    """For some seconds no reply is a verdict: all but a few events are judged afterwards."""
    report = await _away(arena, "babble")
    assert len(report.failed) <= arena.crew * FAILED_BEFORE_DOUBT
    return report


@fault("single refusals")
async def single_refusals(arena: Arena) -> Report:
    """Among good replies one request each is answered with 401, 403, 404 and 302: no worker ends."""
    await arena.begin()
    for status in (401, 403, 404, 302):
        await arena.judge.change(once=[status])
        await arena.judged(20)
    report = await arena.verdict(dead_letters=0)
    assert not report.failed
    assert all(worker.restarts == 0 for worker in arena.workers)
    return report


@fault("judge killed and started")
async def judge_gone(arena: Arena) -> Report:
    """The judge is killed and restarted at the same address."""
    await arena.begin(stretch=2)
    await arena.judge.kill()
    await asyncio.sleep(OUTAGE_SECONDS)  # part of the fault
    await arena.judge.start()
    return await arena.verdict(dead_letters=0)


@fault("judge slow")
async def judge_slow(arena: Arena) -> Report:
    """Each verdict takes three quarters of its time limit until all events are produced."""
    await arena.judge.change(latency_seconds=0.75 * JUDGE_TIMEOUT_SECONDS)
    await arena.begin(stretch=2)
    await arena.feed.held_back()
    await arena.judge.change(latency_seconds=0.02)
    return await arena.verdict(dead_letters=0)


@fault("judge killed, workers restarted")
async def judge_gone_while_workers_restart(arena: Arena) -> Report:
    """Workers that wait for a judge end in order on SIGTERM; their tasks are judged when it is back."""
    await arena.begin(stretch=3)
    await arena.judge.kill()
    await asyncio.sleep(OUTAGE_SECONDS)  # until they notice that it is down
    for worker in arena.workers:
        await worker.restart()
    await arena.judge.start()
    return await arena.verdict(dead_letters=0)
