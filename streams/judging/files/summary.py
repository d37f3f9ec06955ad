"""The summary that `judgestream judge` prints at its end, one per metric."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from judge.text.printable import printable, reason_of
from schemas import Failed, Scored, Unscored, Usage
from streams.monitoring.statistics.estimators import WeightedSums

WORST: Final = 10
"""Number of listed answers, those with the lowest scores."""
MAX_LABEL_VALUES: Final = 100
"""Values of a label with their own mean; further values are omitted."""


@dataclass(slots=True)
class Spending:
    """Tokens and their cost.

    Attributes:
        cost_usd: US dollars; None if a call's price is unknown.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, usage: Usage, cost_usd: float | None) -> None:
        """Add tokens and their cost."""
        self.input_tokens += usage.input_tokens
        self.cached_tokens += usage.cached_tokens
        self.output_tokens += usage.output_tokens
        # If the price of one call is unknown, so is the sum.
        known = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (cost_usd or 0.0) if known else None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "tokens": self.input_tokens + self.output_tokens,
            "usage": {
                "input_tokens": self.input_tokens,
                "cached_tokens": self.cached_tokens,
                "output_tokens": self.output_tokens,
            },
            "cost_usd": self.cost_usd,
        }

    def line(self) -> str:
        """Return the text form."""
        cost = "price not known" if self.cost_usd is None else f"${self.cost_usd:.4f}"
        return (
            f"tokens in {self.input_tokens:,} (cached {self.cached_tokens:,}), out "
            f"{self.output_tokens:,}; {cost}"
        )


@dataclass(frozen=True, slots=True, order=True)
class Bad:
    """A listed low score."""

    score: float
    event_id: str
    reason: str


@dataclass(slots=True)
class Summary:
    """Collects the results of one metric.

    Attributes:
        metric: The metric's name.
        score_range: Its lowest and highest score.
    """

    metric: str
    score_range: tuple[float, float]
    scored: WeightedSums = field(default_factory=WeightedSums)
    distribution: Counter[tuple[float, str]] = field(default_factory=Counter)
    unscored: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    corrected: Counter[str] = field(default_factory=Counter)
    suspected: Counter[str] = field(default_factory=Counter)
    by_label: dict[str, dict[str, WeightedSums]] = field(default_factory=dict)
    worst: list[tuple[float, int, Bad]] = field(default_factory=list)
    spending: Spending = field(default_factory=Spending)

    @property
    def results(self) -> int:
        """Number of results."""
        return self.scored.count + self.unscored.total() + self.failed.total()

    def add(self, result: Scored | Unscored | Failed) -> None:
        """Add one result."""
        if isinstance(result, Scored):
            self._add_score(result)
        elif isinstance(result, Failed):
            self.failed[result.error_type] += 1
        else:
            self.unscored[result.reason] += 1
        if not isinstance(result, Failed):
            self.corrected.update({one.kind for one in result.corrections})
            self.suspected.update({one.kind for one in result.suspicions})
        self.spending.add(result.usage, result.cost_usd)

    def _add_score(self, result: Scored) -> None:
        self.scored = self.scored.add(result.amount)
        self.distribution[self._step(result)] += 1
        for name, value in result.labels.items():
            values = self.by_label.setdefault(name, {})
            if value in values or len(values) < MAX_LABEL_VALUES:
                values[value] = values.get(value, WeightedSums()).add(result.amount)
        # A heap of the lowest scores; its first entry is the highest of them and is removed first.
        bad = Bad(result.amount, result.event_id, reason_of(result))
        heapq.heappush(self.worst, (-bad.score, -self.scored.count, bad))
        if len(self.worst) > WORST:
            heapq.heappop(self.worst)

    def _step(self, result: Scored) -> tuple[float, str]:
        """Return a result's bin of the distribution: its score, its label, or a tenth of the scale."""
        if result.kind != "number":
            return result.score, printable(result.shown, 60)
        lowest, highest = self.score_range
        tenth = (highest - lowest) / 10
        place = min(int((result.amount - lowest) / tenth + 1e-9), 9)
        start = lowest + place * tenth
        return start, f"{start:g}-{start + tenth:g}"

    def worst_first(self) -> list[Bad]:
        """Return the lowest scores, without the best possible one, lowest first."""
        listed = sorted(self.worst, key=lambda entry: (-entry[0], -entry[1]))
        return [bad for _, _, bad in listed if bad.score < self.score_range[1]]

    def interval(self, sums: WeightedSums | None = None) -> tuple[float, float] | None:
        """Return the 95% interval of the mean, or of a part's mean."""
        lowest, highest = self.score_range
        return (self.scored if sums is None else sums).interval(lowest=lowest, highest=highest)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "metric": self.metric,
            "scored": self.scored.count,
            "unscored": self.unscored.total(),
            "failed": self.failed.total(),
            "mean": self.scored.mean,
            "interval": _listed(self.interval()),
            "distribution": {shown: count for (_, shown), count in sorted(self.distribution.items())},
            "unscored_reasons": dict(self.unscored.most_common()),
            "failed_reasons": dict(self.failed.most_common()),
            "corrections": dict(self.corrected.most_common()),
            "suspicions": dict(self.suspected.most_common()),
            "by_label": {
                name: {
                    value: {"count": sums.count, "mean": sums.mean, "interval": _listed(self.interval(sums))}
                    for value, sums in values.items()
                }
                for name, values in self.by_label.items()
            },
            "worst": [
                {"event_id": bad.event_id, "score": bad.score, "reason": bad.reason}
                for bad in self.worst_first()
            ],
            **self.spending.as_json(),
        }

    def lines(self) -> list[str]:
        """Return the lines of the text form."""
        head = f"{self.metric}: {self.results} results, {self.scored.count} scored{self._mean(self.scored)}"
        told = [
            f"{head}, {self.unscored.total()} unscored, {self.failed.total()} failed; {self.spending.line()}"
        ]
        for what, counted in (
            ("unscored", self.unscored),
            ("failed", self.failed),
            ("corrected by code", self.corrected),
            ("suspected, score unchanged", self.suspected),
        ):
            if counted:
                reasons = ", ".join(f"{reason} {count}" for reason, count in counted.most_common())
                told.append(f"  {what}: {reasons}")
        if self.scored.count > 1:
            told += self._distribution()
            told += self._labels()
            told += [
                f"  worst: {bad.score:g} {printable(bad.event_id, 60)}  {bad.reason[:100]}"
                for bad in self.worst_first()
            ]
        return told

    def _mean(self, sums: WeightedSums) -> str:
        ends = self.interval(sums)
        return "" if ends is None else f", mean {sums.mean:.2f} (95%: {ends[0]:.2f} to {ends[1]:.2f})"

    def _distribution(self) -> list[str]:
        most = max(self.distribution.values())
        width = max(5, *(len(shown) for _, shown in self.distribution))
        return [
            (
                f"  {shown:>{width}}  {'█' * max(1, round(30 * count / most)):<30}  {count} "
                f"({count / self.scored.count:.0%})"
            )
            for (_, shown), count in sorted(self.distribution.items(), reverse=True)
        ]

    def _labels(self) -> list[str]:
        return [
            f"  {printable(name, 24)}={printable(value, 40)}: {sums.count} scored{self._mean(sums)}"
            for name, values in self.by_label.items()
            if len(values) > 1
            for value, sums in sorted(values.items(), key=lambda item: item[1].mean or 0.0)
        ]


