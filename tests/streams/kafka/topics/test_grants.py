"""The least permissions."""

from __future__ import annotations

import pytest

from streams.kafka.topics.grants import Grant, commands, worker_grants
from streams.kafka.topics.table import AGENTS, ALL_AGENTS, group_of, topic_uses
from streams.settings.tree import Settings

SETTINGS = Settings.model_validate({"metrics": {"coverage": {}, "relevance": {}}})


def grants_of(*parts: str) -> list[Grant]:
    agents = [agent for agent in ALL_AGENTS if agent in (parts or AGENTS)]
    group = group_of(SETTINGS.kafka.group_id, agents)
    return worker_grants(SETTINGS, group, agents)


@pytest.mark.parametrize(
    "parts", [(), ("intake",), ("judge",), ("monitor",), ("store",), ("intake", "judge")]
)
def test_every_needed_topic_has_a_grant(parts: tuple[str, ...]) -> None:
    agents = [agent for agent in ALL_AGENTS if agent in (parts or AGENTS)]
    topics = {grant.name for grant in grants_of(*parts) if grant.resource == "topic"}
    assert topics == {use.name for use in topic_uses(SETTINGS, agents)}


def test_names_are_quoted_for_the_shell() -> None:
    (line,) = commands([Grant("group", "a b", ("Read",))], "User:CN=x, O=y")
    assert line.endswith("--allow-principal 'User:CN=x, O=y' --operation Read --group 'a b'")
