"""Runs faults concurrently: each mostly waits, and they share only the broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.arena import Arena, Fault, Size
from tests.chaos.checker import Report
from tests.chaos.processes import Judge
from tests.chaos.proxy import Proxy
from tests.integration.cluster import KafkaCluster
from tests.integration.kafka import ApacheKafka

KEPT: Final = "CHAOS_REPORT"
"""Names a Markdown file for the report; each finished fault adds or replaces its row."""
SEATS: Final = 4 * (os.cpu_count() or 1)

HEAD: Final = (
    *("fault", "events", "results", "set aside", "duplicates"),
    *("lost", "invented", "problems", "log lines", "seconds"),
)
Row = tuple[str, ...]
"""The cells of a fault, in the order of `HEAD`."""


class Seats:
    """Limits concurrent worker processes: faults go in order, but one that fits may overtake."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._free = total
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def taken(self, count: int | None) -> AsyncIterator[None]:
        """Wait for seats and hold them; None takes all."""
        wanted = self._total if count is None else min(count, self._total)
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= wanted)
            self._free -= wanted
        try:
            yield
        finally:
            async with self._changed:
                self._free += wanted
                self._changed.notify_all()


@dataclass(eq=False)
class Programme:
    kafka: ApacheKafka
    size: Size
    directory: Path
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seats = Seats(SEATS)
        self._at_the_proxy = asyncio.Lock()
        self._at_the_cluster = asyncio.Lock()
        self._cluster: KafkaCluster | None = None
        self._tasks: dict[str, asyncio.Task[Report]] = {}

    def start(self, faults: Sequence[Fault]) -> None:
        """Start all faults; those that need the broker alone run last, when all seats are free."""
        # Proxied faults run one after the other, so they start first.
        for fault in sorted(
            faults,
            key=lambda one: ("cluster", "proxied cluster", "proxied", "shared", "alone").index(one.access),
        ):
            self._tasks[fault.name] = asyncio.create_task(self._run(fault))

    async def report(self, fault: Fault) -> Report:
        return await self._tasks[fault.name]

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._cluster is not None:
            await asyncio.to_thread(self._cluster.stop)

    async def _three_brokers(self) -> KafkaCluster:
        if self._cluster is None:
            folder = self.directory / "cluster"
            folder.mkdir()
            self._cluster = KafkaCluster(folder)
            await asyncio.to_thread(self._cluster.start)
        return self._cluster

    async def _run(self, fault: Fault) -> Report:
        async with contextlib.AsyncExitStack() as stack:
            if fault.access == "proxied":
                await stack.enter_async_context(self._at_the_proxy)
            if "cluster" in fault.access:
                await stack.enter_async_context(self._at_the_cluster)
            await stack.enter_async_context(
                self._seats.taken(None if fault.access == "alone" else fault.workers)
            )
            return await self._play(fault, stack)

    async def _play(self, fault: Fault, stack: contextlib.AsyncExitStack) -> Report:
        started = time.monotonic()
        directory = self.directory / fault.slug
        directory.mkdir()
        judge = Judge(directory / "judge.log")
        stack.push_async_callback(judge.kill)
        await judge.start()
        cluster = await self._three_brokers() if "cluster" in fault.access else None
        proxies = []
        if "proxied" in fault.access:
            nodes = [self.kafka] if cluster is None else cluster.nodes
            proxies = [Proxy(node.proxy_port, node.detour_port) for node in nodes]
        for proxy in proxies:
            await proxy.open()
            stack.push_async_callback(proxy.close)
        arena = Arena(
            self.kafka, directory, judge, self.size, fault.workers, proxies, cluster=cluster, team=fault.team
        )
        stack.push_async_callback(arena.close)
        await arena.create_topics()
        try:
            return await fault.play(arena)
        finally:
            row = row_of(fault.name, arena.report, arena.log_lines, time.monotonic() - started)
            self.rows.append(row)
            if kept := os.environ.get(KEPT):
                keep(Path(kept), row)


def row_of(fault: str, report: Report | None, log_lines: int, seconds: float) -> Row:
    """Without a report the fault broke off."""
    if report is None:
        return (fault, "broke off", *[""] * (len(HEAD) - 3), str(round(seconds)))
    aside = report.dead_letters + report.outcomes["undecodable"] + report.outcomes["unroutable"]
    numbers = (
        *(report.read, report.results, aside, report.duplicates, report.lost, report.invented),
        *(len(report.problems), log_lines, round(seconds)),
    )
    return (fault, *(f"{number:,}" for number in numbers))


def aligned(rows: Sequence[Row]) -> list[str]:
    table = [HEAD, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table]


def keep(file: Path, row: Row) -> None:
    """Add a row to a Markdown table, or replace the row of the same fault."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    kept = {line.split(" | ")[0].removeprefix("| "): line for line in lines[2:]}
    kept[row[0]] = _line(row)
    head = [_line(HEAD), "|" + "---|" * len(HEAD)]
    file.write_text("\n".join([*head, *kept.values()]) + "\n", encoding="utf-8")


def _line(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"
