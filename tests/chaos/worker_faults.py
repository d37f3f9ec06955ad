"""Workers that die, restart, freeze and join."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from tests.chaos import earlier
from tests.chaos.arena import JUDGE_TIMEOUT_SECONDS, PROGRAM, Arena
from tests.chaos.checker import Report
from tests.chaos.fault import fault
from tests.chaos.jumping_clock import JUMPED
from tests.chaos.processes import END_SECONDS, Worker
from tests.chaos.team import TEAM
from tests.integration.deadlines import until

KILL_EVERY_SECONDS = 2.0
SESSION_SECONDS = 3
NO_POISON = 10**9


@fault("none")
async def nothing_happens(arena: Arena) -> Report:
    """Without a fault nothing is lost, and nothing is written twice."""
    await arena.begin()
    report = await arena.verdict()
    assert report.duplicates == 0
    assert report.dead_letters == 0
    return report


@fault("poison events, 1 in 50", workers=1)
async def poison_events(arena: Arena) -> Report:
    """Every fiftieth record is not an event: each is set aside with its bytes, the others are judged."""
    await arena.start_workers(arena.crew)
    arena.start_feed(poison_every=50)
    report = await arena.verdict()
    assert report.outcomes["undecodable"] == arena.size.events // 50
    assert report.duplicates == 0
    return report


@fault("SIGKILL every few seconds", workers=3)
async def killed_again_and_again(arena: Arena) -> Report:
    """SIGKILL of one of three workers every few seconds; what it had in flight is done by another."""
    await arena.begin(session_seconds=SESSION_SECONDS, stretch=5)
    for worker, _ in zip(itertools.cycle(arena.workers), range(arena.size.blows), strict=False):
        assert await worker.end(signal.SIGKILL) == -signal.SIGKILL
        await worker.start()
        await asyncio.sleep(KILL_EVERY_SECONDS)  # the fault's own rhythm
        await arena.judged(20)
    return await arena.verdict()


@fault("SIGKILL, a team's own metrics", workers=3, team=TEAM)
async def killed_amid_a_teams_metrics(arena: Arena) -> Report:
    """The same with labels, a pair, a conversation, a panel, a check and a function in a process of its own:
    no metric is judged less often, more often or under another id, and none fails for it.
    """
    arena.stage.changes["kafka.session_timeout_seconds"] = SESSION_SECONDS
    await arena.start_workers(arena.crew)
    arena.start_feed(stretch=5, poison_every=NO_POISON, talks=True)
    await arena.judged(20)
    for worker, _ in zip(itertools.cycle(arena.workers), range(arena.size.blows), strict=False):
        assert await worker.end(signal.SIGKILL) == -signal.SIGKILL
        await worker.start()
        await asyncio.sleep(KILL_EVERY_SECONDS)  # the fault's own rhythm
        await arena.judged(20)
    report = await arena.verdict()
    assert report.failed == set()
    return report


@fault("SIGKILL of all at once", workers=3)
async def all_killed(arena: Arena) -> Report:
    """SIGKILL of all workers in the same moment: nobody is left to take over, and those that start begin at
    what was committed.
    """
    await arena.begin(session_seconds=SESSION_SECONDS, stretch=3)
    for worker in arena.workers:
        os.kill(worker.pid, signal.SIGKILL)
    for worker in arena.workers:
        assert await worker.end(signal.SIGKILL) == -signal.SIGKILL
        await worker.start()
    return await arena.verdict()


async def _restart_one_after_the_other(arena: Arena, *, static: bool) -> Report:
    await arena.begin(static=static, stretch=3)
    for worker in arena.workers:
        assert await worker.end(signal.SIGTERM) == 0, worker.tail()
        await worker.start()
        await worker.reads()
        await arena.judged(20)
    report = await arena.verdict()
    assert report.dead_letters == 0
    return report


@fault("rolling restart, dynamic membership", workers=3)
async def rolling_restart(arena: Arena) -> Report:
    """SIGTERM of three workers one after the other: each ends with 0, and the others continue."""
    return await _restart_one_after_the_other(arena, static=False)


@fault("rolling restart, static membership", workers=3)
async def rolling_restart_static(arena: Arena) -> Report:
    """The same where each keeps its place in the group while it is unavailable."""
    return await _restart_one_after_the_other(arena, static=True)


@fault("stop longer than the session")
async def slow_stop(arena: Arena) -> Report:
    """The calls under way at SIGTERM take longer than a session: they end, are published and committed."""
    arena.stage.changes["judge.timeout_seconds"] = 5 * SESSION_SECONDS
    arena.stage.changes["kafka.rebalance_timeout_seconds"] = 6 * SESSION_SECONDS
    await arena.judge.change(latency_seconds=1.5 * SESSION_SECONDS)
    await arena.begin(session_seconds=SESSION_SECONDS, stretch=3)
    worker = arena.workers[0]
    assert await worker.end(signal.SIGTERM) == 0, worker.tail()
    await arena.judge.change(latency_seconds=0.02)
    await worker.start()
    await worker.reads()
    report = await arena.verdict()
    assert report.dead_letters == 0
    # What ended behind a task that was abandoned unsent is done again.
    assert report.duplicates <= arena.stage.settings.judge.max_in_flight
    return report


@fault("SIGSTOP beyond the session")
async def zombie_wakes_up(arena: Arena) -> Report:
    """SIGSTOP for longer than the session timeout: the group continues without it, and what it does on waking
    is harmless.
    """
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
    """Two workers join one that cannot keep up: the judge is asked for three times as much at once, and
    nothing is done twice for it.
    """
    await arena.judge.change(latency_seconds=0.5 * JUDGE_TIMEOUT_SECONDS)
    await arena.begin(workers=1)
    await arena.start_workers(arena.crew - 1)
    at_once = arena.stage.settings.judge.max_in_flight

    async def all_judge() -> bool:
        await asyncio.sleep(0.1)  # each look costs the judge a request
        # Each has its fill, but for a few calls that have just ended.
        return await arena.judge.in_hand() > (arena.crew - 0.5) * at_once

    await until(all_judge, "all workers judge", deadline_seconds=arena.size.settle_seconds)
    await arena.judge.change(latency_seconds=0.02)
    report = await arena.verdict()
    assert report.dead_letters == 0
    return report


@fault("agents over processes, killed at random", workers=4)
async def split_agents_killed(arena: Arena) -> Report:
    """Intake, judging and monitoring in processes of their own, each killed in turn: each group continues
    where it was.
    """
    arena.stage.changes["kafka.session_timeout_seconds"] = SESSION_SECONDS
    await arena.start_workers(1, agents=("intake",))
    await arena.start_workers(2, agents=("judge",))
    await arena.start_workers(1, agents=("monitor",))
    arena.start_feed(stretch=4)
    await arena.judged(20)
    randomness = random.Random(arena.size.blows)
    for _ in range(arena.size.blows):
        worker = randomness.choice(arena.workers)
        assert await worker.end(signal.SIGKILL) == -signal.SIGKILL
        await worker.start()
        await asyncio.sleep(KILL_EVERY_SECONDS)  # the fault's own rhythm
    for worker in arena.workers:
        await worker.reads()
    return await arena.verdict()


@fault("clock jumps")
async def clock_jumps(arena: Arena) -> Report:
    """The clock of one of two workers is set forward by an hour, then back by a day: nothing hangs on it."""
    await arena.start_workers(1)
    await arena.start_workers(1, program=(sys.executable, "-m", "tests.chaos.jumping_clock"))
    arena.start_feed(stretch=3)
    jumper = arena.workers[1]
    for jump in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
        await arena.judged(20)
        os.kill(jumper.pid, jump)
    await arena.judged(20)
    report = await arena.verdict()
    seen = [datetime.fromisoformat(line.split()[-1]) for line in jumper.lines(JUMPED)]
    hours = [round((one - datetime.now(UTC)).total_seconds() / 3600) for one in seen]
    assert hours == [1, -23, -22]
    assert report.duplicates == 0
    assert report.dead_letters == 0
    return report


@fault("mixed settings", workers=3)
async def mixed_settings(arena: Arena) -> Report:
    """Three workers of one group, each with time-outs and limits of its own, and then with another one's."""
    mixture = (
        {"KAFKA__SESSION_TIMEOUT_SECONDS": "6", "KAFKA__COMMIT_INTERVAL_SECONDS": "2"},
        {"KAFKA__GROUP_INSTANCE_ID": "static", "JUDGE__MAX_IN_FLIGHT": "2"},
        {
            "KAFKA__REBALANCE_TIMEOUT_SECONDS": "20",
            "KAFKA__METADATA_AGE_SECONDS": "30",
            "JUDGE__HEDGE_AFTER_SECONDS": "0.5",
        },
    )
    for own in mixture:
        await arena.start_workers(1, own=own)
    arena.start_feed(stretch=3)
    await arena.judged(20)
    for worker, other in zip(
        arena.workers, (arena.workers[1], arena.workers[2], arena.workers[0]), strict=True
    ):
        assert await worker.end(signal.SIGTERM) == 0, worker.tail()
        worker.environment = {**other.environment, "JUDGESTREAM_KAFKA__GROUP_INSTANCE_ID": worker.name}
        await worker.start()
        await worker.reads()
        await arena.judged(20)
    report = await arena.verdict()
    assert report.dead_letters == 0
    return report


