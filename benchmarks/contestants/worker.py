"""judgestream's worker, as run by `judgestream worker`; its metrics show the progress."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.contestants.pace import Pace
from benchmarks.contestants.profiling import profiled
from streams.cli.running import run_until_stopped
from streams.settings.tree import Settings
from streams.telemetry.logs import set_up_logs
from streams.worker.run import run_worker

LOOK_SECONDS = 0.02
_PAGE_BYTES = 4096


def main(plan: dict[str, Any]) -> None:
    """Run the worker until its count reaches the plan's, then print the measurements."""
    settings = Settings.model_validate(plan["settings"])
    set_up_logs(settings.telemetry)
    pace = Pace(plan["total"])
    with profiled():
        run_until_stopped(lambda stop: _run(plan, settings, pace, stop))
    pace.tell()


async def _run(plan: dict[str, Any], settings: Settings, pace: Pace, stop: asyncio.Event) -> None:
    registry = CollectorRegistry()
    worker = asyncio.create_task(run_worker(settings, stop=stop, agents=plan["agents"], registry=registry))
    watch = asyncio.create_task(_watch(plan["counted"], registry, pace))
    await asyncio.wait({worker, watch}, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    await worker
    watch.cancel()
    with suppress(asyncio.CancelledError):
        await watch


async def _watch(counted: str, registry: CollectorRegistry, pace: Pace) -> None:
    """Record progress, times and process size until all is done."""
    curve: list[tuple[float, int, int]] = []
    count = 0
    while not pace.seen(count, curve=curve):
        await asyncio.sleep(LOOK_SECONDS)
        before, count = count, _count(registry, counted)
        if count != before:
            curve.append((time.perf_counter(), count, _resident_bytes()))


def _count(registry: CollectorRegistry, name: str) -> int:
    # The one collector that counts: fifty scrapes a second of all would be a twentieth of the worker's work.
    # Events are counted by one without `describe`, which the registry cannot restrict itself to.
    collectors: list[Any] = list(registry._collector_to_names)  # noqa: SLF001 - as above
    counting = next((one for one in collectors if _counts(one, name)), None)
    families = () if counting is None else counting.collect()
    return int(sum(sample.value for family in families for sample in family.samples if sample.name == name))


@cache
def _counts(collector: Any, name: str) -> bool:
    return any(f"{family.name}_total" == name for family in collector.collect())


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_BYTES


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
