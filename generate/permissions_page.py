"""Generate docs/permissions.md from the permissions that workers and commands need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from generate.places import DOCS
from streams.kafka.topics.grants import (
    Grant,
    checking_grants,
    creating_grants,
    produce_grants,
    tail_grants,
    worker_grants,
)
from streams.kafka.topics.table import AGENTS, AgentName, group_of
from streams.settings.tree import Settings

_PAGE: Final = """\
# Kafka permissions

<!-- Made by `python -m generate --write` from streams/kafka/topics; changes here are lost. -->

Copy the commands for the parts that you run, and replace topics and metrics by yours. Read and Write imply
Describe; before Kafka 2.8, idempotent writing also needs IdempotentWrite on the cluster.

## One worker with all parts

{worker}
## Separate parts

Each part (`--agents intake`, ...) has a user and a group of its own.

{intake}
{judge}
{monitor}
The verdict store reads without a group; `judgestream review` writes labels.

{store}
{review}
## Optional

For `judgestream doctor`, to check the settings of the broker and its topics (without these rights it warns):

{checking}
To create topics (`topics.create: true`, or `judgestream topics`):

{creating}
`judgestream produce`, and `judgestream tail`, which reads without a group:

{produce}
{tail}
`judgestream incident --rejudge` also writes to `qa.observations`.
"""


def files() -> Mapping[Path, str]:
    """Return the page by its path."""
    settings = Settings.model_validate({"metrics": {"coverage": {}, "relevance": {}}})
    topics = settings.topics

    def of(*agents: AgentName) -> list[Grant]:
        return worker_grants(settings, group_of(settings.kafka.group_id, agents), agents)

    everything = of(*AGENTS)
    granted = {
        "worker": (everything, ""),
        "intake": (of("intake"), "-intake"),
        "judge": (of("judge"), "-judge"),
        "monitor": (of("monitor"), "-monitor"),
        "store": (of("store"), "-store"),
        "review": (produce_grants(topics.labels), "-review"),
        "checking": (checking_grants(everything), ""),
        "creating": (creating_grants(everything), ""),
        "produce": (produce_grants(topics.events), "-sender"),
        "tail": (tail_grants(topics.scores), "-reader"),
    }
    blocks = {
        name: "\n".join(["```bash", *(one.command(f"User:judgestream{suffix}") for one in grants), "```", ""])
        for name, (grants, suffix) in granted.items()
    }
    return {DOCS / "permissions.md": _PAGE.format_map(blocks)}
