from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.integration.deadlines import until
from tests.streams.store.records import count_rows
from tests.streams.store.test_agent import _agent, _broker, _records, _running

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

RESULTS = 4_000
KILLS = 3
_KEEP = """
import asyncio, sys
from streams.kafka import reader
from streams.settings.tree import Settings
from streams.store.agent import StoreAgent

reader.MAX_RECORDS = 50  # many transactions, so that one is open at the kill
kept = {"path": sys.argv[1], "keep_days": 3_650, "max_gigabytes": 1}
agent = StoreAgent(Settings.model_validate({"kafka": {"bootstrap_servers": sys.argv[2]}, "store": kept}))
asyncio.run(agent.run())
"""


def _has_more(path: Path, had: int) -> bool:
    return count_rows(path) > had


async def test_a_store_whose_process_is_killed_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    async with _broker(_records(0, RESULTS)) as (broker, _):
        for _kill in range(KILLS):
            had = max(count_rows(path), 0)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _KEEP, str(path), broker.bootstrap_servers
            )
            try:
                await until(partial(_has_more, path, had), "more results")
            finally:
                process.kill()
                await process.wait()
        assert 0 < count_rows(path) < RESULTS  # else no write was in progress
        async with _running(_agent(path, broker)):
            await until(lambda: count_rows(path) >= RESULTS, "all results")
            await until(lambda: count_rows(path, "texts") >= RESULTS, "all texts")
        assert (count_rows(path), count_rows(path, "texts")) == (RESULTS, RESULTS)
