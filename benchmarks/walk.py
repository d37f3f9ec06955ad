"""Count the files, folders and functions that one event passes: `python -m benchmarks.walk [--list]`.

A worker with only intake, and one with only the judge, process one event or task at a time under
`sys.setprofile`, in all threads. Functions count that are called for each of three events but not while idle,
which excludes timers and polls. The in-memory broker and the judge's process do not count.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.judgeable import event_of, instant_judge, name_of
from benchmarks.judging import judge_tasks
from streams.settings.tree import Settings
from streams.worker.run import run_worker
from tests.threaded_broker import broker_in_thread

ROOT: Final = Path(__file__).resolve().parents[1]
EVENTS: Final = 3
IDLE_SECONDS: Final = 8.0
"""Duration of the recording while idle."""
AFTER_SECONDS: Final = 2.0
"""Wait after the result, for the commit of offsets."""
ANSWER_SECONDS: Final = 60.0
READING: Final = ("judge/metrics/", "judge/text/")
"""Modules of metric and text rules, which are not counted as steps."""

Passed = set[tuple[str, str]]
"""Files and function names."""


class Walk:
    """Records calls; install it before the worker's threads start."""

    def __init__(self) -> None:
        self._packages = tuple(f"{ROOT}/{package}/" for package in ("streams", "judge", "schemas"))
        self._left_out = f"{ROOT}/streams/embedded/"
        self._passed: Passed | None = None
        self.stack: list[tuple[str, str]] = []
        """Our frames at the last HTTP request, outermost first."""

    def __enter__(self) -> Self:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def begin(self) -> None:
        """Discard earlier calls."""
        self._passed = set()

    def end(self) -> Passed:
        """Return what was called since `begin`."""
        passed, self._passed = self._passed or set(), None
        return passed

    def _see(self, frame: FrameType, what: str, _: object) -> None:
        if self._passed is None or what != "call":
            return
        code = frame.f_code
        if code.co_qualname == "AsyncClient.send":
            self.stack = self._ours(frame)
        elif self._is_ours(code.co_filename):
            self._passed.add(_place(frame))

    def _is_ours(self, file: str) -> bool:
        return file.startswith(self._packages) and not file.startswith(self._left_out)

    def _ours(self, frame: FrameType | None) -> list[tuple[str, str]]:
        stack = []
        while frame is not None:
            if self._is_ours(frame.f_code.co_filename):
                stack.append(_place(frame))
            frame = frame.f_back
        return stack[::-1]


def _place(frame: FrameType) -> tuple[str, str]:
    code = frame.f_code
    name = code.co_qualname.replace(".<locals>", "").split(".<")[0]
    return str(Path(code.co_filename).relative_to(ROOT)), name


async def walk(agent: str, walked: Walk, base_url: str) -> Passed:
    """Run a worker with only this agent on events, one at a time."""
    with broker_in_thread() as servers:
        settings = Settings.model_validate(
            {
                "kafka": {"bootstrap_servers": servers, "group_id": f"walk-{agent}"},
                "topics": {"create": True},
                "sampling": {"default_rate": 1.0},
                "metrics": {"relevance": {}},
                "judge": {"endpoints": [{"name": "instant", "base_url": base_url, "model": "instant-1"}]},
                "telemetry": {"port": 0, "log_level": "warning"},
            }
        )
        async with _worker(settings, agent), _ends(servers, settings, agent) as send_and_wait:
            await send_and_wait(0)  # one-time initialisation
            await asyncio.sleep(AFTER_SECONDS)
            walked.begin()
            await asyncio.sleep(IDLE_SECONDS)
            idle = walked.end()
            seen = []
            for number in range(1, EVENTS + 1):
                walked.begin()
                await send_and_wait(number)
                await asyncio.sleep(AFTER_SECONDS)
                seen.append(walked.end())
    return set.intersection(*seen) - idle


@asynccontextmanager
async def _worker(settings: Settings, agent: Any) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(
        run_worker(settings, stop=stop, agents=(agent,), on_ready=lambda _: ready.set())
    )
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield
    finally:
        stop.set()
        waiting.cancel()
        await running


@asynccontextmanager
async def _ends(servers: str, settings: Settings, agent: str) -> AsyncIterator[Callable[[int], Any]]:
    """Yield a function that sends an event to the worker and returns when its task or result is written."""
    topics = settings.topics
    tasks = topics.task_topic("relevance")
    into, out_of = (topics.events, tasks) if agent == "intake" else (tasks, topics.scores)
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    consumer = AIOKafkaConsumer(out_of, bootstrap_servers=servers, auto_offset_reset="earliest")
    await producer.start()
    await consumer.start()

    async def send_and_wait(number: int) -> None:
        value = _event(number) if agent == "intake" else _task(number)
        await producer.send_and_wait(into, value, key=b"walk-%d" % number)
        await asyncio.wait_for(consumer.getone(), ANSWER_SECONDS)

    try:
        yield send_and_wait
    finally:
        await producer.stop()
        await consumer.stop()


def _event(number: int) -> bytes:
    return event_of(name_of(number)).model_dump_json(exclude_none=True).encode()


def _task(number: int) -> bytes:
    return list(judge_tasks(number + 1))[-1][1]


def main(arguments: Sequence[str]) -> None:
    """Print the counts, one JSON object per line; with `--list` also the functions."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with instant_judge(0.0) as base_url:
        for agent in ("intake", "judge"):
            with Walk() as walked:
                passed = asyncio.run(walk(agent, walked, base_url.strip()))
            files = {file for file, _ in passed}
            reading = {file for file in files if file.startswith(READING)}
            counts: dict[str, object] = {
                "walk": agent,
                "functions": len(passed),
                "files": len(files),
                "folders": len({str(Path(file).parent) for file in files}),
                "files_of_the_way": len(files - reading),
                "files_that_read_texts": len(reading),
            }
            if walked.stack:
                names = [name for _, name in walked.stack]
                below = walked.stack[names.index("JudgeAgent.handle") :]
                counts["frames_to_the_post"] = len(below)
                counts["classes_to_the_post"] = len(
                    {(file, name.rpartition(".")[0]) for file, name in below if "." in name}
                )
            print(json.dumps(counts))
            if "--list" in arguments:
                for file in sorted(files):
                    print(f"  {file}: {', '.join(sorted(name for place, name in passed if place == file))}")
                for file, name in walked.stack:
                    print(f"  > {file}:{name}")


if __name__ == "__main__":
    main(sys.argv[1:])
