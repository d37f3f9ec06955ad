from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime

from tests.chaos.arena import JUDGE_TIMEOUT_SECONDS, Arena, fault
from tests.chaos.checker import Report
from tests.chaos.jumping_clock import JUMPED
from tests.chaos.team import TEAM
from tests.integration.deadlines import until

KILL_EVERY_SECONDS = 2.0
SESSION_SECONDS = 3
NO_POISON = 10**9


async def _kill_in_turn(arena: Arena) -> None:
    for worker, _ in zip(itertools.cycle(arena.workers), range(arena.size.blows), strict=False):
        await worker.restart(signal.SIGKILL)
        await asyncio.sleep(KILL_EVERY_SECONDS)  # part of the fault
        await arena.judged(20)


@fault("none")
async def nothing_happens(arena: Arena) -> Report:
    """Without a fault nothing is lost or written twice."""
    await arena.begin()
    return await arena.verdict(dead_letters=0, duplicates=0)


@fault("poison events, 1 in 50", workers=1)
async def poison_events(arena: Arena) -> Report:
    """Every fiftieth record is no event: it becomes a dead letter with its bytes; the others are judged."""
    await arena.start_workers(arena.crew)
    arena.start_feed(poison_every=50)
    report = await arena.verdict(duplicates=0)
    assert report.outcomes["undecodable"] == arena.size.events // 50
    return report


@fault("SIGKILL every few seconds", workers=3)
async def killed_again_and_again(arena: Arena) -> Report:
    """SIGKILL of one of three workers every few seconds; another one does its work in flight."""
    await arena.begin(session_seconds=SESSION_SECONDS, stretch=5)
    await _kill_in_turn(arena)
    return await arena.verdict()


@fault("SIGKILL, a team's own metrics", workers=3, team=TEAM)
async def killed_amid_a_teams_metrics(arena: Arena) -> Report:
    """The same with every kind of metric: no result is lost, repeated under another id, or failed."""
    arena.stage.changes["kafka.session_timeout_seconds"] = SESSION_SECONDS
    await arena.start_workers(arena.crew)
    arena.start_feed(stretch=5, poison_every=NO_POISON, talks=True)
    await arena.judged(20)
    await _kill_in_turn(arena)
    report = await arena.verdict()
    assert report.failed == set()
    return report


@fault("SIGKILL of all at once", workers=3)
async def all_killed(arena: Arena) -> Report:
    """SIGKILL of all workers at once: the new ones start at the committed offsets."""
    await arena.begin(session_seconds=SESSION_SECONDS, stretch=3)
    for worker in arena.workers:
        os.kill(worker.pid, signal.SIGKILL)
    for worker in arena.workers:
        await worker.restart(signal.SIGKILL)
    return await arena.verdict()


@fault("rolling restart", workers=3)
async def rolling_restart(arena: Arena) -> Report:
    """SIGTERM of three workers one after the other: each exits with 0, and the others continue."""
    await arena.begin(stretch=3)
    for worker in arena.workers:
        await arena.roll(worker)
    return await arena.verdict(dead_letters=0)


@fault("stop longer than the session")
async def slow_stop(arena: Arena) -> Report:
    """Calls in flight at SIGTERM take longer than a session: they end, are published and committed."""
    arena.stage.changes["judge.timeout_seconds"] = 5 * SESSION_SECONDS
    await arena.judge.change(latency_seconds=1.5 * SESSION_SECONDS)
    await arena.begin(session_seconds=SESSION_SECONDS, stretch=3)
    worker = arena.workers[0]
    assert await worker.end(signal.SIGTERM) == 0, worker.tail()
    await arena.judge.change(latency_seconds=0.02)
    await worker.start()
    await worker.reads()
    report = await arena.verdict(dead_letters=0)
    # Tasks that ended behind an abandoned one are repeated.
    assert report.duplicates <= arena.stage.settings.judge.max_in_flight
    return report


@fault("SIGSTOP beyond the session")
async def zombie_wakes_up(arena: Arena) -> Report:
    """The group continues without the worker, and its actions after SIGCONT do no harm."""
    await arena.begin(session_seconds=SESSION_SECONDS, stretch=3)
    zombie = arena.workers[0].pid
    os.kill(zombie, signal.SIGSTOP)
    try:
        stopped = time.monotonic()
        await until(
            lambda: time.monotonic() - stopped > SESSION_SECONDS + 1,
            "the session to run out",
            deadline_seconds=SESSION_SECONDS + 10,
        )
        await arena.judged(20)
    finally:
        os.kill(zombie, signal.SIGCONT)
    await arena.judged(20)
    return await arena.verdict()


