"""A judge with a limit of 60 requests per minute: use of the limit, and refused calls.

A pool with one loopback endpoint, always with a backlog, 0.7 s latency, up to 64 concurrent calls. The server
reports its limit in `x-ratelimit-*` headers, or only refuses with `Retry-After`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from benchmarks.report import Line
from benchmarks.troubled_judge import FixedWindow, troubled_judge
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.options import EndpointOptions
from judge.endpoints.pool import EndpointPool
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import parse_pack
from tests.judge.tasks import make_task

PER_MINUTE = 60
MINUTES = {"told in headers": 3, "Retry-After alone": 5}
LATENCY_SECONDS = 0.7


def run() -> Iterator[dict[str, object]]:
    """Measure; yields one record per number."""
    for kind, minutes in MINUTES.items():
        for line in asyncio.run(_limited(kind, minutes)):
            yield line.as_json()


async def _limited(kind: str, minutes: int) -> list[Line]:
    pack = parse_pack(b'[{role: user, content: "{answer}"}]', dialect="yaml", origin="benchmark")
    metric = PackMetric("tone", pack, score_range=(1, 5))
    limit = FixedWindow(PER_MINUTE, tells=kind == "told in headers")
    async with troubled_judge('{"score": 4}', latency_seconds=LATENCY_SECONDS, limit=limit) as server:
        chat = OpenAIChat(endpoint="limited", model="m", base_url=server.url)
        pool = EndpointPool([EndpointOptions(chat)])
        judge = pool.judge(metric)
        # More than can be judged in the time.
        tasks = [
            asyncio.create_task(judge.judge(make_task("tone", answer=str(number))))
            for number in range(2 * PER_MINUTE * minutes)
        ]
        began = time.monotonic()
        try:
            await asyncio.sleep(60)
            first = server.statuses[429], len(server.answered_at)
            await asyncio.sleep(60 * (minutes - 1))
            refused, answered = server.statuses[429], len(server.answered_at)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await pool.close()
    used = answered / (PER_MINUTE * (time.monotonic() - began) / 60)
    later = refused - first[0], answered - first[1]
    what = f"a limit of {PER_MINUTE} requests a minute, {kind}, {minutes} minutes"
    return [
        Line(f"{what}: used", round(used, 4), "1", aim="at least 0.9", met=used >= 0.9),
        _refused(f"{what}: refused", refused, answered),
        _refused(f"{what}: refused after the first minute", *later),
    ]


def _refused(what: str, refused: int, answered: int) -> Line:
    share = refused / max(1, answered + refused)
    return Line(what, round(share, 4), "1", aim="at most 0.02", met=share <= 0.02, note=f"{refused} calls")
