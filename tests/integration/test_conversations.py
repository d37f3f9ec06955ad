"""Conversations from a topic to results: events at once, the whole when it is idle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted

from tests.integration.stage import Chat, Stage, event
from tests.integration.tuning import CLOSING

PACK = "---\nscore_range: [1, 5]\n---\n{{ item.messages }}\n\nAnswer: {{ item.output_text }}\n"
TURNS = 3


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    pack = tmp_path / "whole.md"
    pack.write_text(PACK, encoding="utf-8")
    changes = {
        "metrics.whole": {"prompt_pack": str(pack), "unit": "conversation"},
        "sampling": {"key": "record_key"},
        "ingest": {"idle_seconds": 1},
    }
    return Stage(bootstrap_servers, tmp_path, changes=changes, constants={CLOSING: 0.1})


def turn(conversation: int, number: int) -> tuple[bytes, bytes]:
    """One event of a conversation, keyed by it."""
    key = f"c{conversation}"
    return key.encode(), event(10 * conversation + number, conversation_id=key)


async def test_events_are_judged_at_once_and_conversations_as_a_whole(stage: Stage) -> None:
    stage.partitions = 1

    async with stage.worker(Chat()):
        await stage.produce_keyed([turn(one, number) for number in range(TURNS) for one in range(2)])
        await stage.holds(at_least=True, scores=2 * TURNS + 2)
        await stage.commits("events", 2 * TURNS)
    results = await stage.results()
    assert Counter(one.metric for one in results) == {"tone": 2 * TURNS, "whole": 2}
    assert {one.event_id for one in results if one.metric == "whole"} == {"c0", "c1"}
    assert {len(task.messages or ()) for task in await stage.tasks("whole")} == {2 * TURNS}
    assert {task.messages for task in await stage.tasks("tone")} == {None}
