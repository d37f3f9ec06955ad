"""An outage of the judge for a minute under load: lost events, and time to full speed.

The worker runs on the embedded broker with a loopback server of 0.5 s latency, always with a backlog. The
server answers 503, or 429 with `Retry-After: 1`, or hangs. Full speed is 90% of the verdicts per second
before the outage, over one second.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.report import Line
from benchmarks.troubled_judge import Trouble, TroubledJudge, troubled_judge
from tests.integration.deadlines import until
from tests.integration.stage import REPLY, Stage, event
from tests.threaded_broker import broker_in_thread

OUTAGE_SECONDS = 60.0
LATENCY_SECONDS = 0.5
IN_FLIGHT = 32
EVENTS = 2_500
BEFORE_SECONDS = 8.0
LONGEST_SECONDS = 240.0
FULL_SPEED = 0.9
AIM_SECONDS = 10.0


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one record per number."""
    kinds: tuple[Trouble, ...] = ("503", "429", "hang")
    for trouble in kinds:
        with tempfile.TemporaryDirectory() as directory, broker_in_thread() as servers:
            for line in asyncio.run(_outage(Stage(servers, Path(directory)), trouble)):
                yield line.as_json()


async def _outage(stage: Stage, trouble: Trouble) -> list[Line]:
    async with troubled_judge(REPLY, latency_seconds=LATENCY_SECONDS) as server:
        stage.base_url = server.url
        stage.changes = {"judge.max_in_flight": IN_FLIGHT, "judge.timeout_seconds": 15}
        async with stage.worker(None):
            await stage.produce([event(number) for number in range(EVENTS)])
            await until(lambda: len(server.answered_at) >= IN_FLIGHT, "verdicts", deadline_seconds=60)
            await asyncio.sleep(BEFORE_SECONDS)
            began = time.monotonic()
            speed = _within(server.answered_at, began - BEFORE_SECONDS / 2, began) / (BEFORE_SECONDS / 2)
            server.trouble = trouble
            await asyncio.sleep(OUTAGE_SECONDS)
            calls = server.refusals
            server.trouble = "none"
            back = time.monotonic()

            async def done() -> bool:
                await asyncio.sleep(1)
                return len(await stage.results()) >= EVENTS

            await until(done, "all judged", deadline_seconds=LONGEST_SECONDS)
        results, letters = await stage.results(), await stage.dead_letters()
    seconds = _seconds_to_full_speed(server, back, speed)
    lost = EVENTS - len({result.result_id for result in results if result.status == "scored"})
    what = f"a judge gone for {OUTAGE_SECONDS:.0f} s ({trouble})"
    return [
        Line(f"{what}: dead letters", len(letters), "records", aim="0", met=not letters),
        Line(f"{what}: events without a score", lost, "events", aim="0", met=lost == 0),
        Line(f"{what}: calls while it was gone", calls, "calls"),
        Line(
            f"{what}: until full speed",
            seconds,
            "seconds",
            aim=f"at most {AIM_SECONDS:.0f}",
            met=seconds is not None and seconds <= AIM_SECONDS,
            note=f"{speed:.1f} verdicts a second before, {IN_FLIGHT / LATENCY_SECONDS:.0f} possible",
        ),
    ]


def _within(moments: Sequence[float], begin: float, end: float) -> int:
    return sum(begin <= moment < end for moment in moments)


def _seconds_to_full_speed(server: TroubledJudge, back: float, speed: float) -> float | None:
    """Return the time to the end of the first second at full speed after the outage, or None."""
    for tenth in range(int(LONGEST_SECONDS * 10)):
        begin = back + tenth / 10
        if _within(server.answered_at, begin, begin + 1) >= FULL_SPEED * speed:
            return round(begin + 1 - back, 1)
    return None
