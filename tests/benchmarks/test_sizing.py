"""The formulas of docs/scaling.md, against examples computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.sizing.__main__ import filled, main
from benchmarks.sizing.figures import MEASURED, Figures
from benchmarks.sizing.model import (
    Workload,
    catch_up_seconds,
    half_width,
    partitions,
    sampling_rate_for,
    size,
    verdicts_for,
)
from benchmarks.sizing.tables import EXAMPLES, number, tables
from streams.monitoring.statistics.estimators import WeightedSums

ROUND = Figures(
    skipped_cpu_seconds=1e-6,
    skipped_cpu_seconds_per_kb=1e-6,
    kept_cpu_seconds=1e-3,
    verdict_cpu_seconds=6e-3,
    resident_bytes=1,
    task_bytes=2_000,
    result_bytes=1_000,
)
WORK = Workload(
    events_per_second=10_000,
    sampling_rate=0.1,
    event_bytes=3_000,
    metrics_per_event=2,
    judge_seconds=1.5,
    calls_per_verdict=1.25,
    input_tokens=1_000,
    cached_tokens=400,
    output_tokens=100,
    input_usd=1,
    cached_usd=0.5,
    output_usd=4,
    max_in_flight=250,
)


def test_an_example_by_hand() -> None:
    made = size(WORK, ROUND)
    # kept 10,000 x 0.1 = 1,000/s; verdicts 2 x 1,000; calls 2,000 x 1.25 = 2,500/s
    assert made.verdicts_per_second == pytest.approx(2_000)
    assert made.requests_per_minute == pytest.approx(150_000)  # 2,500 x 60
    assert made.tokens_per_minute == pytest.approx(165e6)  # 150,000 x 1,100
    assert made.in_flight == pytest.approx(3_000)  # Little: 2,000 x 1.5
    # a call: (600 x 1 + 400 x 0.5 + 100 x 4) / 10^6 = 0.0012 USD; a day: 2,500 x 86,400 x 0.0012
    assert made.usd_per_day == pytest.approx(259_200)
    # cores: 9,000 x (1 + 3) us + 1,000 x 1 ms = 1.036; / 0.6 = 1.73
    assert made.intake_workers == 2
    # CPU: 2,000 x 6 ms / 0.6 = 20; in flight: 3,000 / (250 x 0.6) = 20
    assert made.judge_workers == 20
    assert (made.event_partitions, made.task_partitions) == (4, 40)
    assert made.fetched_bytes_per_second == pytest.approx(30e6)
    assert made.fetched_bytes_per_second_worker == pytest.approx(15e6)
    assert made.task_bytes_per_day == pytest.approx(345.6e9)  # 2,000 x 86,400 x 2,000
    assert made.result_bytes_per_day == pytest.approx(172.8e9)


def test_the_scarcer_resource_sets_the_number_of_workers() -> None:
    assert size(replace(WORK, judge_seconds=3), ROUND).judge_workers == 40
    assert size(WORK, replace(ROUND, verdict_cpu_seconds=12e-3)).judge_workers == 40
    made = size(Workload(events_per_second=0.01, sampling_rate=0.01))
    assert (made.intake_workers, made.judge_workers) == (1, 1)
    assert (made.event_partitions, made.task_partitions) == (4, 4)


def test_partitions_leave_room_to_double() -> None:
    assert [partitions(workers) for workers in (1, 2, 3, 4, 5, 20)] == [4, 4, 8, 8, 12, 40]


def test_catching_up() -> None:
    """At 60% load an hour's backlog takes 1.5 h: 0.6 h of work over 0.4 of spare capacity."""
    assert catch_up_seconds(3600, 0.6) == pytest.approx(5400)
    assert catch_up_seconds(3600, 0) == 0
    with pytest.raises(ValueError, match=r"below 1, got 1; add capacity"):
        catch_up_seconds(3600, 1)


def test_half_width_by_hand() -> None:
    """100 verdicts, s = 1, scale 5: the widest interval, with the mean in the middle."""
    # (s / 5)² = 0.04; V = (0.04 / 100 + 0.75 / 100²) 100/99 = 0.00047980; 1/n* = V / 0.25 = 0.0019192, and
    # with the doubt (100/110) 0.0019192 + (10/110) / 100 = 0.0026538; g = 1.9842² 0.0026538 = 0.010448;
    # sqrt(0.25 g + g²/4) / (1 + g) = 0.050843, times 5.
    assert half_width(100, deviation=1, scale=5) == pytest.approx(0.2542, abs=1e-4)
    assert half_width(2, deviation=1, scale=5) == 5 / 2


@given(st.integers(3, 200), st.floats(0.001, 1))
def test_half_width_equals_that_of_the_worker(pairs: int, probability: float) -> None:
    """Half of the scores 2 and half 3 give s = 0.5 for any inclusion probability."""
    sums = WeightedSums.of([(2.0, probability), (3.0, probability)] * pairs)
    ends = sums.interval(lowest=0, highest=5)
    assert ends is not None
    wanted = half_width(2 * pairs, deviation=0.5, scale=5)
    assert ends[0] == pytest.approx(max(0, 2.5 - wanted), abs=1e-6)
    assert ends[1] == pytest.approx(min(5, 2.5 + wanted), abs=1e-6)


@given(st.floats(0.02, 2), st.floats(0, 2.5))
def test_no_fewer_verdicts_would_do(wanted: float, deviation: float) -> None:
    count = verdicts_for(wanted, deviation=deviation, scale=5)
    assert half_width(count, deviation=deviation, scale=5) <= wanted
    assert half_width(count - 1, deviation=deviation, scale=5) > wanted


def test_rates_for_a_precision() -> None:
    """360 verdicts an hour of 10 events a second are 1% (360 of 36,000); of one event an hour, all."""
    assert sampling_rate_for(360, 10) == pytest.approx(0.01)
    assert sampling_rate_for(360, 1 / 3600) == 1


def test_numbers_have_three_digits() -> None:
    shown = [number(value) for value in (0, 0.00456, 12.34, 999.6, 1632.96, 12_345_678)]
    assert shown == ["0", "0.00456", "12.3", "1,000", "1,630", "12,300,000"]


def test_the_examples_are_powers_of_ten_up_to_a_million() -> None:
    assert [work.events_per_second for work in EXAMPLES] == [10**power for power in range(7)]
    sizes = [size(work, MEASURED) for work in EXAMPLES]
    for smaller, larger in pairwise(sizes):
        assert smaller.usd_per_day < larger.usd_per_day
        assert smaller.intake_workers <= larger.intake_workers
        assert smaller.event_partitions <= larger.event_partitions


def test_a_place_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"places of tables must be"):
        filled("<!-- sizing other: begin -->\n<!-- sizing other: end -->\n", tables())


def test_sizing_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--size", "events_per_second=100", "sampling_rate=0.05"]) == 0
    assert json.loads(capsys.readouterr().out)["verdicts_per_second"] == pytest.approx(10)
    with pytest.raises(SystemExit):
        main(["--size", "events_per_second=100", "sampling_rate=0.05", "judge_second=1"])
    assert "judge_seconds" in capsys.readouterr().err
