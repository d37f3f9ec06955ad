"""Estimate the effort of judging from a sample of judged answers. Pure.

Tokens and cost depend on the length of the texts, which is known for every task. So the sample mean is
corrected by regression on it: N * (y + b * (X - x)), with y and x the means of the sample and X the mean
length of all. Source: Cochran, "Sampling Techniques" (1977), chapter 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from schemas import Failed, Scored, Unscored


@dataclass(frozen=True, slots=True)
class Sampled:
    """The effort of judging one answer.

    Args:
        chars: Length of its texts.
        input_tokens: Input tokens.
        output_tokens: Output tokens.
        usd: Its cost; None if the price is unknown.
        seconds: Duration of the judge call; 0 without one.
    """

    chars: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    seconds: float

    @classmethod
    def of(cls, result: Scored | Unscored | Failed, chars: int) -> Sampled:
        """Return the effort recorded in a result."""
        usage = result.usage
        return cls(
            chars, usage.input_tokens, usage.output_tokens, result.cost_usd, result.times.judge_seconds or 0.0
        )


@dataclass(slots=True)
class Lengths:
    """Number and total length of the texts of tasks."""

    count: int = 0
    chars: int = 0

    def add(self, chars: int) -> None:
        """Count one task."""
        self.count += 1
        self.chars += chars


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the rate of a replay.

    Args:
        in_flight: Answers judged concurrently.
        per_second: Answers per second; None for no limit.
        requests_per_minute: Of all endpoints together; None if unknown.
        tokens_per_minute: Likewise.
    """

    in_flight: int
    per_second: float | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated effort of judging.

    Args:
        results: Number of results.
        input_tokens: Input tokens.
        output_tokens: Output tokens.
        usd: Cost; None if the price is unknown.
        seconds: Duration at the limits.
    """

    results: int
    input_tokens: float
    output_tokens: float
    usd: float | None
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "results": self.results,
            "input_tokens": round(self.input_tokens),
            "output_tokens": round(self.output_tokens),
            "cost_usd": self.usd,
            "seconds": round(self.seconds, 1),
        }

    def text(self) -> str:
        """Return the text form."""
        cost = "price not known" if self.usd is None else f"${self.usd:.4f}"
        return (
            f"{self.results:,} results: about {self.input_tokens:,.0f} input and {self.output_tokens:,.0f} "
            f"output tokens, {cost}, {_duration(self.seconds)}"
        )


def estimate(parts: Sequence[tuple[Lengths, Sequence[Sampled]]], limits: Limits) -> Estimate:
    """Estimate the effort of tasks.

    Args:
        parts: For each metric its tasks, and a sample of their effort; not empty if there are tasks.
        limits: Limits on the rate.
    """
    parts = [part for part in parts if part[0].count]
    tokens_in = sum(_total(all_, sample, [one.input_tokens for one in sample]) for all_, sample in parts)
    tokens_out = sum(_total(all_, sample, [one.output_tokens for one in sample]) for all_, sample in parts)
    known = all(one.usd is not None for _, sample in parts for one in sample)
    usd = (
        sum(_total(all_, sample, [one.usd or 0.0 for one in sample]) for all_, sample in parts)
        if known
        else None
    )
    judged = sum(_total(all_, sample, [one.seconds for one in sample]) for all_, sample in parts)
    count = sum(all_.count for all_, _ in parts)
    seconds = [judged / limits.in_flight]
    if limits.per_second is not None:
        seconds.append(count / limits.per_second)
    if limits.requests_per_minute is not None:
        seconds.append(60 * count / limits.requests_per_minute)
    if limits.tokens_per_minute is not None:
        seconds.append(60 * (tokens_in + tokens_out) / limits.tokens_per_minute)
    return Estimate(count, tokens_in, tokens_out, usd, max(seconds))


def _total(all_: Lengths, sample: Sequence[Sampled], values: Sequence[float]) -> float:
    x = [float(one.chars) for one in sample]
    mean_x, mean_y = fmean(x), fmean(values)
    spread = sum((one - mean_x) ** 2 for one in x)
    slope = (
        sum((one - mean_x) * (value - mean_y) for one, value in zip(x, values, strict=True)) / spread
        if spread
        else 0.0
    )
    return max(0.0, all_.count * (mean_y + slope * (all_.chars / all_.count - mean_x)))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