@fault("mixed versions", workers=3)
async def mixed_versions(arena: Arena) -> Report:
    """Workers of an earlier version give way to this one, one after the other, and one goes back."""
    before = await asyncio.to_thread(earlier.program, arena.directory)
    old, new = arena.write_settings("earlier.yaml", left_out=earlier.UNKNOWN), arena.write_settings()
    await arena.start_workers(arena.crew, program=before, settings=old)
    arena.start_feed(stretch=4)
    await arena.judged(20)
    for worker in arena.workers:
        await _change_program(arena, worker, [str(PROGRAM), "worker", "--config", str(new)])
    await _change_program(arena, arena.workers[0], [*before, "worker", "--config", str(old)])
    report = await arena.verdict()
    assert report.dead_letters == 0
    return report


async def _change_program(arena: Arena, worker: Worker, command: Sequence[str]) -> None:
    assert await worker.end(signal.SIGTERM) == 0, worker.tail()
    worker.command = command
    await worker.start()
    await worker.reads()
    await arena.judged(20)


@fault("two workers with one instance id")
async def one_place_for_two(arena: Arena) -> Report:
    """The second takes the place, the first ends with the cause: nothing is read twice for more than what was
    in flight.
    """
    arena.stage.changes["kafka.group_instance_id"] = "the-same"
    await arena.start_workers(1)
    arena.start_feed(stretch=2)
    await arena.judged(20)
    await arena.start_workers(1)
    first = arena.workers[0]
    assert first.process is not None
    assert await asyncio.wait_for(first.process.wait(), END_SECONDS) == 1
    arena.gone.append(first)
    assert first.lines("with the same kafka.group_instance_id (the-same)")
    report = await arena.verdict()
    assert report.duplicates <= report.results
    return report


@fault("offsets reset to the beginning", workers=1)
async def offsets_reset(arena: Arena) -> Report:
    """An operator sets the group back while its worker is unavailable: everything comes again, under the same
    result ids.
    """
    await arena.begin()
    worker = arena.workers[0]
    await arena.judged(100)
    assert await worker.end(signal.SIGTERM) == 0, worker.tail()
    await arena.reset_offsets()
    await worker.start()
    await worker.reads()
    report = await arena.verdict()
    assert report.duplicate_tasks > 0
    assert report.dead_letters == 0
    return report
