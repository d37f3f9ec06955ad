"""Whether a worker is alive (making progress) and ready (able to do its work)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from streams.worker.pipeline import Pipeline

STUCK_LOOP_SECONDS: Final = 60.0
"""The delivery loop turns at least once a second; a rebalance may hold it up for a while."""
STUCK_AGENT_SECONDS: Final = 900.0
"""An agent with records in flight that finishes none for this long, and waits for no other party, is
stuck.
"""


SILENT_SECONDS: Final = 12.0
"""Four heartbeats of 3 s, the default; `/readyz` then says so within 15 s of the coordinator's last answer.
"""


class Loop(Protocol):
    """The delivery loop, as `streams.kafka.transport.Consumer` has it."""

    @property
    def last_turn(self) -> float | None:
        """When it last turned, on the monotonic clock; None before its start."""

    @property
    def assigned(self) -> bool:
        """Whether the group has said what is to be read here."""

    @property
    def coordinator_answered(self) -> float | None:
        """When the group's coordinator answered last, on the monotonic clock; None before it is asked."""


@dataclass(frozen=True, slots=True)
class Report:
    """An answer to "how are you"."""

    ok: bool
    reasons: tuple[str, ...] = ()
    """Why not; each in words for a person."""
    notes: tuple[str, ...] = ()
    """What else there is to know; it does not stand against `ok`."""


class Health:
    """Answers for the parts of one worker.

    Args:
        loop: Gives the delivery loop; None before it is there.
        agents: The agents.
        judge_trouble: Why the judge cannot be reached; None while it can, or where no judge runs.
        broker_trouble: What is wrong between the broker and us: each thing that is; nothing while all is
            well.
        silent_seconds: A group coordinator that has not answered for this long is unavailable.
        deferred: Why tasks are left to wait on purpose; None while they are not.
        store_trouble: Why the verdict store is not written; None while it is, or where none runs.
        citations: What is to be known of the answers' citations; None where nothing is.
        now: The monotonic clock, in seconds.
    """

    def __init__(
        self,
        *,
        loop: Callable[[], Loop | None],
        agents: Sequence[Pipeline],
        judge_trouble: Callable[[], str | None],
        broker_trouble: Callable[[], Sequence[str]],
        silent_seconds: float = SILENT_SECONDS,
        deferred: Callable[[], str | None] = lambda: None,
        store_trouble: Callable[[], str | None] = lambda: None,
        citations: Callable[[], str | None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._agents = agents
        self._judge_trouble = judge_trouble
        self._broker_trouble = broker_trouble
        self._silent_seconds = silent_seconds
        self._deferred = deferred
        self._store_trouble = store_trouble
        self._citations = citations
        self._now = now
        self.stopping = False

    def alive(self) -> Report:
        """Whether restarting the worker would not help: everything moves, or waits for another party."""
        reasons = []
        loop, now = self._loop(), self._now()
        # Before the first assignment there is no loop yet; waiting for a broker or a group is not being
        # stuck.
        idle = 0.0 if loop is None or loop.last_turn is None else now - loop.last_turn
        if idle > STUCK_LOOP_SECONDS:
            reasons.append(f"the delivery loop has not run for {idle:.0f} s")
        waiting = (
            self._judge_trouble() is not None
            or self._deferred() is not None
            or self._coordinator_silent() is not None
            or bool(self._broker_trouble())
        )
        for agent in self._agents:
            quiet = now - agent.last_finished
            if agent.in_hand and quiet > STUCK_AGENT_SECONDS and not waiting:
                reasons.append(
                    f"agent {agent.name} has {agent.in_hand} records in flight and finished none for "
                    f"{quiet:.0f} s"
                )
        return Report(not reasons, tuple(reasons))

    def ready(self) -> Report:
        """Whether the worker can do its work now."""
        reasons = []
        loop = self._loop()
        if self.stopping:
            reasons.append("stopping")
        if loop is None or not loop.assigned:
            reasons.append("no partitions assigned yet (joining or rebalancing)")
        trouble = self._judge_trouble()
        if trouble is not None:
            reasons.append(f"judge unavailable: {trouble}")
        silent = self._coordinator_silent()
        if silent is not None:
            reasons.append(silent)
        reasons += self._broker_trouble()
        # A spent budget is as it should be, the store is a copy, citations are the product's: none keeps an
        # answer from being judged.
        notes = (self._deferred(), self._store_trouble(), self._citations())
        return Report(not reasons, tuple(reasons), tuple(note for note in notes if note is not None))

    def _coordinator_silent(self) -> str | None:
        """Say that nothing was heard of the broker that keeps our place in the group.

        It is asked all the time.
        """
        loop = self._loop()
        answered = None if loop is None or not loop.assigned else loop.coordinator_answered
        quiet = 0.0 if answered is None else self._now() - answered
        if quiet <= self._silent_seconds:
            return None
        return f"the broker is unavailable: the group coordinator has not answered for {quiet:.0f} s"
