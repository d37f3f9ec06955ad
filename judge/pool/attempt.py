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
    """Time used of the time budget."""
    calls_before: int = 0
    """Calls before the current round."""
    part_of_begun: bool = False
    """Whether these are accounts of a part, for a verdict of which a call was sent before."""
    used: list[tuple[str, Usage]] = field(default_factory=list)
    """Tokens of its calls, with the endpoint of each, as far as endpoints report them."""
    failed_mark: tuple[int, int] = (0, 0)
    """Calls that its endpoint had answered, and that had failed, when the last call that failed was sent."""
    failures: int = 0
    """Rounds that ended without an answer."""
    timed_out: bool = False
    """Whether a call had its time and was not answered: from then on the task goes behind the others."""
    unanswered: bool = False
    """Whether a call of it failed."""
    cut_short: bool = False
    """Whether the last call that failed had too little time to say anything."""
    counted: bool = False
    """Whether the last failure is among those that its endpoint counts."""
    refusals: int = 0
    """Refusals that spoke of the configuration while neutral events were judged."""
    pauses: int = 0
    """Rests after a failure."""
    suspicion: Suspicion = field(default_factory=Suspicion)
    failed_at: dict[str, int] = field(default_factory=dict)
    """By endpoint: failures since all endpoints were last tried in vain."""
    avoided: set[str] = field(default_factory=set)
    """Endpoints to be asked only where no other can be."""

    @property
    def begun(self) -> bool:
        """Whether a call of the current round was sent, which giving up would waste."""
        return self.part_of_begun or self.calls > self.calls_before

    def beside(self, seconds: float) -> Attempt:
        """Begin accounts for a call beside the first one, so much later; `join` adds them."""
        spent = self.spent_seconds + seconds
        return Attempt(spent_seconds=spent, timed_out=self.timed_out, part_of_begun=self.begun)

    def join(self, beside: Attempt) -> None:
        """Add what a call beside the first one took; its time ran beside the first one's."""
        self.calls += beside.calls
        if beside.unanswered:
            self.failed_mark, self.cut_short = beside.failed_mark, beside.cut_short
            self.counted, self.timed_out = beside.counted, beside.timed_out
        self.used += beside.used
