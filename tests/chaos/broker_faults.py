from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable

from tests.chaos.arena import PARTITIONS, Arena, fault
from tests.chaos.checker import Report
from tests.chaos.proxy import Proxy
from tests.integration.deadlines import until
from tests.integration.wire_client import set_quotas

AWAY_SECONDS = 3
READY_SECONDS = 15.0 + 5.0
"""From the coordinator's last answer to "not ready", plus 5 s for a busy machine."""
KAFKA_STORAGE_ERROR = 56
TOPIC_AUTHORIZATION_FAILED = 29
FULL_AT_BYTES = 16_384
CLIENT_ID = "judgestream"
QUOTAS = {"producer_byte_rate": 20_000.0, "consumer_byte_rate": 20_000.0, "request_percentage": 2.0}
"""Bytes a second, and percent of one broker thread."""


@fault("broker stopped and started", access="alone")
async def broker_stopped(arena: Arena) -> Report:
    """The broker is stopped in order and restarted with its data after some seconds."""
    return await _away(arena, arena.kafka.stop)


@fault("broker killed and started", access="alone")
async def broker_killed(arena: Arena) -> Report:
    """The broker is killed and restarted after some seconds with what it had written."""
    return await _away(arena, arena.kafka.kill)


async def _away(arena: Arena, end: Callable[[], None]) -> Report:
    await arena.begin(stretch=2)
    await asyncio.to_thread(end)
    await asyncio.sleep(AWAY_SECONDS)  # part of the fault
    await asyncio.to_thread(arena.kafka.start)
    return await arena.verdict()


@fault("broker's disk full", access="alone")
async def disk_full(arena: Arena) -> Report:
    """The broker's files cannot grow: a write fails, the broker exits and is restarted with space."""
    await arena.begin(stretch=2)
    broker = arena.kafka.pid
    assert broker is not None
    _, most = resource.prlimit(broker, resource.RLIMIT_FSIZE)
    resource.prlimit(broker, resource.RLIMIT_FSIZE, (FULL_AT_BYTES, most))
    await until(
        lambda: arena.kafka.pid is None, "the broker gives up", deadline_seconds=arena.size.settle_seconds
    )
    await asyncio.to_thread(arena.kafka.start)
    return await arena.verdict()


def _proxy(arena: Arena) -> Proxy:
    assert arena.proxies, 'the fault needs access="proxied"'
    return arena.proxies[0]


@fault("connections cut", access="proxied")
async def connections_cut(arena: Arena) -> Report:
    """Every connection is cut repeatedly, then none is accepted for some seconds."""
    proxy = _proxy(arena)
    await arena.begin(stretch=2)
    for _ in range(2 * arena.size.blows):
        proxy.cut()
        await asyncio.sleep(0.4)  # part of the fault
    await proxy.close()
    await asyncio.sleep(AWAY_SECONDS)
    await proxy.open()
    return await arena.verdict()


@fault("network slow", access="proxied")
async def network_slow(arena: Arena) -> Report:
    """Every request and every answer takes 150 ms."""
    proxy = _proxy(arena)
    await arena.begin()
    proxy.mode = "slow"
    await arena.judged(100)
    await arena.feed.held_back()
    proxy.mode = "pass"
    return await arena.verdict()


@fault("connections half-open", access="proxied")
async def connections_half_open(arena: Arena) -> Report:
    """Connections stay open without traffic for some seconds; those never recover, new ones work."""
    proxy = _proxy(arena)
    await arena.begin(stretch=2)
    proxy.go_half_open()
    await asyncio.sleep(AWAY_SECONDS)  # part of the fault
    proxy.mode = "pass"
    return await arena.verdict()


async def _refused(arena: Arena, error: int) -> Report:
    proxy = _proxy(arena)
    await arena.begin(stretch=2)
    proxy.produce_error = error
    await until(
        lambda: proxy.produce_errors >= 5,
        "refused produce requests",
        deadline_seconds=arena.size.settle_seconds,
    )
    await asyncio.sleep(2)  # part of the fault
    proxy.produce_error = None
    return await arena.verdict(dead_letters=0)


