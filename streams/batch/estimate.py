"""Estimate the effort of judging from a sample of judged answers. Pure.

Tokens and cost depend on the length of the texts, which is known for every task. So the sample mean is
corrected by regression on it: N * (y + b * (X - x)), with y and x the means of the sample and X the mean
length of all. Source: Cochran, "Sampling Techniques" (1977), chapter 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappush, heapreplace
from statistics import fmean
from typing import Any, Final

from schemas import Failed, JudgeTask, Scored, Unscored
from streams.batch.selection import Passage
from streams.intake.selector import texts_chars

SAMPLE: Final = 40
"""Minimum samples per metric for an estimate, if there are as many."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The effort of judging one answer.

    Args:
        usd: Its cost; None if the price is unknown.
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
class Rates:
    """Limits on the rate of a replay.

    Args:
        per_second: Answers per second; None for no limit.
        requests_per_minute: Of all endpoints together; None if unknown.
    """

    in_flight: int
    per_second: float | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated effort of judging.

    Args:
        usd: Cost; None if the price is unknown.
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


def estimate(parts: Sequence[tuple[Lengths, Sequence[Sampled]]], limits: Rates) -> Estimate:
    """Estimate the effort of tasks.

    `parts` are each metric's tasks, with a sample of their effort, which is not empty if there are tasks.
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


@dataclass(slots=True)
class Scan:
    """The tasks of a time range."""

    passage: Passage = field(default_factory=Passage)
    tasks: dict[str, Lengths] = field(default_factory=dict)
    left: dict[str, Lengths] = field(default_factory=dict)
    samples: dict[str, list[Sampled]] = field(default_factory=dict)
    pilots: dict[str, list[tuple[int, JudgeTask]]] = field(default_factory=dict)

    def add(self, task: JudgeTask, took: Sampled | None, *, done: bool) -> None:
        """Count a task, with the effort of judging it before; None if unknown."""
        chars = texts_chars(task)
        self.tasks.setdefault(task.metric, Lengths()).add(chars)
        self.add_sample(task, took)
        if done:
            return
        self.left.setdefault(task.metric, Lengths()).add(chars)
        heap = self.pilots.setdefault(task.metric, [])
        entry = (-int(task.result_id, 16), task)  # a hash: the smallest ids are a random sample
        if len(heap) < SAMPLE:
            heappush(heap, entry)
        elif entry[0] > heap[0][0]:
            heapreplace(heap, entry)

    def add_sample(self, task: JudgeTask, took: Sampled | None) -> None:
        """Add the effort of a task to the samples."""
        if took is not None:
            self.samples.setdefault(task.metric, []).append(replace(took, chars=texts_chars(task)))

    def wanted(self) -> list[JudgeTask]:
        """Return the tasks to judge first, of metrics with too few samples."""
        return [
            task
            for name, heap in self.pilots.items()
            if len(self.samples.get(name, ())) < min(SAMPLE, self.tasks[name].count)
            for _, task in heap
        ]

    def left_without(self, done: Sequence[JudgeTask]) -> Mapping[str, Lengths]:
        """Return the remaining tasks after these are done."""
        rest = {name: Lengths(one.count, one.chars) for name, one in self.left.items()}
        for task in done:
            rest[task.metric].count -= 1
            rest[task.metric].chars -= texts_chars(task)
        return rest

    def text(self, replay_id: str, done: int) -> str:
        """Return the text form."""
        passed = ", ".join(f"{count:,} {reason}" for reason, count in self.passage.passed.most_common())
        tasks = ", ".join(f"{all_.count:,} {name}" for name, all_ in self.tasks.items()) or "nothing to judge"
        again = f"; {done:,} exist already" if done else ""
        return (
            f"{replay_id}: {self.passage.records:,} records, {self.passage.sampled:,} events to judge"
            f"{f' ({passed})' if passed else ''}: {tasks}{again}"
        )
