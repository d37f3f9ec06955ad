"""Tasks that are written once more, over a broker."""

from __future__ import annotations

from aiokafka import AIOKafkaProducer

from schemas import JudgeTask
from streams.embedded.broker import EmbeddedBroker
from streams.kafka.reader import TopicReader
from streams.monitoring.rejudging import judge_again, task_again, tasks_at
from streams.settings.broker import KafkaSettings
from tests.streams.results import at, scored, task_of

TOPIC = "judge.tasks.relevance"


class Writer:
    """Writes tasks as `Output` does."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self.producer = producer

    async def task(self, task: JudgeTask) -> None:
        headers = [("result_id", task.result_id.encode())]
        await self.producer.send_and_wait(TOPIC, task.model_dump_json().encode(), headers=headers)


async def test_tasks_are_found_by_place_and_written_once() -> None:
    """Of three wanted places one is beyond the end, and one no task; a repeated call writes nothing."""
    async with (
        EmbeddedBroker(topics={TOPIC: 1}) as broker,
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        writer, past = (
            Writer(producer),
            TopicReader(KafkaSettings(bootstrap_servers=broker.bootstrap_servers)),
        )
        old = task_of(scored(1, 4))
        await producer.send_and_wait(TOPIC, b"no task")
        await writer.task(old)
        assert await tasks_at(past, TOPIC, [(0, 9), (0, 1), (0, 0), (3, 0)]) == {(0, 1): old}

        again = task_again(old, "burst-1")
        assert (again.event_id, again.question, again.replay_id) == (old.event_id, old.question, "burst-1")
        assert again.result_id != old.result_id
        for written in (1, 0):
            assert await judge_again(writer, past, TOPIC, [again], since=at(0)) == written  # type: ignore[arg-type]
        assert list((await tasks_at(past, TOPIC, [(0, n) for n in range(5)])).values()) == [old, again]