@fault("produce refused: KAFKA_STORAGE_ERROR", access="proxied")
async def storage_error(arena: Arena) -> Report:
    """The broker answers so for some seconds: writes wait, and nothing becomes a dead letter."""
    return await _refused(arena, KAFKA_STORAGE_ERROR)


@fault("produce refused: TOPIC_AUTHORIZATION_FAILED", access="proxied")
async def authorisation_withdrawn(arena: Arena) -> Report:
    """Writes are denied for some seconds: nothing is lost after the permission is back."""
    return await _refused(arena, TOPIC_AUTHORIZATION_FAILED)


@fault("produce refused: NOT_ENOUGH_REPLICAS")
async def not_enough_replicas(arena: Arena) -> Report:
    """For some seconds every output topic requires more replicas than exist: writes wait."""
    await arena.begin(stretch=2)
    written = [topic for name, topic in arena.topics.items() if name != "events"]
    await asyncio.gather(*(arena.set_topic(topic, min_insync_replicas="2") for topic in written))
    await asyncio.sleep(AWAY_SECONDS)  # part of the fault
    await asyncio.gather(*(arena.set_topic(topic, min_insync_replicas="1") for topic in written))
    return await arena.verdict(dead_letters=0)


@fault("max.message.bytes too low for a while")
async def results_too_large(arena: Arena) -> Report:
    """While the topic accepts at most 300 bytes a batch, verdicts become dead letters; afterwards results."""
    await arena.judge.change(limit=100)  # a slow machine would change the topic after the last verdict
    await arena.begin(stretch=2)
    await arena.set_topic(arena.topics["scores"], max_message_bytes="300")
    await arena.judge.change(limit=None)

    async def refused() -> bool:
        return any(letter.topic != arena.topics["events"] for letter in await arena.stage.dead_letters())

    await until(refused, "a verdict that is too large", deadline_seconds=arena.size.settle_seconds)
    await arena.set_topic(arena.topics["scores"], max_message_bytes="1048588")
    report = await arena.verdict()
    assert report.dead_letters > 0
    assert report.results > 0
    return report


@fault("quotas", access="alone")
async def throttled(arena: Arena) -> Report:
    """The broker answers late and leaves connections unread meanwhile; every worker stays in the group."""
    await arena.begin(stretch=2)
    await asyncio.to_thread(set_quotas, arena.servers, CLIENT_ID, QUOTAS)
    await asyncio.sleep(2 * AWAY_SECONDS)  # part of the fault
    await arena.judged(20)
    await asyncio.to_thread(set_quotas, arena.servers, CLIENT_ID, dict.fromkeys(QUOTAS))
    return await arena.verdict(dead_letters=0)


@fault("partitions added")
async def partitions_added(arena: Arena) -> Report:
    """Every topic gets more partitions while workers run; they are read from their first record."""
    await arena.begin(stretch=2)
    await arena.add_partitions(PARTITIONS + 3)
    return await arena.verdict()


@fault("transactions given up")
async def transactions_given_up(arena: Arena) -> Report:
    """Beside each event one is written in an aborted transaction, which is not judged and delays none."""
    await arena.start_workers(arena.crew)
    arena.start_feed(abort=True)
    return await arena.verdict(duplicates=0)


@fault("every codec, large headers")
async def every_codec(arena: Arena) -> Report:
    """Records in all codecs, each with 20 KB of headers."""
    await arena.start_workers(arena.crew)
    codecs = (None, "gzip", "snappy", "lz4", "zstd")
    arena.start_feed(codecs=codecs, headers=[("трасса", b"\xff" * 20_000), ("", b"")])
    return await arena.verdict(duplicates=0)


@fault("broker paused beyond the session", access="alone")
async def broker_paused(arena: Arena) -> Report:
    """SIGSTOP of the broker beyond the session: every worker reports "not ready" and continues afterwards."""
    await arena.begin(stretch=2)
    arena.kafka.pause()
    try:
        for worker in arena.workers:
            await until(worker.not_ready, f"{worker.name} is not ready", deadline_seconds=READY_SECONDS)
        await asyncio.sleep(AWAY_SECONDS)  # part of the fault
    finally:
        arena.kafka.resume()
    return await arena.verdict()
