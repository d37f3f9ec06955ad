"""Intake, judge, monitor and store as processes on the embedded broker: one is killed, and its alert arrives.

Every duration of the shipped rules is divided by 60: an hour takes a minute, and a scrape has a second.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer

from judge.chat import OFFLINE_MODEL
from judge.offline.server import OfflineJudge
from streams.demo.events import EVERY, UNDECODABLE_AT, UNROUTABLE_AT, load_questions, make_record
from tests.alerting.monitoring import Scraped, monitoring
from tests.integration.deadlines import until
from tests.integration.kafka import free_ports
from tests.streams.cli.processes import Service, running

pytestmark = [pytest.mark.tools, pytest.mark.timeout(480)]

_PARTS = ("intake", "judge", "monitor", "store")
_JOB = "split"
_EXPECTED = {"JudgestreamNoWorker", "JudgestreamWorkerDown"}


def _settings(folder: Path, part: str, port: int, broker: str, judge: str) -> Path:
    document: dict[str, Any] = {
        "kafka": {"bootstrap_servers": broker, "start": "earliest"},
        "topics": {"create": True},
        "judge": {
            "endpoints": [{"name": "offline", "base_url": judge, "model": OFFLINE_MODEL}],
            "budget": "none",
        },
        "metrics": {"coverage": {}, "relevance": {}},
        "telemetry": {"host": "127.0.0.1", "port": port},
        "store": {"path": str(folder / "verdicts.db")},
    }
    path = folder / f"{part}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


async def _feed(broker: str) -> None:
    """Send four of the demo's events a second, without the broken ones."""
    questions = load_questions()
    async with AIOKafkaProducer(bootstrap_servers=broker) as producer:
        index = 0
        while True:
            if index % EVERY not in {UNDECODABLE_AT, UNROUTABLE_AT}:
                record = make_record(questions, index, worse=False, occurred_at=datetime.now(UTC))
                await producer.send_and_wait("qa.events", record.value)
            index += 1
            await asyncio.sleep(0.25)


async def test_a_killed_part_is_notified_and_so_is_its_return(tmp_path: Path) -> None:
    """The alert names the agent of the killed process, no other pages, and it is resolved afterwards."""
    async with AsyncExitStack() as stack:
        port, *ports = free_ports(1 + len(_PARTS))
        broker = f"127.0.0.1:{port}"
        await (await stack.enter_async_context(running("broker", "--port", str(port)))).line()
        judge = await stack.enter_async_context(OfflineJudge(latency_seconds=0.0))
        workers: dict[str, Service] = {}

        async def start(part: str, its_port: int) -> None:
            path = _settings(tmp_path, part, its_port, broker, judge.base_url)
            workers[part] = await stack.enter_async_context(
                running("worker", "--config", str(path), "--agents", part)
            )

        for part, its_port in zip(_PARTS, ports, strict=True):
            await start(part, its_port)
        traffic = asyncio.create_task(_feed(broker))
        stack.push_async_callback(_cancel, traffic)
        scraped = [Scraped(_JOB, f"127.0.0.1:{its_port}") for its_port in ports]
        watch = await stack.enter_async_context(monitoring(tmp_path, scraped, factor=60))

        async def calm() -> bool:
            parts = await watch.query(
                "count by (agent) (count_over_time(judgestream_worker_info[10m]) >= 10)"
            )
            results = await watch.query("sum(increase(judgestream_results_total[10m])) > 10")
            await asyncio.sleep(0.5)  # three queries load a busy machine
            silent = not await watch.query('ALERTS{alertstate="firing"}')
            return {one["metric"]["agent"] for one in parts} == set(_PARTS) and bool(results) and silent

        await until(calm, "all parts seen for ten scrapes, results, and no alert", deadline_seconds=120)
        assert await watch.rule_errors() == []
        watch.received.clear()

        await workers["monitor"].stop(signal.SIGKILL)
        await until(
            lambda: watch.notified("firing", "JudgestreamNoWorker", _JOB), "the alert", deadline_seconds=120
        )
        told = next(one for one in watch.received if one["labels"]["alertname"] == "JudgestreamNoWorker")
        assert told["labels"]["agent"] == "monitor"
        assert told["labels"]["severity"] == "critical"
        assert told["annotations"]["summary"].startswith("No worker runs the monitor: ")

        await start("monitor", ports[_PARTS.index("monitor")])
        await until(
            lambda: watch.notified("resolved", "JudgestreamNoWorker", _JOB), "its end", deadline_seconds=120
        )
        assert {one["labels"]["alertname"] for one in watch.received} <= _EXPECTED
        agents = {one["labels"].get("agent") for one in watch.received}
        assert agents <= {"monitor", None}
        assert not traffic.done()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
