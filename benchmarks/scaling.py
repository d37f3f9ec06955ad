"""Time of one and of three workers for a backlog, with the judge as bottleneck.

`python -m benchmarks scaling` (4 minutes). One worker, then three, each a process as `judgestream worker
--agents judge` starts
it: they wait at an empty topic of six partitions, 20,000 tasks are written at once, and the time is taken
    until all results are on the scores topic. The judge takes a second per verdict, and a worker has at most
    160 calls in flight, so one worker's CPU is mostly idle and three fit on two cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from aiokafka import AIOKafkaConsumer, TopicPartition

from benchmarks.broker import COMMAND, Broker, fresh_name, running_broker
from benchmarks.judgeable import instant_judge
from benchmarks.judging import judge_tasks
from benchmarks.report import Line

TASKS = 20_000
PARTITIONS = 6
MANY = 3
IN_FLIGHT = 160
LATENCY_SECONDS = 1.0
MOST_RATIO = 0.4
DEADLINE_SECONDS = 280.0
_LOOK_SECONDS = 0.1
_READS = '"event": "reading"'
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Emptied:
    """Measurements of emptying the backlog.

    Args:
        seconds: Time from the first task written to the last result.
        cpu_seconds: CPU time of each worker.
        written: Number of results.
        distinct: Number of distinct result ids.
    """

    seconds: float
    cpu_seconds: tuple[float, ...]
    written: int
    distinct: int


def run() -> Iterator[dict[str, object]]:
    """Measure one worker and three."""
    with running_broker() as broker, instant_judge(LATENCY_SECONDS) as base_url:
        one = _empty(broker, base_url.strip(), 1)
        many = _empty(broker, base_url.strip(), MANY)
        for line in _lines(broker.name, one, many):
            yield line.as_json()


def _lines(broker: str, one: Emptied, many: Emptied) -> Iterator[Line]:
    note = (
        f"{broker}, {PARTITIONS} partitions; judge of {LATENCY_SECONDS:g} s, {IN_FLIGHT} calls at a "
        "time a worker"
    )
    yield Line(
        f"scaling: {MANY} judge workers empty a backlog of {TASKS} tasks",
        round(many.seconds, 1),
        "s",
        baseline=round(one.seconds, 1),
        aim=f"at most {MOST_RATIO} of one worker's time",
        met=many.seconds <= MOST_RATIO * one.seconds,
        note=f"{note}; baseline: one worker",
    )
    for workers, emptied in ((1, one), (MANY, many)):
        yield Line(
            f"scaling: verdicts a second, workers: {workers}",
            round(TASKS / emptied.seconds),
            "verdicts/s",
            baseline=workers * IN_FLIGHT / LATENCY_SECONDS,
            note=f"{note}; baseline: what the judge allows; cores that each worker used: "
            f"{', '.join(f'{cpu / emptied.seconds:.2f}' for cpu in emptied.cpu_seconds)}",
        )
    yield Line(
        "scaling: tasks without a result",
        2 * TASKS - one.distinct - many.distinct,
        "tasks",
        aim="0",
        met=one.distinct == many.distinct == TASKS,
        note=(
            f"{note}; results written more often than once: "
            f"{one.written + many.written - one.distinct - many.distinct}"
        ),
    )


def _empty(broker: Broker, base_url: str, workers: int) -> Emptied:
    name = fresh_name("scaling")
    topic = broker.topic(f"{name}.judge.tasks.relevance", PARTITIONS)
    scores = broker.topic(f"{name}.scores", PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="scaling-") as directory:
        settings = Path(directory) / "settings.yaml"
        settings.write_text(yaml.safe_dump(_settings(broker, name, base_url)), encoding="utf-8")
        with _working(settings, workers) as pids:
            before = [_cpu_seconds(pid) for pid in pids]
            started = time.monotonic()
            broker.fill(topic, judge_tasks(TASKS), PARTITIONS)
            asyncio.run(_until_written(broker.bootstrap_servers, scores, pids))
            seconds = time.monotonic() - started
            cpu = tuple(_cpu_seconds(pid) - begin for pid, begin in zip(pids, before, strict=True))
        ids = asyncio.run(_result_ids(broker.bootstrap_servers, scores))
    return Emptied(seconds, cpu, len(ids), len(set(ids)))


def _settings(broker: Broker, name: str, base_url: str) -> dict[str, Any]:
    return {
        "kafka": {"bootstrap_servers": broker.bootstrap_servers, "group_id": name, "start": "earliest"},
        "topics": {
            "prefix": f"{name}.",
            "scores": f"{name}.scores",
            "dead_letters": f"{name}.dead",
            "create": True,
        },
        "metrics": {"relevance": {"when": {"has": ["context"]}}},
        "judge": {
            "endpoints": [{"name": "slow", "base_url": base_url, "model": "instant-1"}],
            "max_in_flight": IN_FLIGHT,
        },
        "telemetry": {"port": 0},
    }


@contextlib.contextmanager
def _working(settings: Path, count: int) -> Iterator[Sequence[int]]:
    """Run this many workers that wait for tasks; yields their process ids."""
    processes: list[subprocess.Popen[bytes]] = []
    logs = [settings.with_name(f"worker-{number}.log") for number in range(count)]
    try:
        for log in logs:
            with log.open("wb") as out:
                command = [*COMMAND, "worker", "--config", str(settings), "--agents", "judge"]
                processes.append(subprocess.Popen(command, stdout=out, stderr=out))
        deadline = time.monotonic() + DEADLINE_SECONDS
        for process, log in zip(processes, logs, strict=True):
            while _READS not in (text := log.read_text("utf-8", errors="replace")):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"a worker does not read; the end of its log: {text[-2000:]}")
                time.sleep(_LOOK_SECONDS)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _until_written(bootstrap_servers: str, topic: str, pids: Sequence[int]) -> None:
    """Wait until a topic has as many results as there were tasks."""
    async with _reading(bootstrap_servers) as consumer:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        deadline = time.monotonic() + DEADLINE_SECONDS
        while sum((await consumer.end_offsets(places)).values()) < TASKS:
            for pid in pids:
                os.kill(pid, 0)  # raises if the process has ended
            if time.monotonic() > deadline:
                raise TimeoutError(f"the backlog was not empty after {DEADLINE_SECONDS:.0f} s")
            await asyncio.sleep(_LOOK_SECONDS)


async def _result_ids(bootstrap_servers: str, topic: str) -> list[str]:
    async with _reading(bootstrap_servers) as consumer:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        most = sum((await consumer.end_offsets(places)).values())
        ids: list[str] = []
        while len(ids) < most:
            for batch in (await consumer.getmany(timeout_ms=1000)).values():
                ids += [json.loads(record.value)["result_id"] for record in batch]
        return ids


@contextlib.asynccontextmanager
async def _reading(bootstrap_servers: str) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, all threads."""
    # Fields 12 and 13 after the process name (up to the last bracket) are user and system time.
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result), flush=True)
