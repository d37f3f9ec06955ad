"""Verdicts from the results' topic to receivers, by a worker of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted

from streams.errors import SettingsError
from streams.intake.reading.otlp.requests.wire import spans
from tests.integration.deadlines import until
from tests.integration.stage import Stage
from tests.integration.test_worker import Chat
from tests.streams.results import failed, scored


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    stage = Stage(bootstrap_servers, tmp_path, changes={"sinks": {"collector": {"kind": "otlp_topic"}}})
    stage.changes["topics.evaluations"] = stage.topic("evaluations")
    return stage


async def test_each_verdict_becomes_a_log_event_on_a_topic(stage: Stage) -> None:
    """Keyed by trace id, each once; what is no result becomes a dead letter.

    A second worker begins where the first ended.
    """
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    results = [
        scored(number, 1 + number % 5).model_copy(update={"trace_id": trace_id}) for number in range(20)
    ]

    async def written(count: int) -> bool:
        return len(await stage.read("evaluations")) >= count

    async with stage.worker(Chat(), agents=("sink",)) as (running, _):
        assert running.group_id.endswith(".sink")
        await stage.produce(
            [*(one.model_dump_json().encode() for one in results), b"no result"], topic="scores"
        )
        await until(lambda: written(20), "twenty log events")
    async with stage.worker(Chat(), agents=("sink",)):
        await stage.produce([failed(99).model_dump_json().encode()], topic="scores")
        await until(lambda: written(21), "one more")
    records = await stage.read("evaluations")
    events = [span for record in records for span in spans(record.value)]
    assert sorted(event.attributes["judgestream.event_id"] for event in events) == sorted(
        [*(f"e{number}" for number in range(20)), "e99"]
    )
    assert {record.key for record in records} == {trace_id.encode(), None}
    assert [letter.reason for letter in await stage.dead_letters()] == ["undecodable"]


async def test_the_sink_runs_in_a_worker_of_its_own(stage: Stage) -> None:
    """Nothing that a receiver does may hold up judging."""
    with pytest.raises(SettingsError, match="--agents sink"):
        async with stage.worker(Chat(), agents=("judge", "sink")):
            pass
