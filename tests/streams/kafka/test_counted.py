"""A result counts once, although it may be written several times."""

from __future__ import annotations

import asyncio

from aiokafka.errors import KafkaConnectionError
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from streams.kafka.counted import CountedResults, OnceCounter, Place
from streams.telemetry.instruments import Metrics
from tests.streams.results import scored


@given(st.lists(st.integers(0, 30)))
def test_of_few_results_each_counts_once(numbers: list[int]) -> None:
    """Each result id counts once, as in a set, up to the number remembered."""
    counted, seen = CountedResults(remembered=31), set[int]()
    for number in numbers:
        assert counted.add(f"r{number}") == (number not in seen)
        seen.add(number)


def test_memory_is_bounded_and_the_latest_are_known() -> None:
    """Of 1,000 results with generations of 10, the last 10 are known and at most 20 are kept."""
    counted = CountedResults(remembered=10)
    assert all(counted.add(f"r{number}") for number in range(1_000))
    assert len(counted._young) + len(counted._old) <= 20
    assert not any(counted.add(f"r{number}") for number in range(990, 1_000))


async def test_results_of_another_worker_are_not_counted() -> None:
    """A result of another worker is a repetition; a result at the place of its own write counts.

    Both are written while the topic is read.
    """
    metrics = Metrics(CollectorRegistry())
    counter = OnceCounter(metrics)
    ours, theirs = scored(1, 4), scored(2, 4)
    read = asyncio.Event()

    async def look() -> list[tuple[Place, str]]:
        await read.wait()
        return [((0, 7), theirs.result_id), ((0, 8), ours.result_id)]

    learning = asyncio.create_task(counter.learn(look))
    await asyncio.sleep(0)
    counter.observe(ours, (0, 8))
    counter.observe(theirs, (0, 9))
    assert _counts(metrics) == (None, None)
    read.set()
    await learning
    assert _counts(metrics) == (1.0, 1.0)
    counter.observe(ours, (0, 10))
    assert _counts(metrics) == (1.0, 2.0)


async def test_results_are_counted_if_the_topic_cannot_be_read() -> None:
    metrics = Metrics(CollectorRegistry())
    counter = OnceCounter(metrics)
    begun = asyncio.Event()

    async def look() -> list[tuple[Place, str]]:
        await begun.wait()
        raise KafkaConnectionError

    learning = asyncio.create_task(counter.learn(look))
    await asyncio.sleep(0)
    counter.observe(scored(1, 4), None)
    begun.set()
    await learning
    assert _counts(metrics) == (1.0, None)


def _counts(metrics: Metrics) -> tuple[float | None, float | None]:
    get = metrics.registry.get_sample_value
    labels = {"metric": "relevance", "status": "scored", "reason": ""}
    return get("judgestream_results_total", labels), get(
        "judgestream_results_repeated_total", {"metric": "relevance"}
    )
