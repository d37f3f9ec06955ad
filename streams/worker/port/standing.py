"""Collect the state and history of one worker for its status page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from streams.kafka.topics.table import AgentName
from streams.monitoring.snapshot import MonitorSnapshot
from streams.settings import Settings
from streams.store.database import Reader
from streams.telemetry.instruments import Metrics
from streams.telemetry.partitions import PartitionState
from streams.worker.health import Health
from streams.worker.port.history import History, Point, lines_of
from streams.worker.port.past import earlier_points
from streams.worker.port.status import by_outcome, status_of
from streams.worker.port.totals import totals_of


class Standing:
    """Collects the data of the status page.

    Args:
        monitor: Returns a snapshot of the monitor; None without one.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        group_id: str,
        agents: tuple[AgentName, ...],
        metrics: Metrics,
        health: Health,
        ranges: dict[str, tuple[float, float]],
        partitions: Callable[[], tuple[PartitionState, ...]],
        monitor: Callable[[], MonitorSnapshot | None],
    ) -> None:
        self._settings = settings
        self._group_id = group_id
        self._agents = agents
        self._metrics = metrics
        self._health = health
        self._ranges = ranges
        self._partitions = partitions
        self._monitor = monitor
        self._started_at = time.monotonic()
        self._history = History()

    def status(self) -> dict[str, Any]:
        """Return the data of the page."""
        return status_of(
            group_id=self._group_id,
            agents=self._agents,
            running_seconds=time.monotonic() - self._started_at,
            events=self._metrics.event_counts(),
            partitions=self._partitions(),
            ready=self._health.ready(),
            monitor=self._monitor(),
            ranges=self._ranges,
            history=self._history,
            totals=totals_of(self._metrics.registry.collect()),
        ) | {
            "judge": {
                "trouble": self._health.judge_trouble(),
                "deferred": self._health.deferred(),
                "endpoints": [asdict(one) for one in self._health.endpoints()],
            }
        }

    async def remember(self) -> None:
        """Add a point to the history every few seconds."""
        if "store" in self._agents:
            reader = Reader(self._settings.store.path)
            self._history.begin_with(
                await asyncio.to_thread(earlier_points, reader, self._ranges, time.time())
            )
        while True:
            self._history.add(
                Point(
                    at=time.time(),
                    events=by_outcome(self._metrics.event_counts()),
                    lag=sum(state.lag_records or 0 for state in self._partitions()),
                    lines=lines_of(self._monitor()),
                )
            )
            await asyncio.sleep(self._history.step_seconds)
