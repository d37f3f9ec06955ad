"""A worker's agents, and how each handles its records, without a broker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from judge.endpoints.clients import ScriptedChat
from judge.errors import DrainingError, JudgeConfigurationError
from streams.errors import DeadLetterLimitError, SettingsError
from streams.kafka.app import Pipeline
from streams.kafka.topics.table import AgentName
from streams.settings.tree import Settings
from streams.worker.agents import add_agents
from streams.worker.run import LONGEST_STOP_SECONDS, stop_seconds
from streams.worker.worker import KEEP_SECONDS, Worker


@dataclass
class _Record:
    offset: int
    topic: str = "t"
    partition: int = 0
    unreadable: Any = None


@dataclass
class _Event:
    message: _Record


class _Stream:
    def __init__(self, count: int) -> None:
        self._count = count
        self.acked: list[int] = []

    def noack(self) -> _Stream:
        return self

    async def events(self) -> AsyncIterator[_Event]:
        for offset in range(self._count):
            yield _Event(_Record(offset))
        await asyncio.Event().wait()

    async def ack(self, event: _Event) -> None:
        self.acked.append(event.message.offset)


class _Log:
    def __init__(self) -> None:
        self.surprises: list[tuple[int, str]] = []
        self.crashes: list[BaseException] = []
        self.unreadable: list[int] = []

    async def on_unreadable(self, record: Any) -> None:
        self.unreadable.append(record.offset)

    async def on_surprise(self, record: Any, error: Exception) -> None:
        if str(error) == "hopeless":
            raise RuntimeError("cannot be set aside")
        self.surprises.append((record.offset, str(error)))

    async def crash(self, error: BaseException) -> None:
        self.crashes.append(error)


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def log() -> _Log:
    return _Log()


def _pipeline(handle: Callable[[_Record], Awaitable[None]], log: _Log) -> Pipeline:
    return Pipeline(
        "p", handle, on_unreadable=log.on_unreadable, on_surprise=log.on_surprise, crash=log.crash
    )


async def _run(pipeline: Pipeline, stream: _Stream) -> asyncio.Task[None]:
    task = asyncio.create_task(pipeline.run(stream))
    await _settle()
    return task


async def test_records_are_handled_together_and_acknowledged_as_they_end(log: _Log) -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def handle(record: _Record) -> None:
        await gates[record.offset].wait()

    stream = _Stream(3)
    pipeline = _pipeline(handle, log)
    task = await _run(pipeline, stream)
    assert pipeline.in_hand == 3
    for offset in (2, 0, 1):
        gates[offset].set()
        await _settle()
    assert stream.acked == [2, 0, 1]
    assert pipeline.in_hand == 0
    task.cancel()


@pytest.mark.parametrize(
    ("error", "acked", "surprises", "crashes"),
    [
        (ZeroDivisionError("odd"), [0, 1, 2], [(1, "odd")], 0),
        # A record abandoned while draining is redelivered.
        (DrainingError("given up"), [0, 2], [], 0),
        (JudgeConfigurationError("no key"), [0, 2], [], 1),
        (DeadLetterLimitError("too many"), [0, 2], [], 1),
        # Its dead letter cannot be written.
        (ValueError("hopeless"), [0, 2], [], 1),
    ],
)
async def test_an_error_sets_one_record_aside_releases_it_or_stops_the_worker(
    log: _Log, error: Exception, acked: list[int], surprises: list[tuple[int, str]], crashes: int
) -> None:
    async def handle(record: _Record) -> None:
        if record.offset == 1:
            raise error

    stream = _Stream(3)
    task = await _run(_pipeline(handle, log), stream)
    assert sorted(stream.acked) == acked
    assert (log.surprises, len(log.crashes)) == (surprises, crashes)
    task.cancel()


async def test_finish_gives_up_what_does_not_end_in_time(log: _Log) -> None:
    never = asyncio.Event()

    async def handle(record: _Record) -> None:
        if record.offset == 1:
            await never.wait()

    stream = _Stream(2)
    pipeline = _pipeline(handle, log)
    task = await _run(pipeline, stream)
    await pipeline.finish(0.01)
    assert stream.acked == [0]
    assert pipeline.in_hand == 0
    assert (log.surprises, log.crashes) == ([], [])
    task.cancel()


async def test_a_closed_pipeline_handles_no_records(log: _Log) -> None:
    handled: list[int] = []

    async def handle(record: _Record) -> None:
        handled.append(record.offset)

    stream = _Stream(3)
    pipeline = _pipeline(handle, log)
    pipeline.close()
    task = await _run(pipeline, stream)
    await pipeline.finish(1)
    assert handled == []
    assert stream.acked == []
    task.cancel()


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(
        {"metrics": {"coverage": {}, "relevance": {}}, "telemetry": {"labels": []}, **sections}
    )


def wired(agents: Collection[AgentName], **sections: Any) -> Worker:
    made = Worker(
        settings(**sections), agents=agents, registry=CollectorRegistry(), chat=ScriptedChat([]), env={}
    )
    add_agents(made)
    return made


@pytest.mark.parametrize(
    ("agents", "topics"),
    [
        (["intake"], {"qa.events"}),
        (["judge"], {"judge.tasks.coverage", "judge.tasks.relevance"}),
        (["monitor"], {"qa.scores", "qa.observations"}),
        (
            ["monitor", "judge", "intake"],
            {"qa.events", "judge.tasks.coverage", "judge.tasks.relevance", "qa.scores", "qa.observations"},
        ),
    ],
    ids=["intake", "judge", "monitor", "all"],
)
async def test_each_agent_reads_its_topics(agents: list[AgentName], topics: set[str]) -> None:
    worker = wired(agents)
    read = {name for agent in worker.app.agents.values() for name in agent.channel.topics}
    assert read == topics
    assert len(worker.pipelines) == len(topics)
    assert (worker.monitors is not None) == ("monitor" in agents)
    await worker.close()


def test_a_sink_needs_a_worker_of_its_own() -> None:
    with pytest.raises(SettingsError, match="start another with --agents sink"):
        wired(["judge", "sink"])


def test_a_judge_without_an_endpoint_is_not_wired() -> None:
    both: list[AgentName] = ["intake", "judge"]
    with pytest.raises(SettingsError, match="names no endpoint"):
        add_agents(Worker(settings(), agents=both, registry=CollectorRegistry(), env={}))
    add_agents(Worker(settings(), agents=["intake"], registry=CollectorRegistry(), env={}))


async def test_the_monitor_s_state_is_kept_at_the_end_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = wired(["monitor"])
    assert worker.monitors is not None
    kept = []

    async def save() -> None:
        kept.append(True)

    monkeypatch.setattr(worker.monitors, "save", save)
    await worker.finish(1.0)
    assert kept == [True]
    monkeypatch.setattr(worker.monitors, "save", asyncio.Event().wait)
    assert KEEP_SECONDS > 0.05
    await asyncio.wait_for(worker.finish(0.05), 60)
    await worker.close()


def test_a_start_imports_only_what_reading_needs() -> None:
    code = (
        "import sys, streams.worker.run; "
        "print({'openai', 'streams.sinks.delivery', 'streams.store.views.report'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


@pytest.mark.parametrize(
    ("timeout", "expected"), [(5, 20.0), (60, 65.0), (600, LONGEST_STOP_SECONDS)], ids=str
)
def test_a_stop_waits_for_a_call(timeout: int, expected: float) -> None:
    given = settings(judge={"timeout_seconds": timeout})
    assert stop_seconds(given) == expected
