"""The numbers of the live view, updated per record. Pure: time is an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from schemas import Alert, Failed, Scored, Unscored
from streams.demo.accounting import Accounts
from streams.monitoring.statistics.estimators import WeightedSums

BASELINE_VERDICTS = 100
"""Number of first verdicts of a metric that define the normal level."""
NOW_VERDICTS = 60
"""Number of latest verdicts that define the current level."""
BUCKET_SECONDS = 2.0
"""One character of the sparkline."""
MAX_BUCKETS = 120
LABEL_VERDICTS = 600
"""Number of latest verdicts in the table by label."""
LABELS = ("app", "model", "prompt_version")
KEPT_VERDICTS = 60
RATE_SECONDS = 5.0

_Sample = tuple[float, float]  # score, inclusion probability


@dataclass(frozen=True, slots=True)
class Series:
    """The current state of one metric."""

    now: WeightedSums
    baseline: WeightedSums | None
    """None until there are more than `BASELINE_VERDICTS` verdicts."""
    spark: Sequence[float | None]
    """Mean by time, oldest first; None if nothing was judged."""


@dataclass(frozen=True, slots=True)
class LabelRow:
    """The recent means of the events with one label value."""

    name: str
    value: str
    sums: Mapping[str, WeightedSums]


@dataclass(slots=True)
class _Metric:
    first: WeightedSums = field(default_factory=WeightedSums)
    last: deque[_Sample] = field(default_factory=lambda: deque(maxlen=NOW_VERDICTS))
    count: int = 0
    buckets: deque[tuple[int, WeightedSums]] = field(default_factory=lambda: deque(maxlen=MAX_BUCKETS))


class Rate:
    """The growth rate of a counter."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def update(self, now: float, count: int) -> float:
        """Record a count; return the growth per second over the last few seconds."""
        points = self._points
        points.append((now, count))
        while len(points) > 1 and now - points[1][0] >= RATE_SECONDS:
            points.popleft()
        seconds = now - points[0][0]
        return (count - points[0][1]) / seconds if seconds > 0 else 0.0


class Board:
    """Keeps the view's numbers up to date with results and alerts.

    Args:
        accounts: The exact counts; shared with the observer.
        metrics: Names of the metrics, in the order of the view.
    """

    def __init__(self, accounts: Accounts, metrics: Sequence[str]) -> None:
        self.accounts = accounts
        self.verdicts: deque[Scored | Unscored | Failed] = deque(maxlen=KEPT_VERDICTS)
        self.results = 0
        self.input_tokens = 0
        self.cached_tokens = 0
        self.output_tokens = 0
        self.cost_usd: float | None = None
        self.first_verdict_seconds: float | None = None
        self._metrics: dict[str, _Metric] = {name: _Metric() for name in metrics}
        self._recent: deque[Scored] = deque(maxlen=LABEL_VERDICTS)

    def add_result(self, result: Scored | Unscored | Failed, seconds: float) -> None:
        """Add a result.

        Args:
            result: A result from the results topic; repeats are ignored.
            seconds: Since the start.
        """
        if not self.accounts.add_result(result):
            return
        self.results += 1
        self.verdicts.appendleft(result)
        if result.judge is not None and not result.judge.cached:
            self.input_tokens += result.usage.input_tokens
            self.cached_tokens += result.usage.cached_tokens
            self.output_tokens += result.usage.output_tokens
        if result.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + result.cost_usd
        if self.first_verdict_seconds is None:
            self.first_verdict_seconds = seconds
        if isinstance(result, Scored):
            self._recent.append(result)
            self._add_score(result, seconds)

    def _add_score(self, result: Scored, seconds: float) -> None:
        metric = self._metrics.setdefault(result.metric, _Metric())
        score, probability = result.amount, result.sampling.probability
        metric.count += 1
        if metric.count <= BASELINE_VERDICTS:
            metric.first = metric.first.add(score, probability)
        metric.last.append((score, probability))
        bucket = int(seconds // BUCKET_SECONDS)
        if metric.buckets and metric.buckets[-1][0] >= bucket:
            at, sums = metric.buckets.pop()
            metric.buckets.append((at, sums.add(score, probability)))
        else:
            metric.buckets.append((bucket, WeightedSums().add(score, probability)))

    @property
    def alerts(self) -> Sequence[Alert]:
        """All alerts, oldest first."""
        return self.accounts.alerts

    def series(self, seconds: float) -> Mapping[str, Series]:
        """Return the current state of each metric.

        Args:
            seconds: Since the start.
        """
        return {name: self._series(metric, seconds) for name, metric in self._metrics.items()}

    def _series(self, metric: _Metric, seconds: float) -> Series:
        spark: list[float | None] = []
        if metric.buckets:
            means = {at: sums.mean for at, sums in metric.buckets}
            first = metric.buckets[0][0]
            # Omit the current bucket while it fills, unless it is the only one.
            end = max(int(seconds // BUCKET_SECONDS), first + 1)
            spark = [means.get(at) for at in range(max(first, end - MAX_BUCKETS), end)]
        return Series(
            now=WeightedSums.of(metric.last),
            baseline=metric.first if metric.count > BASELINE_VERDICTS else None,
            spark=spark,
        )

    def by_label(self) -> Sequence[LabelRow]:
        """Return the recent means by label value, the worst first."""
        sums: dict[tuple[str, str], dict[str, list[_Sample]]] = {}
        for result in self._recent:
            sample = (result.amount, result.sampling.probability)
            for name in LABELS:
                value = result.labels.get(name)
                if value:
                    by_metric = sums.setdefault((name, value), {})
                    by_metric.setdefault(result.metric, []).append(sample)
        rows = [
            LabelRow(name, value, {metric: WeightedSums.of(samples) for metric, samples in by_metric.items()})
            for (name, value), by_metric in sums.items()
        ]
        return sorted(rows, key=lambda row: (_worst(row), row.name, row.value))

    def last_verdicts(self, count: int) -> Sequence[Scored | Unscored | Failed]:
        """Return the newest results, newest first."""
        return tuple(islice(self.verdicts, count))


def _worst(row: LabelRow) -> float:
    means = [sums.mean for sums in row.sums.values() if sums.mean is not None]
    return min(means, default=0.0)
