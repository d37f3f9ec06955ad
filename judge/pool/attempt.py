"""What one verdict has taken so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from judge.pool.suspicion import Suspicion
from schemas import Usage


@dataclass(slots=True)
class Attempt:
    """The attempt to judge one task: the accounts of its calls, and what its failures say.

    `ReliableJudge.judge` makes one a task and passes it with every call; `GuardedChat.ask` books on it.
    """

    calls: int = 0
    """Calls sent, failed ones included."""
    call_seconds: float = 0.0
    """Time in the calls of the current round: one run of the evaluator at one endpoint."""
    spent_seconds: float = 0.0
    """Of the time budget."""
    answers: int = 0
    """Own calls of the current round that were answered; they do not count as others'."""
    used: list[tuple[str, Usage]] = field(default_factory=list)
    """Tokens of its calls, with the endpoint of each, as far as endpoints told them."""
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By endpoint: calls answered and failed there when this task's evidence was last drawn."""
    failures: int = 0
    """Rounds that ended without an answer."""
    pauses: int = 0
    """Rests after a failure."""
    suspicion: Suspicion = field(default_factory=Suspicion)
    failed_at: dict[str, int] = field(default_factory=dict)
    """By endpoint: failures since all endpoints were last tried in vain."""
    avoided: set[str] = field(default_factory=set)
    """Endpoints to be asked only where no other can be."""

    def beside(self, seconds: float) -> Attempt:
        """Begin accounts for a call beside the first one, so much later; `join` adds them."""
        return Attempt(spent_seconds=self.spent_seconds + seconds, marks=self.marks)

    def join(self, beside: Attempt) -> None:
        """Add what a call beside the first one took; its time ran beside the first one's."""
        self.calls += beside.calls
        self.answers += beside.answers
        self.used += beside.used
