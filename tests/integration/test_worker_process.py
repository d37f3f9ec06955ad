"""Behaviour that needs a real process and a real signal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas import JudgeTask
from tests.integration.deadlines import until
from tests.integration.processes import Endpoint, process
from tests.integration.stage import Stage, event


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path, endpoint: Endpoint) -> Stage:
    return Stage(bootstrap_servers, tmp_path, base_url=endpoint.url)


async def test_sigterm_ends_in_order(stage: Stage, endpoint: Endpoint) -> None:
    """SIGTERM exits with 0, finishes work in flight and commits exactly the records with a result.

    The last lines of the log say so: the signal, what was in flight, and what the next worker reads again.
    """
    endpoint.latency_seconds = 0.3
    async with process(stage) as worker:
        await stage.produce([event(number) for number in range(200)])
        await until(lambda: endpoint.answered >= 30, "some verdicts")
        log = await worker.end()
    results = await stage.results()
    assert 30 <= len(results) < 200
    assert len(results) == len({result.result_id for result in results})
    done = {result.result_id for result in results}
    committed = await stage.committed("tasks.tone")
    for record in await stage.read("tasks.tone"):
        # Every task below a committed offset has its result.
        is_done = JudgeTask.model_validate_json(record.value).result_id in done
        assert is_done or record.offset >= (committed[record.partition] or 0)
    # Work in flight at the signal was finished and committed: no task above the offsets has a result.
    assert sum(offset or 0 for offset in committed) == len(results)
    lines = [json.loads(line) for line in log.splitlines()]
    stopping, stopped = (line for line in lines if line["event"] in {"stopping", "stopped"})
    assert stopping["in_flight"]["judge-tone"] >= 1
    assert stopped == lines[-1]
    assert (stopped["reason"], stopped["finished"]) == ("SIGTERM", sum(stopping["in_flight"].values()))
    ends = {name: len(await stage.read(name)) for name in ("events", "tasks.tone")}
    assert 0 < stopped["read_again"] <= sum(ends.values())