@fault("workers join under load", workers=3)
async def workers_join(arena: Arena) -> Report:
    """Two join one that cannot keep up: the judge gets three times the calls, and nothing is repeated."""
    await arena.judge.change(latency_seconds=0.5 * JUDGE_TIMEOUT_SECONDS)
    await arena.begin(workers=1)
    await arena.start_workers(arena.crew - 1)
    at_once = arena.stage.settings.judge.max_in_flight

    async def all_judge() -> bool:
        await asyncio.sleep(0.1)  # each poll is a request to the judge
        # Each uses all its slots, except for calls that have just ended.
        return await arena.judge.in_hand() > (arena.crew - 0.5) * at_once

    await until(all_judge, "all workers judge", deadline_seconds=arena.size.settle_seconds)
    await arena.judge.change(latency_seconds=0.02)
    return await arena.verdict(dead_letters=0)


@fault("agents over processes, killed at random", workers=4)
async def split_agents_killed(arena: Arena) -> Report:
    """Intake, judge and monitor in processes of their own: each group continues from its offsets."""
    arena.stage.changes["kafka.session_timeout_seconds"] = SESSION_SECONDS
    await arena.start_workers(1, agents=("intake",))
    await arena.start_workers(2, agents=("judge",))
    await arena.start_workers(1, agents=("monitor",))
    arena.start_feed(stretch=4)
    await arena.judged(20)
    randomness = random.Random(arena.size.blows)
    for _ in range(arena.size.blows):
        worker = randomness.choice(arena.workers)
        await worker.restart(signal.SIGKILL)
        await asyncio.sleep(KILL_EVERY_SECONDS)  # part of the fault
    for worker in arena.workers:
        await worker.reads()
    return await arena.verdict()


@fault("clock jumps")
async def clock_jumps(arena: Arena) -> Report:
    """The clock of one of two workers jumps forward by an hour, then back by a day, without an effect."""
    await arena.start_workers(1)
    await arena.start_workers(1, program=(sys.executable, "-m", "tests.chaos.jumping_clock"))
    arena.start_feed(stretch=3)
    jumper = arena.workers[1]
    for jump in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
        await arena.judged(20)
        os.kill(jumper.pid, jump)
    await arena.judged(20)
    report = await arena.verdict(dead_letters=0, duplicates=0)
    seen = [datetime.fromisoformat(line.split()[-1]) for line in jumper.lines(JUMPED)]
    hours = [round((one - datetime.now(UTC)).total_seconds() / 3600) for one in seen]
    assert hours == [1, -23, -22]
    return report


@fault("mixed settings", workers=3)
async def mixed_settings(arena: Arena) -> Report:
    """Three workers of one group with different timeouts and limits, each then restarted with another's."""
    mixture = (
        {"KAFKA__SESSION_TIMEOUT_SECONDS": "6", "JUDGE__TIMEOUT_SECONDS": "5"},
        {"JUDGE__MAX_IN_FLIGHT": "2"},
        {"JUDGE__TIMEOUT_SECONDS": "20", "KAFKA__SESSION_TIMEOUT_SECONDS": "30"},
    )
    for own in mixture:
        await arena.start_workers(1, own=own)
    arena.start_feed(stretch=3)
    await arena.judged(20)
    for worker, other in zip(
        arena.workers, (arena.workers[1], arena.workers[2], arena.workers[0]), strict=True
    ):
        worker.environment = other.environment
        await arena.roll(worker)
    return await arena.verdict(dead_letters=0)


@fault("offsets reset to the beginning", workers=1)
async def offsets_reset(arena: Arena) -> Report:
    """The group is reset while its worker is down: everything is judged again under the same ids."""
    await arena.begin()
    worker = arena.workers[0]
    await arena.judged(100)
    assert await worker.end(signal.SIGTERM) == 0, worker.tail()
    await arena.reset_offsets()
    await worker.start()
    await worker.reads()
    report = await arena.verdict(dead_letters=0)
    assert report.duplicate_tasks > 0
    return report
