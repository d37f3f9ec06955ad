"""What the agents do with each topic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from streams.roster import AGENTS, AgentName, needed_topics
from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class Need:
    """What is done with one topic.

    Args:
        reads: Whether an agent reads it.
        writes: Whether an agent writes to it.
        is_tasks: Whether it holds tasks, each with the texts of an event.
    """

    reads: bool
    writes: bool
    is_tasks: bool = False


def topic_needs(settings: Settings, agents: Collection[AgentName]) -> dict[str, Need]:
    """Say what agents do with each topic that they need."""
    topics = settings.topics
    tasks = {topics.task_topic(metric) for metric in settings.metrics}
    reads: dict[AgentName, set[str]] = {
        "intake": {topics.events},
        "judge": tasks,
        "monitor": {topics.scores},
    }
    read = {topic for name in agents for topic in reads[name]}
    written = {
        topic
        for name in AGENTS
        if name in agents
        for topic in needed_topics(settings, (name,))
        if topic not in reads[name]
    }
    return {
        topic: Need(topic in read, topic in written, topic in tasks)
        for topic in needed_topics(settings, agents)
    }
