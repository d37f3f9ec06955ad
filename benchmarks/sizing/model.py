"""The arithmetic. Pure: no clock, no file, no network."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from benchmarks.sizing.figures import MEASURED, Figures
from streams.monitoring.statistics.estimators import WeightedSums

SECONDS_PER_DAY = 86_400
TARGET_LOAD = 0.6
"""Share of a core, a limit and the calls in flight for mean load; the rest is for peaks and catching up."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Input of the sizing.

    Attributes:
        events_per_second: Mean rate of the events topic.
        event_bytes: Mean size of a record in Kafka.
        sampling_rate: Share of judged events; in (0, 1].
        metrics_per_event: Mean number of metrics per sampled event.
        judge_seconds: Mean time of a verdict, including queues, retries and repair turns.
        calls_per_verdict: Judge calls per verdict: 1 plus the share of repair turns.
        input_tokens: Mean per call, including cached ones.
        cached_tokens: Mean per call, part of the input.
        output_tokens: Mean per call.
        input_usd: USD per million input tokens; `cached_usd` and `output_usd` likewise.
        max_in_flight: `judge.max_in_flight` of a worker.
    """

    events_per_second: float
    sampling_rate: float
    event_bytes: float = 4_000
    metrics_per_event: float = 2
    judge_seconds: float = 3
    calls_per_verdict: float = 1.05
    input_tokens: float = 2_500
    cached_tokens: float = 0
    output_tokens: float = 500
    input_usd: float = 0.40
    cached_usd: float = 0.10
    output_usd: float = 1.60
    max_in_flight: int = 64


@dataclass(frozen=True, slots=True)
class Size:
    """Result of the sizing.

    Attributes:
        verdicts_per_second: Rate of tasks and verdicts.
        in_flight: Concurrent judge calls, mean (Little's law).
        requests_per_minute: At the judge, mean.
        tokens_per_minute: At the judge, input and output, mean.
        usd_per_day: Cost of the judge.
        intake_workers: Limited by CPU.
        judge_workers: Limited by CPU or by calls in flight.
        event_partitions: Minimum for the events topic; each is read by one worker.
        task_partitions: Minimum for each task topic.
        fetched_bytes_per_second: Read by all intake workers together.
        fetched_bytes_per_second_worker: Read by one of them.
        task_bytes_per_day: Written to the task topics, one copy.
        result_bytes_per_day: Written to the scores topic, one copy.
    """

    verdicts_per_second: float
    in_flight: float
    requests_per_minute: float
    tokens_per_minute: float
    usd_per_day: float
    intake_workers: int
    judge_workers: int
    event_partitions: int
    task_partitions: int
    fetched_bytes_per_second: float
    fetched_bytes_per_second_worker: float
    task_bytes_per_day: float
    result_bytes_per_day: float


def size(work: Workload, figures: Figures = MEASURED) -> Size:
    """Return the size for a workload.

    Args:
        work: The workload.
        figures: Measured figures of one core.
    """
    kept = work.events_per_second * work.sampling_rate
    verdicts = kept * work.metrics_per_event
    calls = verdicts * work.calls_per_verdict
    skipped = work.events_per_second - kept
    intake_cores = (
        skipped * figures.skipped_event_cpu_seconds(work.event_bytes) + kept * figures.kept_cpu_seconds
    )
    intake = ceil_at_least_one(intake_cores / TARGET_LOAD)
    in_flight = verdicts * work.judge_seconds
    judge = max(
        ceil_at_least_one(verdicts * figures.verdict_cpu_seconds / TARGET_LOAD),
        ceil_at_least_one(in_flight / (work.max_in_flight * TARGET_LOAD)),
    )
    fetched = work.events_per_second * work.event_bytes
    return Size(
        verdicts_per_second=verdicts,
        in_flight=in_flight,
        requests_per_minute=calls * 60,
        tokens_per_minute=calls * 60 * (work.input_tokens + work.output_tokens),
        usd_per_day=calls * SECONDS_PER_DAY * usd_per_call(work),
        intake_workers=intake,
        judge_workers=judge,
        event_partitions=partitions(intake),
        task_partitions=partitions(judge),
        fetched_bytes_per_second=fetched,
        fetched_bytes_per_second_worker=fetched / intake,
        task_bytes_per_day=verdicts * SECONDS_PER_DAY * figures.task_bytes,
        result_bytes_per_day=verdicts * SECONDS_PER_DAY * figures.result_bytes,
    )


def usd_per_call(work: Workload) -> float:
    """Return the cost of one judge call."""
    fresh = work.input_tokens - work.cached_tokens
    millionths = (
        fresh * work.input_usd + work.cached_tokens * work.cached_usd + work.output_tokens * work.output_usd
    )
    return millionths / 1e6


def ceil_at_least_one(cores: float) -> int:
    """Round up to whole workers, at least one, ignoring floating-point errors."""
    return max(1, ceil(cores - 1e-9))


def partitions(workers: int) -> int:
    """Return the partitions to create: twice the workers, rounded up to a multiple of 4.

    A topic can get more partitions later, but not fewer.
    """
    return max(4, ceil(2 * workers / 4) * 4)


def catch_up_seconds(outage_seconds: float, load: float) -> float:
    """Return the time to work off the backlog of an outage.

    Args:
        outage_seconds: Duration of the outage.
        load: Mean rate of tasks as a share of the capacity; in [0, 1).

    Raises:
        ValueError: `load` is 1 or more, or negative.
    """
    if not 0 <= load < 1:
        raise ValueError(f"load must be at least 0 and below 1, got {load}; add capacity or sample less")
    return outage_seconds * load / (1 - load)


def half_width(verdicts: int, *, deviation: float, scale: float, confidence: float = 0.95) -> float:
    """Return half of the interval that the worker reports for this many verdicts of equal weight.

    As `WeightedSums.interval` with equal weights (the inclusion probability cancels out) for a mean in the
    middle of the scale (the widest interval).

    Args:
        verdicts: Number of scores, n.
        deviation: Standard deviation of the scores, s, in points.
        scale: Highest minus lowest score, R, in points.
        confidence: Probability that the interval contains the true mean.
    """
    n, mean = float(verdicts), scale / 2
    square = n * (deviation * deviation + mean * mean)
    sums = WeightedSums(
        count=verdicts,
        weight=n,
        weighted=n * mean,
        weighted_square=square,
        weight_square=n,
        weight_square_score=n * mean,
        weight_square_score_square=square,
    )
    ends = sums.interval(lowest=0, highest=scale, confidence=confidence)
    return scale if ends is None else (ends[1] - ends[0]) / 2


def verdicts_for(wanted: float, *, deviation: float, scale: float, confidence: float = 0.95) -> int:
    """Return the smallest number of verdicts with an interval of at most ± `wanted` points.

    Raises:
        ValueError: `wanted` is not above 0.
    """
    if wanted <= 0:
        raise ValueError(f"wanted must be above 0, got {wanted}")
    low, high = 1, 2
    while half_width(high, deviation=deviation, scale=scale, confidence=confidence) > wanted:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        enough = half_width(middle, deviation=deviation, scale=scale, confidence=confidence) <= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


def sampling_rate_for(verdicts_per_hour: float, events_per_second: float) -> float:
    """Return the sampling rate for this many verdicts of a metric per hour; 1 if all events are too few."""
    return min(1.0, verdicts_per_hour / (events_per_second * 3600))
