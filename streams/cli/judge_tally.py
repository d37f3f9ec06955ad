"""What `judgestream judge` says at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas import Failed, Scored, Usage
from streams.judging.lines import InvalidLine, Outcome
from streams.monitoring.statistics.estimators import WeightedSums


@dataclass(slots=True)
class Tally:
    """Adds up outcomes.

    Attributes:
        metric: The metric's name.
        score_range: Its lowest and highest score.
        outage: Why it ended early, if the judge stayed away.
        interrupted: Whether somebody asked to stop.
    """

    metric: str
    score_range: tuple[int, int]
    scored: WeightedSums = field(default_factory=WeightedSums)
    unscored: int = 0
    failed: int = 0
    invalid: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    outage: str | None = None
    interrupted: bool = False

    @property
    def results(self) -> int:
        """Lines that became a result."""
        return self.scored.count + self.unscored + self.failed

    @property
    def lines(self) -> int:
        """Lines that were looked at."""
        return self.results + self.invalid

    def add(self, outcome: Outcome) -> None:
        """Take one outcome."""
        if isinstance(outcome, InvalidLine):
            self.invalid += 1
            return
        if isinstance(outcome, Scored):
            self.scored = self.scored.add(outcome.score)
        elif isinstance(outcome, Failed):
            self.failed += 1
        else:
            self.unscored += 1
        self.add_usage(outcome.usage, outcome.cost_usd)

    def add_usage(self, usage: Usage, cost_usd: float | None) -> None:
        """Take what was used, and what that cost."""
        self.input_tokens += usage.input_tokens
        self.cached_tokens += usage.cached_tokens
        self.output_tokens += usage.output_tokens
        # One call without a known price, and the sum is not known either.
        known = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (cost_usd or 0.0) if known else None

    def as_json(self) -> dict[str, Any]:
        """Give the summary for programs."""
        ends = self._interval()
        return {
            "metric": self.metric,
            "lines": self.lines,
            "scored": self.scored.count,
            "unscored": self.unscored,
            "failed": self.failed,
            "invalid": self.invalid,
            "mean": self.scored.mean,
            "interval": None if ends is None else list(ends),
            "tokens": self.input_tokens + self.output_tokens,
            "usage": {
                "input_tokens": self.input_tokens,
                "cached_tokens": self.cached_tokens,
                "output_tokens": self.output_tokens,
            },
            "cost_usd": self.cost_usd,
        }

    def line(self) -> str:
        """Give the summary for people."""
        ends = self._interval()
        mean = "" if ends is None else f", mean {self.scored.mean:.2f} (95%: {ends[0]:.2f} to {ends[1]:.2f})"
        cost = "price not known" if self.cost_usd is None else f"${self.cost_usd:.4f}"
        return (
            f"{self.metric}: {self.lines} lines, {self.scored.count} scored{mean}, {self.unscored} unscored, "
            f"{self.failed} failed, {self.invalid} invalid; "
            f"tokens in {self.input_tokens} (cached {self.cached_tokens}), out {self.output_tokens}; {cost}"
        )

    def _interval(self) -> tuple[float, float] | None:
        lowest, highest = self.score_range
        return self.scored.interval(lowest=lowest, highest=highest)
