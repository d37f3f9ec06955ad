"""A judge that hangs, refuses, is gone or is slow: everything waits for it, nothing is set aside."""

from __future__ import annotations

import asyncio
import signal

from tests.chaos.arena import JUDGE_TIMEOUT_SECONDS, Arena
from tests.chaos.checker import Report
from tests.chaos.fault import fault

OUTAGE_SECONDS = 2.5 * JUDGE_TIMEOUT_SECONDS
"""Longer than one call may take, so that calls fail and are made anew."""


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
