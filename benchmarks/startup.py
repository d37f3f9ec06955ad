"""Time from process start to the first result, and the share of imports.

The worker's broker is already running and filled; the demo starts everything itself.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml
from aiokafka import AIOKafkaConsumer

from benchmarks.broker import COMMAND, Broker, fresh_name, running_broker
from benchmarks.judgeable import event_of, instant_judge, name_of
from benchmarks.report import Line

ROUNDS = 3
AIM_SECONDS = 3.0
_DEADLINE_SECONDS = 60.0


def run() -> Iterator[dict[str, object]]:
    """Measure worker, demo and imports; the best of a few rounds each."""
    with running_broker() as broker, instant_judge(0.0) as base_url:
        worker = min(_worker_seconds(broker, base_url) for _ in range(ROUNDS))
    for name, seconds in (
        ("worker: process start to first result", worker),
        ("demo --events 20: process start to end", min(_demo_seconds() for _ in range(ROUNDS))),
    ):
        yield Line(
            f"start-up, {name}",
            round(seconds, 2),
            "s",
            aim=f"less than {AIM_SECONDS:g} s",
            met=seconds < AIM_SECONDS,
            note=broker.name if name.startswith("worker") else "embedded broker and offline judge included",
        ).as_json()
    imports = min(_seconds([sys.executable, "-c", "import streams.worker.run"]) for _ in range(ROUNDS))
    bare = min(_seconds([sys.executable, "-c", ""]) for _ in range(ROUNDS))
    yield Line(
        "start-up, of it the worker's imports",
        round(imports, 2),
        "s",
        baseline=round(bare, 2),
        note="baseline: an interpreter that does nothing",
    ).as_json()


def _worker_seconds(broker: Broker, base_url: str) -> float:
    group = fresh_name("bench-start")
    settings = {
        "kafka": {"bootstrap_servers": broker.bootstrap_servers, "group_id": group, "start": "earliest"},
        "topics": {
            "events": broker.topic(f"{group}.events"),
            "prefix": f"{group}.",
            "scores": broker.topic(f"{group}.scores"),
            "create": True,
        },
        "metrics": {"relevance": {"when": {"has": ["context"]}}},
        "judge": {"endpoints": [{"name": "instant", "base_url": base_url.strip(), "model": "instant-1"}]},
        "telemetry": {"port": 0, "log_level": "warning"},
    }
    events = [event_of(name_of(number)).model_dump_json().encode() for number in range(20)]
    broker.fill(f"{group}.events", ((b"k%d" % number, event) for number, event in enumerate(events)))
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "settings.yaml"
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        return asyncio.run(
            _first_result(broker, f"{group}.scores", [*COMMAND, "worker", "--config", str(config)])
        )


async def _first_result(broker: Broker, scores: str, command: list[str]) -> float:
    consumer = AIOKafkaConsumer(
        scores, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=20
    )
    await consumer.start()
    try:
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*command)
        try:
            await asyncio.wait_for(consumer.getone(), _DEADLINE_SECONDS)
            return time.perf_counter() - started
        finally:
            process.terminate()
            await process.wait()
    finally:
        await consumer.stop()


def _demo_seconds() -> float:
    return _seconds([*COMMAND, "demo", "--events", "20", "--json"])


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=_DEADLINE_SECONDS)
    return time.perf_counter() - started


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result), flush=True)
