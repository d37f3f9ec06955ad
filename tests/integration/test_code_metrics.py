"""A worker with metric functions, most of them broken."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schemas import Failed, Scored
from tests.integration.stage import Stage, event
from tests.integration.test_worker import Chat

FUNCTIONS = "tests.judge.metrics.code.functions"
BROKEN = ("sleeps", "exits", "raises", "rubbish")
JUDGED = 100


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    metrics: dict[str, Any] = {
        name: {
            "python": {"function": f"{FUNCTIONS}:{name}", "seconds": 0.2 if name == "sleeps" else 60},
            "when": {"labels": {"app": "broken"}},
        }
        for name in BROKEN
    }
    metrics["words"] = {
        "python": {"function": f"{FUNCTIONS}:words", "seconds": 60},
        "score_range": [0, 10],
        "when": {"labels": {"app": "sound"}},
    }
    changes = {f"metrics.{name}": settings for name, settings in metrics.items()}
    return Stage(bootstrap_servers, tmp_path, changes=changes)


@pytest.mark.slow
async def test_broken_functions_fail_alone(stage: Stage) -> None:
    """Every result of a broken function is a failure with its reason; the worker and the other metrics
    continue. There are two events for each broken function, forty for the sound one and all for the judged
    metric.
    """
    values = [event(number, labels={"app": "broken" if number < 2 else "sound"}) for number in range(42)]
    due = {("tone", "scored"): 42, ("words", "scored"): 40} | {(name, "failed"): 2 for name in BROKEN}
    async with stage.worker(Chat()):
        await stage.produce(values)
        await stage.holds(at_least=True, scores=sum(due.values()))
    results = await stage.results()
    assert Counter((one.metric, one.status) for one in results) == due
    assert {one.error_type for one in results if isinstance(one, Failed)} == {"metric_error"}
    assert {one.value for one in results if isinstance(one, Scored) and one.metric == "words"} == {2}
    assert await stage.dead_letters() == []
