"""A broker that goes away, a network that fails, topics that refuse or grow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.chaos.arena import PARTITIONS, Arena
from tests.chaos.conftest import Verdict
from tests.chaos.proxy import Proxy
from tests.integration.deadlines import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

KAFKA_STORAGE_ERROR = 56
NOT_ENOUGH_REPLICAS = 19
TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
async def proxy(arena: Arena) -> AsyncIterator[Proxy]:
    proxy = Proxy(arena.kafka.proxy_port, arena.kafka.detour_port)
    await proxy.open()
    yield proxy
    await proxy.close()


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_the_broker_goes_and_comes_back(arena: Arena, verdict: Verdict, how: str) -> None:
    """Stopped in order or killed, away for some seconds, and back with its data."""
    await arena.start_workers(2)
    arena.start_feed()
    await arena.judged(20)
    await asyncio.to_thread(arena.kafka.stop if how == "stop" else arena.kafka.kill)
    await asyncio.sleep(3)  # the fault's own length
    await asyncio.to_thread(arena.kafka.start)
    await verdict("broker stopped and started" if how == "stop" else "broker killed and started")


async def test_connections_are_cut(arena: Arena, verdict: Verdict, proxy: Proxy) -> None:
    """Every connection is cut, again and again, and for a while none is taken."""
    await arena.start_workers(2, through_port=arena.kafka.proxy_port)
    arena.start_feed()
    await arena.judged(20)
    for _ in range(8):
        proxy.cut()
        await asyncio.sleep(0.4)
    await proxy.close()
    await asyncio.sleep(3)
    await proxy.open()
    await verdict("connections cut")


async def test_a_slow_network(arena: Arena, verdict: Verdict, proxy: Proxy) -> None:
    """Every request and every answer takes 150 ms, one after the other."""
    await arena.start_workers(2, through_port=arena.kafka.proxy_port)
    proxy.mode = "slow"
    arena.start_feed()
    await arena.judged(100)
    await until(lambda: not arena.feeding, "the feed's end", deadline_seconds=300)
    proxy.mode = "pass"
    await verdict("network slow")


async def test_half_open_connections(arena: Arena, verdict: Verdict, proxy: Proxy) -> None:
    """Connections stay open and nothing passes; those of that time never work again, new ones do."""
    await arena.start_workers(2, through_port=arena.kafka.proxy_port)
    arena.start_feed()
    await arena.judged(20)
    proxy.go_half_open()
    await asyncio.sleep(5)  # the fault's own length
    proxy.mode = "pass"
    await verdict("connections half-open")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (KAFKA_STORAGE_ERROR, "disk full (KAFKA_STORAGE_ERROR)"),
        (NOT_ENOUGH_REPLICAS, "NOT_ENOUGH_REPLICAS"),
        (TOPIC_AUTHORIZATION_FAILED, "TOPIC_AUTHORIZATION_FAILED"),
    ],
    ids=["storage", "replicas", "authorisation"],
)
async def test_the_broker_refuses_what_is_produced(
    arena: Arena, verdict: Verdict, proxy: Proxy, error: int, name: str
) -> None:
    """For some seconds nothing can be written, whatever the reason given: it waits, and nothing is set aside for it."""
    await arena.start_workers(2, through_port=arena.kafka.proxy_port)
    arena.start_feed()
    await arena.judged(20)
    proxy.produce_error = error
    await until(lambda: proxy.produce_errors >= 5, "refused produce requests", deadline_seconds=60)
    await asyncio.sleep(2)
    proxy.produce_error = None
    report = await verdict(f"produce refused: {name}")
    assert report.dead_letters == 0


async def test_results_that_are_too_large_for_their_topic(arena: Arena, verdict: Verdict) -> None:
    """While the scores topic takes no more than 300 bytes a batch, verdicts end as dead letters; then as results again."""
    await arena.start_workers(2)
    arena.start_feed()
    await arena.judged(20)
    await arena.set_topic(arena.topics["scores"], max_message_bytes="300")
    await arena.judged(100)
    await arena.set_topic(arena.topics["scores"], max_message_bytes="1048588")
    report = await verdict("max.message.bytes too low for a while")
    assert report.dead_letters > 0
    assert report.results > 0


async def test_partitions_are_added(arena: Arena, verdict: Verdict) -> None:
    """Every topic gets more partitions while workers run; those are read, too, from their first record."""
    await arena.start_workers(2)
    arena.start_feed()
    await arena.judged(20)
    await arena.add_partitions(PARTITIONS + 3)
    await verdict("partitions added")
