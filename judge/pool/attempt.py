"""Accounting of one judged task: calls, tokens, time, failures."""

from __future__ import annotations

from dataclasses import dataclass, field

from judge.pool.suspicion import Suspicion
from schemas import Usage


@dataclass(slots=True)
class Attempt:
    """Calls, tokens, time and failures of one task.

    `ReliableJudge.judge` creates one per task and passes it to every call; `GuardedChat.ask` updates it.
    """

    calls: int = 0
    """Calls sent, failed ones included."""
    call_seconds: float = 0.0
    """Time in calls of the current round (one run of the evaluator at one endpoint)."""
    spent_seconds: float = 0.0
    """Used part of the time budget."""
    calls_before: int = 0
    """Calls before the current round."""
    part_of_begun: bool = False
    """Whether this belongs to a parallel part of a verdict for which a call was already sent."""
    used: list[tuple[str, Usage]] = field(default_factory=list)
    """Endpoint and reported tokens of each call."""
    failed_mark: tuple[int, int] = (0, 0)
    """The endpoint's counts of answered and of failed calls when the last failed call was sent."""
    failures: int = 0
    """Rounds without an answer."""
    timed_out: bool = False
    """Whether a call timed out; the task then queues in the late lane."""
    unanswered: bool = False
    """Whether a call failed."""
    cut_short: bool = False
    """Whether the last failed call had too little time to be evidence about the endpoint."""
    counted: bool = False
    """Whether the endpoint's tally counts the last failure."""
    refusals: int = 0
    """Configuration refusals of this event while neutral events were judged."""
    pauses: int = 0
    """Pauses after failures."""
    suspicion: Suspicion = field(default_factory=Suspicion)
    failed_at: dict[str, int] = field(default_factory=dict)
    """Failures by endpoint since the last time that all endpoints had failed."""
    avoided: set[str] = field(default_factory=set)
    """Endpoints to ask only if no other is available."""

    @property
    def begun(self) -> bool:
        """Whether a call of the current round was sent; cancelling would waste it."""
        return self.part_of_begun or self.calls > self.calls_before

    def beside(self, seconds: float) -> Attempt:
        """Return an attempt for a parallel call that starts `seconds` later; `join` adds it to this one."""
        spent = self.spent_seconds + seconds
        return Attempt(spent_seconds=spent, timed_out=self.timed_out, part_of_begun=self.begun)

    def join(self, beside: Attempt) -> None:
        """Add the calls and tokens of a parallel attempt; its time overlaps and is not added."""
        self.calls += beside.calls
        if beside.unanswered:
            self.failed_mark, self.cut_short = beside.failed_mark, beside.cut_short
            self.counted, self.timed_out = beside.counted, beside.timed_out
        self.used += beside.used
