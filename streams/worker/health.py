"""Whether a worker is alive (making progress) and ready (able to work)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from judge.text.printable import NO_DESCRIPTORS

if TYPE_CHECKING:
    from streams.worker.worker import Worker

STUCK_LOOP_SECONDS: Final = 60.0
"""Limit for the delivery loop, which turns at least once a second; a rebalance may delay it."""
STUCK_AGENT_SECONDS: Final = 900.0
"""An agent with records in flight that finishes none for this long, and waits for no dependency, is stuck."""
SILENT_SECONDS: Final = 12.0
"""Four heartbeats of 3 s; `/readyz` reports within 15 s of the coordinator's last response."""
TOLD_FOR: Final = timedelta(days=1)
"""How long a note names a changed model."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The result of a health check: why it failed, and notes, which do not affect `ok`."""

    ok: bool
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Health:
    """Checks the parts of one worker; `now` is the monotonic clock, in seconds."""

    def __init__(self, worker: Worker, now: Callable[[], float] = time.monotonic) -> None:
        self._worker = worker
        self._now = now
        self.stopping = False

    def alive(self) -> HealthReport:
        """Whether a restart would not help: everything progresses or waits for a dependency."""
        reasons = []
        worker, loop, now = self._worker, self._worker.loop(), self._now()
        # There is no loop before the first assignment; waiting for a broker or a group is not being stuck.
        idle = 0.0 if loop is None or loop.last_turn is None else now - loop.last_turn
        if idle > STUCK_LOOP_SECONDS:
            reasons.append(f"the delivery loop has not run for {idle:.0f} s")
        waiting = (
            worker.judge_trouble is not None
            or worker.spending.deferring is not None
            or self._coordinator_silent() is not None
            or bool(worker.broker_troubles())
        )
        for agent in worker.pipelines:
            quiet = now - agent.last_finished
            limit = STUCK_AGENT_SECONDS + agent.patience_seconds
            if agent.in_hand and quiet > limit and not waiting:
                reasons.append(
                    f"agent {agent.name} has {agent.in_hand} records in flight and finished none for "
                    f"{quiet:.0f} s"
                )
        return HealthReport(not reasons, tuple(reasons))

    def ready(self) -> HealthReport:
        reasons = []
        worker, loop = self._worker, self._worker.loop()
        if self.stopping:
            reasons.append("stopping")
        if loop is None or not loop.assigned:
            reasons.append("no partitions assigned yet (joining or rebalancing)")
        if (trouble := worker.judge_trouble) is not None:
            reasons.append(trouble if NO_DESCRIPTORS in trouble else f"judge unavailable: {trouble}")
        if (silent := self._coordinator_silent()) is not None:
            reasons.append(silent)
        reasons += worker.broker_troubles()
        # Notes do not affect readiness: answers are judged without budget, store or citations.
        store = None if worker.store is None else worker.store.trouble
        notes = (worker.spending.deferring, store, worker.citations.note, *self._about_endpoints())
        return HealthReport(not reasons, tuple(reasons), tuple(note for note in notes if note is not None))

    def _about_endpoints(self) -> Iterator[str]:
        for one in self._worker.endpoints:
            if one.is_unwell:
                what = f"fails {one.failed_share:.0%} of its events at the first try"
                yield f"judge endpoint {one.name} {what}; one of its replicas may be broken"
        yield from self.about_models()

    def about_models(self) -> Iterator[str]:
        """Yield a note on each judge that answers with another model's name than a day before."""
        for one in self._worker.endpoints:
            changed_at = one.model_changed_at
            if changed_at is not None and datetime.now(UTC) - changed_at < TOLD_FOR:
                what = f"{one.model} answers instead of {one.earlier_model} since {changed_at:%F %H:%M} UTC"
                yield f"judge endpoint {one.name}: {what}; scores before and after are not comparable"

    def _coordinator_silent(self) -> str | None:
        """Return a message if the group coordinator, which gets regular heartbeats, does not answer."""
        loop, interval = self._worker.loop(), self._worker.settings.kafka.heartbeat_interval_seconds
        answered = None if loop is None or not loop.assigned else loop.coordinator_answered
        quiet = 0.0 if answered is None else self._now() - answered
        if quiet <= max(SILENT_SECONDS, 3 * interval):
            return None
        return f"the broker is unavailable: the group coordinator has not answered for {quiet:.0f} s"
