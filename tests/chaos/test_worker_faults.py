"""Workers that die, restart and freeze."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time

import pytest

from tests.chaos.arena import SESSION_SECONDS, Arena
from tests.chaos.conftest import Verdict
from tests.integration.deadlines import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

KILL_EVERY_SECONDS = 2.5


async def test_nothing_happens(arena: Arena, verdict: Verdict) -> None:
    """Without a fault nothing is lost, and nothing is written twice."""
    await arena.start_workers(2)
    arena.start_feed()
    report = await verdict("none")
    assert report.duplicates == 0
    assert report.dead_letters == 0


async def test_poison_events(arena: Arena, verdict: Verdict) -> None:
    """Every fiftieth record is no event: each is set aside with its bytes, the others are judged."""
    arena.poison_every = 50
    await arena.start_workers(1)
    arena.start_feed()
    report = await verdict("poison events, 1 in 50")
    assert report.outcomes["undecodable"] == arena.size.events // 50
    assert report.duplicates == 0


async def test_workers_are_killed_again_and_again(arena: Arena, verdict: Verdict) -> None:
    """SIGKILL of one of three workers every few seconds; what it had in hand is done by another."""
    await arena.start_workers(3)
    arena.start_feed(stretch=2)
    for worker in itertools.cycle(arena.workers):
        await arena.judged(20)
        assert await worker.end(signal.SIGKILL) == -signal.SIGKILL
        await worker.start()
        if not arena.feeding:
            break
        await asyncio.sleep(KILL_EVERY_SECONDS)  # the fault's own rhythm
    await verdict("SIGKILL every few seconds")


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
async def test_rolling_restart(arena: Arena, verdict: Verdict, static: bool) -> None:
    """SIGTERM of three workers one after the other: each ends with 0, and the others go on."""
    await arena.start_workers(3, static=static)
    arena.start_feed(stretch=2)
    for worker in arena.workers:
        await arena.judged(20)
        assert await worker.end(signal.SIGTERM) == 0, worker.tail()
        await worker.start()
        await worker.reads()
    await verdict(f"rolling restart, {'static' if static else 'dynamic'} membership")


async def test_a_zombie_wakes_up(arena: Arena, verdict: Verdict) -> None:
    """SIGSTOP for longer than the session timeout: the group goes on without it, and what it does on waking is harmless."""
    await arena.start_workers(2)
    arena.start_feed()
    await arena.judged(20)
    zombie = arena.workers[0].pid
    os.kill(zombie, signal.SIGSTOP)
    try:
        stopped = time.monotonic()
        await until(
            lambda: time.monotonic() - stopped > SESSION_SECONDS + 2,
            "the session to run out",
            deadline_seconds=SESSION_SECONDS + 10,
        )
        await arena.judged(20)
    finally:
        os.kill(zombie, signal.SIGCONT)
    await verdict("SIGSTOP beyond the session")
