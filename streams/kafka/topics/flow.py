"""Which agents there are, which consumer group they form and which topics they need."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, get_args

from streams.settings import Settings

AgentName = Literal["intake", "judge", "monitor"]
AGENTS: Final[tuple[AgentName, ...]] = get_args(AgentName)


def group_of(group_id: str, agents: Collection[AgentName]) -> str:
    """Name the consumer group: the configured one for all agents together, one of its own for any fewer."""
    if set(agents) == set(AGENTS):
        return group_id
    return ".".join([group_id, *(name for name in AGENTS if name in agents)])


def needed_topics(settings: Settings, agents: Collection[AgentName]) -> list[str]:
    """Name the topics that agents read and write."""
    topics = settings.topics
    tasks = [topics.task_topic(metric) for metric in settings.metrics]
    by_agent: dict[AgentName, list[str]] = {
        "intake": [topics.events, *tasks, topics.dead_letters],
        "judge": [*tasks, topics.scores, topics.dead_letters],
        "monitor": [topics.scores, topics.alerts],
    }
    return list(dict.fromkeys(topic for name in AGENTS if name in agents for topic in by_agent[name]))