@dataclass(slots=True)
class FileSummary:
    """The summary of a whole file.

    Attributes:
        metrics: The summary of each metric.
        invalid: Lines that are not events, by problem.
        lines: Lines read.
        checks: Tokens of calls that only check whether endpoints answer.
        outage: The reason, if an outage ended the run.
        interrupted: Whether the user stopped the run.
    """

    metrics: Sequence[Summary]
    invalid: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    checks: Spending = field(default_factory=Spending)
    outage: str | None = None
    interrupted: bool = False

    @property
    def results(self) -> int:
        """Number of results of all metrics."""
        return sum(one.results for one in self.metrics)

    @property
    def all_failed(self) -> bool:
        """Whether there are results and all of them failed."""
        return self.results > 0 and all(one.failed.total() == one.results for one in self.metrics)

    def add(self, result: Scored | Unscored | Failed) -> None:
        """Add one result of one of the metrics."""
        next(one for one in self.metrics if one.metric == result.metric).add(result)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form: the summary of a single metric, or each one under `metrics`."""
        common = {"lines": self.lines, "invalid": self.invalid.total()}
        if self.checks.input_tokens or self.checks.output_tokens:
            common["checks"] = self.checks.as_json()  # type: ignore[assignment] # JSON
        if len(self.metrics) == 1:
            return {**self.metrics[0].as_json(), **common}
        return {**common, "metrics": {one.metric: one.as_json() for one in self.metrics}}

    def text(self) -> str:
        """Return the text form."""
        told = [line for one in self.metrics for line in one.lines()]
        if self.invalid:
            reasons = ", ".join(f"{reason} ({count})" for reason, count in self.invalid.most_common(5))
            told.append(f"{self.invalid.total()} of {self.lines} lines are not events: {reasons}")
        return "\n".join(told)


def _listed(ends: tuple[float, float] | None) -> list[float] | None:
    return None if ends is None else list(ends)
