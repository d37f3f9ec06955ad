"""Total the worker's metrics since its start, for its status page. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from prometheus_client.metrics_core import Metric as MetricFamily

_VERDICTS = frozenset({"scored", "unscored"})


def totals_of(families: Iterable[MetricFamily]) -> dict[str, Any]:
    """Return totals over all event labels."""
    results: dict[str, Counter[str]] = defaultdict(Counter)
    scores: dict[str, Counter[str]] = defaultdict(Counter)
    dead_letters: Counter[str] = Counter()
    corrections: Counter[str] = Counter()
    suspicions: Counter[str] = Counter()
    judges: dict[tuple[str, str], _Judge] = defaultdict(_Judge)
    for family in families:
        for sample in family.samples:
            name, labels, value = sample.name, sample.labels, sample.value
            if name == "judgestream_results_total":
                results[labels["metric"]][labels["status"]] += int(value)
            elif name == "judgestream_scores_total":
                scores[labels["metric"]][labels["score"]] += int(value)
            elif name == "judgestream_dead_letters_total":
                dead_letters[labels["reason"]] += int(value)
            elif name == "judgestream_verdict_corrections_total":
                corrections[labels["kind"]] += int(value)
            elif name == "judgestream_verdict_suspicions_total":
                suspicions[labels["kind"]] += int(value)
            elif name.startswith("judgestream_judge_") and "model" in labels:
                judges[labels["endpoint"], labels["model"]].take(name, labels, value)
    return {
        "results": {name: dict(counts) for name, counts in sorted(results.items())},
        "scores": {name: dict(counts) for name, counts in sorted(scores.items())},
        "dead_letters": dict(dead_letters),
        "corrections": dict(corrections),
        "suspicions": dict(suspicions),
        "judges": [
            {"endpoint": endpoint, "model": model, **judge.as_values()}
            for (endpoint, model), judge in sorted(judges.items())
        ],
    }


class _Judge:
    """Totals of one endpoint and model."""

    def __init__(self) -> None:
        self._calls = 0
        self._failed = 0
        self._seconds = 0.0
        self._buckets: Counter[float] = Counter()
        self._tokens: Counter[str] = Counter()
        self._cost: float | None = None

    def take(self, name: str, labels: Mapping[str, str], value: float) -> None:
        match name.removeprefix("judgestream_judge_"):
            case "call_seconds_count":
                self._calls += int(value)
                self._failed += 0 if labels["outcome"] in _VERDICTS else int(value)
            case "call_seconds_sum":
                self._seconds += value
            case "call_seconds_bucket":
                self._buckets[float(labels["le"])] += int(value)
            case "tokens_total":
                self._tokens[labels["kind"]] += int(value)
            case "cost_usd_total":
                self._cost = (self._cost or 0.0) + value

    def as_values(self) -> dict[str, Any]:
        return {
            "calls": self._calls,
            "failed": self._failed,
            "mean_seconds": self._seconds / self._calls if self._calls else None,
            "p95_below_seconds": self._p95(),
            "tokens": dict(self._tokens),
            "cost_usd": self._cost,
        }

    def _p95(self) -> float | None:
        """Return the upper bound of the bucket with the 95th percentile; None without a finite bound."""
        for bound, count in sorted(self._buckets.items()):
            if self._calls and count >= 0.95 * self._calls:
                return None if bound == inf else bound
        return None
