"""Several monitors with restarts raise the alerts of one monitor."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from schemas import RESULT, Alert
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from tests.integration.deadlines import until
from tests.integration.stage import Stage
from tests.streams.results import scored

CALM, FALLEN = 240, 60


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    return Stage(bootstrap_servers, tmp_path, changes={"monitor": {"labels": [], "baseline_samples": 20}})


def results(numbers: range) -> list[bytes]:
    """Scores of 5 and 4, then 1 and 2, then 5 and 4 again."""
    out = []
    for number in numbers:
        fallen = CALM <= number < CALM + FALLEN
        score = 1 + number % 2 if fallen else 5 - number % 3 % 2
        out.append(scored(number, score, metric="tone").model_dump_json().encode())
    return out


async def of_one_monitor(stage: Stage) -> dict[str, Alert]:
    """The alerts of one monitor that reads the observations in order."""
    monitor = Monitor(MonitorConfig(labels=(), baseline_samples=20, score_ranges={"tone": (1, 5)}))
    alerts: dict[str, Alert] = {}
    for record in await stage.read("observations"):
        result = RESULT.validate_json(record.value)
        for alert in monitor.observe(result, result.times.occurred_at):
            alerts[alert.alert_id] = alert
    return alerts


async def observed(stage: Stage, count: int, group: str) -> bool:
    """Whether this many results were forwarded, all observations read, and both committed."""
    if sum(offset or 0 for offset in await stage.committed("scores", group)) < count:
        return False
    ends = [0] * stage.partitions
    for record in await stage.read("observations"):
        ends[record.partition] = record.offset + 1
    return [offset or 0 for offset in await stage.committed("observations", group)] == ends


async def bring(stage: Stage, numbers: range, group: str) -> None:
    """Produce results and wait until they are observed.

    The order of results across partitions is random, so the three phases are produced one after the other: a
    burst of all could be observed as several drops.
    """
    await stage.produce(results(numbers), topic="scores")

    async def done() -> bool:
        return await observed(stage, numbers.stop, group)

    await until(done, f"{numbers.stop} results observed")


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [False, True], ids=["state", "damaged state"])
async def test_two_workers_and_restarts_give_the_alerts_of_one_monitor(stage: Stage, damaged: bool) -> None:
    """Two workers share the results; both stop during the drop and one continues: one drop, one recovery.

    Whether the saved state is sound or its series can no longer be read makes no difference.
    """
    group = f"{stage.settings.kafka.group_id}.monitor"
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(stage.worker(None, agents=["monitor"]))
        await stack.enter_async_context(stage.worker(None, agents=["monitor"]))
        await bring(stage, range(CALM), group)
        await bring(stage, range(CALM, 270), group)
    # A drop was raised and both workers stopped; the next worker restores that state.
    before = await stage.alerts()
    assert {alert.kind for alert in before} == {"drop"}
    if damaged:
        for record in await stage.read("monitor_state"):
            if len(json.loads(record.key)) > 1:
                place = {"key": record.key, "partition": record.partition}
                await stage.produce([b"not a state"], topic="monitor_state", **place)
    async with stage.worker(None, agents=["monitor"]):
        await bring(stage, range(270, CALM + FALLEN), group)
        await bring(stage, range(CALM + FALLEN, 700), group)
    found = await stage.alerts()
    wanted = await of_one_monitor(stage)
    assert {alert.alert_id for alert in found} == set(wanted)
    by_kind = [alert.kind for alert in wanted.values() if alert.measure == "mean" and not alert.further]
    assert by_kind == ["drop", "recovered"]
