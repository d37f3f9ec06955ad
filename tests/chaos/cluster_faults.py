"""A cluster of three brokers that fail in turn: leaders, coordinator and controller move."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.chaos.arena import Arena, fault
from tests.chaos.checker import Report
from tests.chaos.proxy import BOTH_WAYS, Way
from tests.integration.cluster import KafkaCluster

AWAY_SECONDS = 4.0
"""Longer than the cluster waits before it elects another leader."""
SESSION_SECONDS = 20
"""Two thirds of the default, and longer than the detection of a half-open connection."""
HALF_OPEN_ROUNDS: Final[tuple[tuple[Way, ...], ...]] = (
    *(BOTH_WAYS, ("answers",), ("requests",)),
    *(("answers",), ("requests",), BOTH_WAYS),
    *(("requests",), BOTH_WAYS, ("answers",)),
)
"""The lost direction at each broker in turn; in three rounds each loses every direction."""


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
    """SIGKILL of each of three brokers, the controller included; each restarts before the next fails."""
    cluster = _cluster(arena)
    await arena.begin(stretch=5)
    for node in cluster.nodes:
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(AWAY_SECONDS)  # part of the fault
        await asyncio.to_thread(node.start)
        await arena.judged(20)
    return await _verdict(arena)


@fault("brokers paused in turn", access="cluster")
async def brokers_paused(arena: Arena) -> Report:
    """SIGSTOP of each until others lead; on SIGCONT it still believes that it leads, with a shorter log."""
    cluster = _cluster(arena)
    await arena.begin(stretch=6)
    for number in range(max(arena.size.blows, len(cluster.nodes))):
        node = cluster.nodes[number % len(cluster.nodes)]
        node.pause()
        await asyncio.sleep(AWAY_SECONDS)  # part of the fault
        node.resume()
        await arena.judged(20)
    return await _verdict(arena)


@fault("brokers half-open in turn", access="proxied cluster")
async def brokers_half_open(arena: Arena) -> Report:
    """Each loses requests, answers or both; others reach it, so it leads on, and may have stored writes."""
    await arena.begin(stretch=5, session_seconds=SESSION_SECONDS)
    for number, lost in enumerate(HALF_OPEN_ROUNDS[: max(arena.size.blows, len(arena.proxies))]):
        proxy = arena.proxies[number % len(arena.proxies)]
        proxy.go_half_open(lost)
        await asyncio.sleep(AWAY_SECONDS)  # part of the fault
        proxy.mode = "pass"
        await arena.judged(20)
    return await _verdict(arena)
