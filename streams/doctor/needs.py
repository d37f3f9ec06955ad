"""What the agents do with each topic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from streams.kafka.topics.flow import AgentName, group_of
from streams.kafka.topics.grants import Operation, worker_grants
from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class Need:
    """What is done with one topic.

    Args:
        reads: Whether an agent reads it.
        writes: Whether an agent writes to it.
        is_tasks: Whether it holds tasks, each with the texts of an event.
    """

    reads: bool = False
    writes: bool = False
    is_tasks: bool = False

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What has to be allowed."""
        return (*(("Read",) if self.reads else ()), *(("Write",) if self.writes else ()))


def topic_needs(settings: Settings, agents: Collection[AgentName]) -> dict[str, Need]:
    """Say what agents do with each topic that they need."""
    tasks = {settings.topics.task_topic(metric) for metric in settings.metrics}
    grants = worker_grants(
        settings.topics, settings.metrics, group_of(settings.kafka.group_id, agents), agents
    )
    return {
        grant.name: Need("Read" in grant.operations, "Write" in grant.operations, grant.name in tasks)
        for grant in grants
        if grant.resource == "topic"
    }
