"""The tables of `docs/scaling.md`, by the name of their marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.sizing.figures import MEASURED
from benchmarks.sizing.model import (
    TARGET_LOAD,
    Size,
    Workload,
    catch_up_seconds,
    sampling_rate_for,
    size,
    usd_per_call,
    verdicts_for,
)

EXAMPLES: Final = (
    Workload(events_per_second=1, sampling_rate=1),
    Workload(events_per_second=10, sampling_rate=0.2),
    Workload(events_per_second=100, sampling_rate=0.05),
    Workload(events_per_second=1_000, sampling_rate=0.01),
    Workload(events_per_second=10_000, sampling_rate=0.002, max_in_flight=128),
    Workload(events_per_second=100_000, sampling_rate=0.0005, max_in_flight=256),
    Workload(events_per_second=1_000_000, sampling_rate=0.0001, max_in_flight=256),
)
"""One per power of ten. The rate falls as traffic grows, because precision depends on the number of verdicts.
"""
WORKED: Final = EXAMPLES[2]


def tables() -> Mapping[str, str]:
    """Return all tables as Markdown."""
    return {
        "figures": _figures(),
        "calculator": _calculator(WORKED, size(WORKED)),
        "magnitudes": _magnitudes(),
        "precision": _precision(),
        "rates": _rates(),
        "backlog": _backlog(),
    }


def number(value: float) -> str:
    """Return a non-negative number with three significant digits and thousands separators."""
    if value == 0:
        return "0"
    if value >= 999.5:
        digits = len(str(round(value))) - 3
        return f"{round(value / 10**digits) * 10**digits:,}"
    return f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _figures() -> str:
    return _table(
        ["what a worker process costs", "figure"],
        [
            ["skipped event of 1 KB / 4 KB, CPU", f"{_skipped_us(1000):g} / {_skipped_us(4000):g} us"],
            [
                "skipped events of 1 KB / 4 KB a second, one core full",
                f"{number(1e6 / _skipped_us(1000))} / {number(1e6 / _skipped_us(4000))}",
            ],
            ["sampled event in intake, CPU", f"{MEASURED.kept_cpu_seconds * 1e3:g} ms"],
            ["verdict, CPU", f"{MEASURED.verdict_cpu_seconds * 1e3:g} ms"],
            ["verdicts a second, one core full", number(1 / MEASURED.verdict_cpu_seconds)],
            ["memory", f"{MEASURED.resident_bytes / 2**20:.0f} MiB"],
            ["record on a task topic / on the scores topic",
                f"{MEASURED.task_bytes / 1e3:g} / {MEASURED.result_bytes / 1e3:g} KB"],
            ["share of a core, or of the calls in flight, planned for the mean", f"{TARGET_LOAD:.0%}"],
        ],
    )  # fmt: skip


def _skipped_us(event_bytes: float) -> float:
    return round(MEASURED.skipped_event_cpu_seconds(event_bytes) * 1e6, 3)


def _calculator(work: Workload, result: Size) -> str:
    price = usd_per_call(work)
    return _table(
        ["what", "formula", "unit", f"example: {work.events_per_second:g} events a second"],
        [
            ["events E, rate p, metrics an event m", "given", "1/s, -, -",
                f"{work.events_per_second:g}, {work.sampling_rate:g}, {work.metrics_per_event:g}"],
            ["verdicts V", "E p m", "1/s", number(result.verdicts_per_second)],
            ["judge calls C, calls a verdict r", "V r", "1/s", number(result.requests_per_minute / 60)],
            ["calls in flight L, seconds a verdict W", "V W (Little's law)", "-",
                f"{number(result.in_flight)} (W = {work.judge_seconds:g} s)"],
            ["requests a minute", "60 C", "1/min", number(result.requests_per_minute)],
            ["tokens a minute, tokens in i and out o", "60 C (i + o)", "1/min", (
                    f"{number(result.tokens_per_minute)} (i = {work.input_tokens:,}, o = "
                    f"{work.output_tokens:,})"
                )],
            ["a call's price, USD a million tokens a and b", "(i a + o b) / 10^6", "USD",
                f"{price:.4f} (a = {work.input_usd:.2f}, b = {work.output_usd:.2f})"],
            ["cost", "86,400 C price", "USD/day", number(result.usd_per_day)],
            ["intake workers, CPU an event s and k", "max(1, ceil((E (1-p) s + E p k) / 0.6))", "-",
                str(result.intake_workers)],
            ["judge workers, CPU a verdict c, max_in_flight F", "max(1, ceil(V c / 0.6), ceil(L / (0.6 F)))",
                "-", f"{result.judge_workers} (F = {work.max_in_flight})"],
            ["partitions of a topic, its workers n", "2 n, up to a multiple of 4", "-",
                f"{result.event_partitions}, {result.task_partitions}"],
            ["read from the brokers, event of B bytes", "E B / 10^6", "MB/s",
                number(result.fetched_bytes_per_second / 1e6)],
            ["of it by one intake worker", "E B / (10^6 n)", "MB/s",
                number(result.fetched_bytes_per_second_worker / 1e6)],
            ["written to task topics, one copy", "86,400 V task bytes / 10^9", "GB/day",
                number(result.task_bytes_per_day / 1e9)],
            ["written to the scores topic, one copy", "86,400 V result bytes / 10^9", "GB/day",
                number(result.result_bytes_per_day / 1e9)],
        ],
    )  # fmt: skip


def _magnitudes() -> str:
    rows = []
    for work in EXAMPLES:
        result = size(work)
        rows.append(
            [
                f"{work.events_per_second:,}",
                f"{work.sampling_rate:.2%}",
                number(result.verdicts_per_second),
                f"{number(result.in_flight)} / {work.max_in_flight}",
                str(result.intake_workers),
                str(result.judge_workers),
                f"{result.event_partitions} / {result.task_partitions}",
                number(result.fetched_bytes_per_second / 1e6),
                number(result.requests_per_minute),
                number(result.tokens_per_minute),
                number(result.usd_per_day),
            ]
        )
    return _table(
        [
            "events/s",
            "rate",
            "verdicts/s",
            "in flight / a worker",
            "intake",
            "judge",
            "partitions",
            "read MB/s",
            "requests/min",
            "tokens/min",
            "USD/day",
        ],
        rows,
    )


def _precision() -> str:
    deviations = (0.5, 1.0, 1.5)
    rows = [
        [f"±{wanted:g}", *(f"{verdicts_for(wanted, deviation=one, scale=5):,}" for one in deviations)]
        for wanted in (0.5, 0.25, 0.2, 0.1, 0.05)
    ]
    return _table(["95% interval of the mean", *(f"s = {one:g}" for one in deviations)], rows)


def _rates() -> str:
    wanted = verdicts_for(0.1, deviation=1, scale=5)
    rows = [
        [
            f"{work.events_per_second:,}",
            *(_rate(wanted / hours, work.events_per_second) for hours in (1, 6, 24)),
        ]
        for work in EXAMPLES
    ]
    return _table(["events/s of the group", "every hour", "every 6 hours", "every day"], rows)


def _rate(verdicts_per_hour: float, events_per_second: float) -> str:
    needed = sampling_rate_for(verdicts_per_hour, events_per_second)
    return f"{number(needed * 100)}%" if needed >= 1e-5 else "below 0.001%"


def _backlog() -> str:
    rows = [
        [
            f"{load:.0%}",
            *(f"{catch_up_seconds(minutes * 60, load) / 60:.0f} min" for minutes in (10, 60, 480)),
        ]
        for load in (0.3, 0.6, 0.8, 0.9)
    ]
    return _table(["load before", "outage of 10 min", "of 1 h", "of 8 h"], rows)
