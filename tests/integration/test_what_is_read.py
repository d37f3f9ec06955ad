"""Unreadable records and offsets out of range, through a worker on a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from prometheus_client import CollectorRegistry

from streams.kafka.decoding import UNPACKED_BYTES
from tests.integration.admin import kafka_admin
from tests.integration.conftest import RunningBroker
from tests.integration.deadlines import until
from tests.integration.stage import Chat, Stage, decided, event
from tests.integration.wire_client import WireClient, produce_batch
from tests.streams.kafka.logs import batch, signed


def _lag(registry: CollectorRegistry, stage: Stage) -> float:
    places = [
        {"topic": stage.topic("events"), "partition": str(number)} for number in range(stage.partitions)
    ]
    found = [registry.get_sample_value("judgestream_consumer_lag_records", place) for place in places]
    return -1.0 if None in found else sum(one or 0.0 for one in found)


async def test_unreadable_records_delay_no_other(broker: RunningBroker, tmp_path: Path) -> None:
    """Each unreadable record becomes a dead letter with place and reason, and the rest is judged.

    The records: one of two in a batch has a header that is not UTF-8, a batch that is no gzip, one of more
    spaces than are unpacked, and one that is not an event and has a key of 900 KB.
    """
    stage = Stage(broker.bootstrap_servers, tmp_path, partitions=1)
    await asyncio.to_thread(broker.create_topic, stage.topic("events"), 1)
    await stage.produce([event(number) for number in range(5)])
    odd = bytearray(batch([event(100), event(101)], headers=[("name", b"1")]))
    odd[:] = odd.replace(b"name", b"\xffame", 1)
    junk = bytearray(batch([b"v" * 100], codec=1))
    junk[61:] = b"\x00" * (len(junk) - 61)
    bomb = batch([b" " * (UNPACKED_BYTES + 1)], codec=1)
    with WireClient(broker.bootstrap_servers) as client:
        raws = (signed(odd), bomb, signed(junk))
        outcomes = [produce_batch(client, stage.topic("events"), raw)[0] for raw in raws]
    # Apache Kafka validates compressed batches and refuses the last; a damaged disk may still hold one.
    *accepted, refused = outcomes
    assert accepted == [0, 0]
    assert bool(refused) == (broker.kind == "apache")
    bad = {} if refused else {8: "undecodable"}
    await stage.produce([b"no event"], key=b"k" * 900_000)
    await stage.produce([event(number) for number in range(5, 10)])
    async with stage.worker(Chat()) as (_, registry):
        await stage.holds(at_least=True, scores=11, dead=3 + len(bad))
        await until(lambda: _lag(registry, stage) == 0, "no lag")
        letters = {letter.offset: letter for letter in await stage.dead_letters()}
    reasons = {offset: letter.reason for offset, letter in letters.items()}
    assert reasons == {5: "undecodable", 7: "oversized", **bad, 8 + len(bad): "undecodable"}
    assert "SHA-256" in letters[7].detail
    assert decided(registry)["undecodable", "oversized"] == 1


@pytest.mark.slow
async def test_records_removed_by_retention_are_counted(broker: RunningBroker, tmp_path: Path) -> None:
    """Of 20 events 5 are read and 12 removed: the next worker counts 7 lost and judges the other 8."""
    stage = Stage(broker.bootstrap_servers, tmp_path, partitions=1)
    await asyncio.to_thread(broker.create_topic, stage.topic("events"), 1)
    await stage.produce([event(number) for number in range(5)])
    async with stage.worker(Chat()):
        await stage.commits("events", 5)
    await stage.produce([event(number) for number in range(5, 20)])
    removed = {TopicPartition(stage.topic("events"), 0): RecordsToDelete(before_offset=12)}
    async with kafka_admin(broker.bootstrap_servers) as admin:
        await admin.delete_records(removed)
    async with stage.worker(Chat()) as (_, registry):
        await stage.judges({f"e{n}" for n in range(12, 20)})
        place = {"topic": stage.topic("events")}
        assert registry.get_sample_value("judgestream_lost_records_total", place) == 7.0
        moves = {**place, "why": "retention"}
        assert registry.get_sample_value("judgestream_offset_moves_total", moves) == 1.0
    assert len(await stage.results()) == 13
