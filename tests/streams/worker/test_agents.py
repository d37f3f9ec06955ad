"""The parts of a worker by its agents, without a broker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Collection
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from judge.endpoints.clients import ScriptedChat
from streams.errors import SettingsError
from streams.kafka.topics.table import AgentName
from streams.settings.tree import Settings
from streams.worker.agents import add_agents
from streams.worker.run import LONGEST_STOP_SECONDS, stop_seconds
from streams.worker.worker import KEEP_SECONDS, Worker


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
    """A sink cannot share a worker with other agents, because it would delay judging."""
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
    """The stop waits for the judge's timeout plus 5 s, from 20 s to 120 s."""
    given = settings(judge={"timeout_seconds": timeout})
    assert stop_seconds(given) == expected
