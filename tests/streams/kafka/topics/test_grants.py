"""The least permissions, and their documentation."""

from __future__ import annotations

import re

import pytest

from streams.kafka.topics.grants import (
    Grant,
    checking_grants,
    commands,
    creating_grants,
    produce_grants,
    tail_grants,
    worker_grants,
)
from streams.kafka.topics.table import AGENTS, ALL_AGENTS, group_of, topic_uses
from streams.settings.tree import Settings
from tests.places import ROOT

DOCUMENT = ROOT / "docs" / "permissions.md"
SETTINGS = Settings.model_validate({"metrics": {"coverage": {}, "relevance": {}}})


def grants_of(*parts: str) -> list[Grant]:
    agents = [agent for agent in ALL_AGENTS if agent in (parts or AGENTS)]
    group = group_of(SETTINGS.kafka.group_id, agents)
    return worker_grants(SETTINGS, group, agents)


def documented() -> dict[str, list[str]]:
    """Return the commands under each marker `acls: <name>`."""
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- acls: (\S+) -->\n\n```bash\n(.*?)```", text, re.DOTALL)
    return {name: block.strip().splitlines() for name, block in blocks}


@pytest.mark.parametrize(
    ("name", "grants", "principal"),
    [
        ("worker", grants_of(), "User:judgestream"),
        ("intake", grants_of("intake"), "User:judgestream-intake"),
        ("judge", grants_of("judge"), "User:judgestream-judge"),
        ("monitor", grants_of("monitor"), "User:judgestream-monitor"),
        ("store", grants_of("store"), "User:judgestream-store"),
        ("review", produce_grants(SETTINGS.topics.labels), "User:judgestream-review"),
        ("checking", checking_grants(grants_of()), "User:judgestream"),
        ("creating", creating_grants(grants_of()), "User:judgestream"),
        ("produce", produce_grants(SETTINGS.topics.events), "User:sender"),
        ("tail", tail_grants(SETTINGS.topics.scores), "User:reader"),
    ],
)
def test_the_documentation_shows_what_is_granted_in_the_tests(
    name: str, grants: list[Grant], principal: str
) -> None:
    assert documented()[name] == commands(grants, principal)


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
