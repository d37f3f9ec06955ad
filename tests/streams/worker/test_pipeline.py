from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from prometheus_client import CollectorRegistry

from judge.errors import DrainingError, JudgeConfigurationError
from streams.errors import DeadLetterLimitError, SettingsError
from streams.kafka.app import Pipeline
from streams.kafka.topics.table import AgentName
from streams.settings.tree import Settings
from streams.worker.agents import add_agents
from streams.worker.run import LONGEST_STOP_SECONDS, stop_seconds
from streams.worker.worker import KEEP_SECONDS, Worker
from tests.judge.scripted import ScriptedChat


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class _Run:
    """A pipeline over a stream that yields records and then stays open, and what becomes of them."""

    def __init__(self, count: int, handle: Callable[[Any], Awaitable[None]]) -> None:
        self._count = count
        self.acked: list[int] = []
        self.surprises: list[tuple[int, str]] = []
        self.crashes: list[BaseException] = []
        self.pipeline = Pipeline(
            "p", handle, on_unreadable=handle, on_surprise=self.on_surprise, crash=self.crash
        )

    async def begin(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self.pipeline.run(self))
        await _settle()
        return task

    def noack(self) -> _Run:
        return self

    async def events(self) -> AsyncIterator[Any]:
        for offset in range(self._count):
            record = SimpleNamespace(offset=offset, topic="t", partition=0, unreadable=None)
            yield SimpleNamespace(message=record)
        await asyncio.Event().wait()

    async def ack(self, event: Any) -> None:
        self.acked.append(event.message.offset)

    async def on_surprise(self, record: Any, error: Exception) -> None:
        if str(error) == "hopeless":
            raise RuntimeError("cannot be set aside")
        self.surprises.append((record.offset, str(error)))

    async def crash(self, error: BaseException) -> None:
        self.crashes.append(error)


async def test_records_are_handled_together_and_acknowledged_as_they_end() -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def handle(record: Any) -> None:
        await gates[record.offset].wait()

    run = _Run(3, handle)
    task = await run.begin()
    assert run.pipeline.in_hand == 3
    for offset in (2, 0, 1):
        gates[offset].set()
        await _settle()
    assert (run.acked, run.pipeline.in_hand) == ([2, 0, 1], 0)
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
    error: Exception, acked: list[int], surprises: list[tuple[int, str]], crashes: int
) -> None:
    async def handle(record: Any) -> None:
        if record.offset == 1:
            raise error

    run = _Run(3, handle)
    task = await run.begin()
    assert sorted(run.acked) == acked
    assert (run.surprises, len(run.crashes)) == (surprises, crashes)
    task.cancel()


async def test_finish_gives_up_what_does_not_end_in_time() -> None:
    async def handle(record: Any) -> None:
        if record.offset == 1:
            await asyncio.Event().wait()

    run = _Run(2, handle)
    task = await run.begin()
    await run.pipeline.finish(0.01)
    assert (run.acked, run.pipeline.in_hand) == ([0], 0)
    assert (run.surprises, run.crashes) == ([], [])
    task.cancel()


async def test_a_closed_pipeline_handles_no_records() -> None:
    handle = AsyncMock()
    run = _Run(3, handle)
    run.pipeline.close()
    task = await run.begin()
    await run.pipeline.finish(1)
    handle.assert_not_awaited()
    assert run.acked == []
    task.cancel()


SILENT = ScriptedChat([])


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(
        {"metrics": {"coverage": {}, "relevance": {}}, "telemetry": {"labels": []}, **sections}
    )


def wired(agents: Collection[AgentName], chat: ScriptedChat | None = SILENT) -> Worker:
    made = Worker(settings(), agents=agents, registry=CollectorRegistry(), chat=chat, env={})
    add_agents(made)
    return made


READS = {
    "intake": {"qa.events"},
    "judge": {"judge.tasks.coverage", "judge.tasks.relevance"},
    "monitor": {"qa.scores", "qa.observations"},
}


@pytest.mark.parametrize(
    "agents", [["intake"], ["judge"], ["monitor"], ["monitor", "judge", "intake"]], ids=str
)
async def test_each_agent_reads_its_topics(agents: list[AgentName]) -> None:
    worker, topics = wired(agents), set().union(*(READS[agent] for agent in agents))
    read = {name for agent in worker.app.agents.values() for name in agent.channel.topics}
    assert read == topics
    assert len(worker.pipelines) == len(topics)
    assert (worker.monitors is not None) == ("monitor" in agents)
    await worker.close()


def test_a_sink_needs_a_worker_of_its_own() -> None:
    with pytest.raises(SettingsError, match="start another with --agents sink"):
        wired(["judge", "sink"])


def test_a_judge_without_an_endpoint_is_not_wired() -> None:
    with pytest.raises(SettingsError, match="names no endpoint"):
        wired(["intake", "judge"], chat=None)
    wired(["intake"], chat=None)


async def test_the_monitor_s_state_is_kept_at_the_end_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = wired(["monitor"])
    assert worker.monitors is not None
    save = AsyncMock()
    monkeypatch.setattr(worker.monitors, "save", save)
    await worker.finish(1.0)
    save.assert_awaited_once_with()
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
