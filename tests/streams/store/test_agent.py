"""The store's agent with a broker: after a kill, damage or a full disk the store equals the topics."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from aiokafka import AIOKafkaProducer

from streams.embedded.broker import EmbeddedBroker
from streams.errors import StoreFullError
from streams.kafka import reader
from streams.kafka.record import Record
from streams.settings.tree import Settings
from streams.store import agent as agent_module
from streams.store.agent import StoreAgent, StoreWriter
from tests.integration.deadlines import until
from tests.streams.results import START, scored
from tests.streams.store.records import TOPICS, count_rows, result_record, task_record


@asynccontextmanager
async def _broker(records: Sequence[Record]) -> AsyncIterator[tuple[EmbeddedBroker, AIOKafkaProducer]]:
    tasks = {TOPICS.task_topic("relevance"): 2, TOPICS.task_topic("coverage"): 1}
    topics = {TOPICS.scores: 2, **tasks, TOPICS.alerts: 1, TOPICS.labels: 1}
    async with EmbeddedBroker(topics=topics) as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        try:
            await _send(producer, records)
            yield broker, producer
        finally:
            await producer.stop()


async def _send(producer: AIOKafkaProducer, records: Sequence[Record]) -> None:
    keys = (str(number).encode() for number in range(len(records)))
    sent = [await producer.send(one.topic, one.value, key=next(keys)) for one in records]
    await asyncio.gather(*sent)


def _agent(path: Path, broker: EmbeddedBroker, *, days: int = 3_650, **clocks: Any) -> StoreAgent:
    kept = {"path": path, "keep_days": days, "max_gigabytes": 1}
    settings = {"kafka": {"bootstrap_servers": broker.bootstrap_servers}, "store": kept}
    return StoreAgent(Settings.model_validate(settings), **clocks)


@asynccontextmanager
async def _running(agent: StoreAgent) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(agent.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _filled(
    path: Path, results: Sequence[Record], count: int, **options: Any
) -> AsyncIterator[tuple[StoreAgent, AIOKafkaProducer]]:
    """Run an agent that has stored all results of a broker; yield it, and the broker's producer."""
    async with _broker(results) as (broker, producer):
        agent = _agent(path, broker, **options)
        async with _running(agent):
            await until(lambda: count_rows(path) == count and agent.behind == 0, "all")
            yield agent, producer


def _records(first: int, end: int) -> list[Record]:
    results = [scored(number, 3) for number in range(first, end)]
    return [record for one in results for record in (task_record(one), result_record(one))]


async def test_a_killed_store_resumes_from_its_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_RECORDS", 300)  # many transactions, so that a kill falls between two
    path = tmp_path / "store.sqlite3"
    async with _broker(_records(0, 3_000)) as (broker, producer):
        for seconds in (0.02, 0.1, 0.3):
            async with _running(_agent(path, broker)):
                await asyncio.sleep(seconds)
        await _send(producer, _records(2_990, 3_100))  # ten of them are repeated
        agent = _agent(path, broker)
        async with _running(agent):
            await until(lambda: count_rows(path, "texts") == 3_100, "all texts")
            await until(lambda: agent.behind == 0, "the end of the topics")
        assert (agent.trouble, count_rows(path), count_rows(path, "texts")) == (None, 3_100, 3_100)


def _garble(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xa5" * 64 * 1024)


HARMS: Final[Mapping[str, Callable[[Path], None]]] = {
    "garbled": lambda path: _garble(path, path.stat().st_size // 3),
    "its head garbled": lambda path: _garble(path, 0),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "deleted": Path.unlink,
    "its log deleted": lambda path: path.with_name(path.name + "-wal").unlink(),
}


@pytest.mark.parametrize("harm", HARMS)
async def test_damage_is_noticed_and_mended(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.sqlite3"
    monkeypatch.setattr(agent_module, "TIDY_SECONDS", 0.5)
    monkeypatch.setattr(agent_module, "AGAIN_SECONDS", 0.05)
    async with _filled(path, _records(0, 390), 390) as (agent, producer):
        written = agent.verdicts
        log = path.with_name(path.name + "-wal")
        await until(lambda: log.stat().st_size == 0, "an empty log")
        assert agent.trouble is None
        HARMS[harm](path)
        await _send(producer, _records(390, 400))
        await until(lambda: str(path) in str(agent.trouble), "the damage")
        await until(lambda: count_rows(path) == 400, "the mended store")
        await until(lambda: agent.trouble is None, "the end of the trouble")
        # Only what was written to the deleted log is read again: the file is whole.
        assert (agent.verdicts < 2 * written) == (harm == "its log deleted")


async def test_a_clock_that_jumps_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite3"
    clock = [START.timestamp() + 400]
    monkeypatch.setattr(agent_module, "TIDY_SECONDS", 0.1)
    async with _filled(path, _records(0, 400), 400, days=30, now=lambda: clock[0]) as (agent, producer):
        clock[0] += 40 * 86_400
        await _send(producer, _records(400, 450))
        await until(lambda: count_rows(path) == 450, "the new ones")
        tidied = agent._tidied
        await until(lambda: agent._tidied != tidied, "another round")
        assert (count_rows(path), count_rows(path, "texts")) == (450, 450)


async def test_old_answers_go_a_day_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers beyond the age go, the oldest day of them first; one answer makes the others old."""
    path = tmp_path / "store.sqlite3"
    monkeypatch.setattr(agent_module, "TIDY_SECONDS", 10.0)
    clock = [0.0]
    days = [result_record(scored(number, 3, seconds=number * 86_400.0)) for number in range(6)]
    async with _filled(path, days, 6, days=30, monotonic=lambda: clock[0]) as (agent, producer):
        await until(lambda: agent._tidied == 0, "the first round")
        await _send(producer, [result_record(scored(9, 3, seconds=33.5 * 86_400.0))])
        # Answers 0 to 3 are more than 30 days older than the newest, at 33.5 days.
        for left in (7, 6, 5, 4, 3):
            await until(lambda left=left: count_rows(path) == left, f"{left} left")  # type: ignore[misc]
            clock[0] += 10.0
        await until(lambda: agent._tidied == clock[0], "the last round")
        assert count_rows(path) == 3


async def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite3"
    full = StoreFullError("store.path: the disk is full")
    monkeypatch.setattr(agent_module, "AGAIN_SECONDS", 0.05)
    async with _broker(_records(0, 50)) as (broker, _):
        agent = _agent(path, broker)
        async with _running(agent):
            with patch.object(StoreWriter, "write", side_effect=full):
                await until(lambda: agent.trouble is not None, "the trouble")
            assert agent.trouble == "store.path: the disk is full"
            await until(lambda: count_rows(path) == 50, "all results")
            await until(lambda: agent.trouble is None, "the end of the trouble")
