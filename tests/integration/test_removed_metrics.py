"""Waiting tasks of a metric that was removed from the settings are reported and drained."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import ANY

import pytest

from streams.errors import TopicsError
from streams.kafka.topics.removed import drain, removed_tasks
from tests.integration.conftest import RunningBroker
from tests.integration.deadlines import until
from tests.integration.stage import Stage, event
from tests.integration.test_worker import Chat


async def test_tasks_of_a_removed_metric_are_shown_and_drained(broker: RunningBroker, tmp_path: Path) -> None:
    """Of 8 tasks 2 are judged before the metric is removed: 6 are shown, and drained to dead letters."""
    stage = Stage(broker.bootstrap_servers, tmp_path, partitions=2, metrics=("tone", "style"))
    async with stage.worker(Chat()):
        await stage.produce([event(number) for number in range(2)])
        await stage.commits("tasks.style", 2)
    assert await removed_tasks(stage.settings) == {}
    async with stage.worker(None, agents=("intake",)):
        await stage.produce([event(number) for number in range(2, 6)])
        await stage.holds(tasks_style=8)  # the intake group is new and reads all six events
    with pytest.raises(TopicsError, match="metric style is in the settings"):
        await drain(stage.settings, "style")
    stage.metrics = ("tone",)
    assert await removed_tasks(stage.settings) == {"style": 6}
    async with stage.worker(Chat()) as (_, registry):

        def shown() -> bool:
            return registry.get_sample_value("judgestream_removed_metric_tasks", {"metric": "style"}) == 6.0

        await until(shown, "the gauge")
        assert await drain(stage.settings, "style", dry_run=True) == 6
        assert await drain(stage.settings, "style") == 6
    assert await removed_tasks(stage.settings) == {}
    assert await drain(stage.settings, "style") == 0
    letters = await stage.dead_letters()
    assert {(letter.reason, letter.event_id) for letter in letters} == {
        ("unknown_metric", f"e{number}") for number in range(6)
    }
    assert [letter.key for letter in letters] == [ANY] * 6
    with pytest.raises(TopicsError, match=r"there is no topic .*\.never"):
        await drain(stage.settings, "never")
