"""The report of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge.text.printable import printable
from streams.judging.files.comparison import Comparison
from streams.worker.replay.estimate import Estimate
from streams.worker.replay.history import History
from streams.worker.replay.judging import End
from streams.worker.replay.scan import Scan


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a replay.

    Args:
        replay_id: Its id.
        end: Why it ended; None if the user declined.
        estimate: Estimated effort of all tasks; None if there was nothing to judge.
        scan: The tasks.
        history: The published results.
        comparisons: Each metric's scores against those of the live stream.
        trouble: Why no endpoint was available.
    """

    replay_id: str
    end: End | None
    estimate: Estimate | None
    scan: Scan
    history: History
    comparisons: Sequence[Comparison]
    trouble: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "replay_id": self.replay_id,
            "end": self.end,
            "events": self.scan.tally.as_json(),
            "tasks": sum(one.count for one in self.scan.tasks.values()),
            "estimate": None if self.estimate is None else self.estimate.as_json(),
            "results": self.history.outcomes,
            "spent": self.history.spent.as_json(),
            "comparisons": [one.as_json() for one in self.comparisons],
        }

    def lines(self) -> list[str]:
        """Return the lines of the text form."""
        done = len(self.history.done)
        told = [
            f"{self.replay_id}: {done:,} of {sum(one.count for one in self.scan.tasks.values()):,} results, "
            + self.history.spent.line()
        ]
        for metric, statuses in self.history.outcomes.items():
            told.append(f"  {metric}: " + ", ".join(f"{n} {status}" for status, n in statuses.items()))
        for one in self.comparisons:
            told.append(f"compared with the live results, {one.text()}")
            for apart in one.disagreements:
                told.append(f"  {printable(apart.event_id, 100)}: {apart.before:g} -> {apart.now:g}")
                told.append(f"    before: {apart.why_before}")
                told.append(f"    now:    {apart.why_now}")
        return told
