"""Three brokers, of which one after the other fails: leaders, coordinator and controller move."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.chaos.arena import Arena
from tests.chaos.checker import Report
from tests.chaos.fault import fault
from tests.chaos.proxy import BOTH_WAYS, Way
from tests.integration.cluster import KafkaCluster

AWAY_SECONDS = 4.0
"""Longer than the cluster waits for a broker before another one leads in its place."""
SESSION_SECONDS = 20
"""Two thirds of the default, and longer than it takes to find out that a connection is half-open."""
HALF_OPEN_ROUNDS: Final[tuple[tuple[Way, ...], ...]] = (
    *(BOTH_WAYS, ("answers",), ("requests",)),
    *(("answers",), ("requests",), BOTH_WAYS),
    *(("requests",), BOTH_WAYS, ("answers",)),
)
"""What is lost at one broker after the other: in three rounds everything at each."""


def _cluster(arena: Arena) -> KafkaCluster:
    assert arena.cluster is not None, 'the fault needs access="cluster"'
    return arena.cluster


async def _verdict(arena: Arena) -> Report:
    report = await arena.verdict()
    assert report.dead_letters == 0
    for worker in arena.workers:
        assert not worker.lines("the log has become shorter"), worker.tail()
        assert not worker.lines("retention removed records"), worker.tail()
    return report


@fault("brokers killed in turn", access="cluster")
async def brokers_killed(arena: Arena) -> Report:
    """SIGKILL of each of three brokers, the controller among them.

    Each comes back before the next one goes.
    """
    cluster = _cluster(arena)
    await arena.begin(stretch=5)
    for node in cluster.nodes:
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(AWAY_SECONDS)  # the fault's own length
        await asyncio.to_thread(node.start)
        await arena.judged(20)
    return await _verdict(arena)


@fault("brokers paused in turn", access="cluster")
async def brokers_paused(arena: Arena) -> Report:
    """SIGSTOP of each for this long that others lead in its place.

    On waking it still believes that it leads, with a shorter log.
    """
    cluster = _cluster(arena)
    await arena.begin(stretch=6)
    for number in range(max(arena.size.blows, len(cluster.nodes))):
        node = cluster.nodes[number % len(cluster.nodes)]
        node.pause()
        await asyncio.sleep(AWAY_SECONDS)  # the fault's own length
        node.resume()
        await arena.judged(20)
    return await _verdict(arena)


@fault("brokers half-open in turn", access="proxied cluster")
async def brokers_half_open(arena: Arena) -> Report:
    """Each of three takes connections, and what comes over them, or its answers, or both are lost.

    The other brokers hear it, so it continues leading: nobody takes over, and what was written may be there.
    """
    await arena.begin(stretch=5, session_seconds=SESSION_SECONDS)
    for number, lost in enumerate(HALF_OPEN_ROUNDS[: max(arena.size.blows, len(arena.proxies))]):
        proxy = arena.proxies[number % len(arena.proxies)]
        proxy.go_half_open(lost)
        await asyncio.sleep(AWAY_SECONDS)  # the fault's own length
        proxy.mode = "pass"
        await arena.judged(20)
    return await _verdict(arena)
