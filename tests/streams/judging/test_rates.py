"""Sampling rates that follow the money, over a simulated log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from schemas import QAEvent
from streams.intake.sampling import SamplingPolicy
from streams.judging.allocation import (
    AN_OCTAVE,
    MOST_STEPS,
    Flow,
    StratumLoad,
    VerdictTally,
    allocate,
    figures,
    part_of,
    step_of,
)
from streams.judging.rates import FIRST_STEP, REPORT_SECONDS, Policy, Rates, rates_record_kind

MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC)
STRATA = st.dictionaries(
    st.sampled_from("abcde"),
    st.builds(
        StratumLoad,
        demand=st.floats(0, 1_000),
        price=st.floats(1e-6, 10),
        spread=st.floats(0.01, 1),
        most=st.floats(0.001, 1),
    ),
    min_size=1,
)


@given(STRATA, st.floats(0, 1_000), st.floats(1, 10))
@example(
    {"a": StratumLoad(3, 9, 0.0625), "b": StratumLoad(4, 7, 0.125), "c": StratumLoad(356, 1.875)}, 718, 1
)
@settings(max_examples=1_000)
def test_money_is_spent_and_more_of_it_lowers_no_rate(
    strata: dict[str, StratumLoad], pace: float, times: float
) -> None:
    parts = allocate(strata, pace)
    cost = {name: max(one.demand * one.price, 1e-12) for name, one in strata.items()}
    spent = sum(cost[name] * part for name, part in parts.items())
    assert spent == pytest.approx(min(pace, sum(cost.values())), rel=1e-6)
    more = allocate(strata, pace * times)
    assert all(more[name] >= part * (1 - 1e-9) for name, part in parts.items())
    least = 0.1 * pace / len(strata)
    assert all(part >= min(1, least / cost[name]) * (1 - 1e-9) for name, part in parts.items())


def test_money_goes_where_scores_vary_and_verdicts_are_cheap() -> None:
    """Nine tenths by Neyman: sizes 9:1 with equal spreads get 9:1; three times the spread, three times as
    much; nine times the price, three times the money for a third of the verdicts. A tenth is shared equally.
    """
    parts = allocate({"a": StratumLoad(900), "b": StratumLoad(100)}, 100)
    assert (parts["a"] * 900, parts["b"] * 100) == pytest.approx((90 * 0.9 + 5, 90 * 0.1 + 5))
    parts = allocate({"a": StratumLoad(500), "b": StratumLoad(500, spread=3)}, 100)
    assert (parts["a"] * 500, parts["b"] * 500) == pytest.approx((90 / 4 + 5, 90 * 3 / 4 + 5))
    parts = allocate({"a": StratumLoad(500), "b": StratumLoad(500, price=9)}, 100)
    assert (parts["a"] * 500, parts["b"] * 4500) == pytest.approx((90 / 4 + 5, 90 * 3 / 4 + 5))
    # A stratum of which a tenth arrives at most is ten times as large.
    parts = allocate({"a": StratumLoad(500), "b": StratumLoad(500, most=0.1)}, 110)
    assert parts["b"] * 500 == pytest.approx(99 * 10 / 11 + 5.5)
    assert allocate({"a": StratumLoad(0), "b": StratumLoad(1)}, 5) == {"a": 1.0, "b": 1.0}


@given(st.integers(0, MOST_STEPS), st.integers(0, MOST_STEPS), st.text(min_size=1), st.floats(0.001, 1))
def test_a_higher_rate_drops_no_event(one: int, other: int, event_id: str, most: float) -> None:
    """Policies decide by the event alone: what lower rates keep, higher ones keep, with the exact rate."""
    event = QAEvent.model_construct(event_id=event_id, question="", answer="")
    decision = SamplingPolicy(default_rate=most).decide_event(event, None)
    high, low = (decision.lowered(part_of(step), f"*{step}") for step in sorted((one, other)))
    assert [low.keep, high.keep, decision.keep] == sorted([low.keep, high.keep, decision.keep])
    assert low.probability <= high.probability
    # The probability is rounded up to a multiple of 2^-56.
    assert float(low.probability) == pytest.approx(most * float(part_of(max(one, other))), rel=1e-6)
    assert (low.policy, low.stratum) == (f"{decision.policy}*{max(one, other)}", decision.stratum)
    assert decision.lowered(Fraction(1)) is decision
    assert decision.lowered(Fraction(1, 4)).policy == f"{decision.policy}*1/4"


def test_steps_are_coarse_and_stay() -> None:
    assert [step_of(part) for part in (1, 0.5, 0.25, 0, 2)] == [0, AN_OCTAVE, 2 * AN_OCTAVE, MOST_STEPS, 0]
    assert [step_of(part, before=4) for part in (0.59, 0.43, 0.6, 0.4)] == [4, 4, 3, 5]
    assert float(part_of(AN_OCTAVE * 3 + 2)) == pytest.approx(2**-3.5)


def test_few_verdicts_are_shrunk_to_all() -> None:
    assert figures(("a", "b"), {}, 0.01) == {"a": (0.01, 1.0), "b": (0.01, 1.0)}
    tallies = {name: VerdictTally() for name in "ab"}
    for number in range(1_001):
        tallies["a"].add("m", number % 2, 0.02)
        tallies["a"].add("k", None, 0.02)
        tallies["b"].add("m", 0.5 + number % 2 / 10, 0.01)
    known = figures(("a", "b", "c"), {name: one.sums for name, one in tallies.items()}, 1.0)
    assert known["a"] == pytest.approx((0.02, 0.5), rel=0.02)
    assert known["b"] == pytest.approx((0.01, 0.08), rel=0.05)
    assert known["c"] == pytest.approx((0.05 / 3, (0.2525 / 2) ** 0.5), rel=0.02)


def test_a_burst_is_seen_within_a_minute_or_two_and_noise_is_not() -> None:
    flow = Flow(0.0, 0.0)
    for second in range(7_200):
        flow.add(float(second), 1)
    assert flow.rate(7_200) == pytest.approx(1, rel=0.05)
    for second in range(7_200, 7_320):
        flow.add(float(second), 10)
    assert 5 < flow.rate(7_320) < 10
    assert Flow(0.0, 0.0).rate(86_400) <= 1 / 3_600


@dataclass
class Group:
    limit: float = 8_640
    now: datetime = MIDNIGHT
    spent: float = 0.0
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    team: dict[str, Rates] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)

    def join(self, name: str) -> Rates:
        self.read[name] = 0
        self.team[name] = Rates(
            {"default": 1.0, "gold": 0.5}, limit=self.limit, in_dollars=False, worker=name,
            spent=lambda: self.spent, now=lambda: self.now,
        )  # fmt: skip
        return self.team[name]

    def tick(self, seconds: float = REPORT_SECONDS) -> None:
        self.now += timedelta(seconds=seconds)
        for name, rates in self.team.items():
            for _ in range(2):
                for record in self.log[self.read[name] :]:
                    assert rates.heard(*record)
                self.read[name] = len(self.log)
                self.log += rates.due()

    def run(self, times: int, seconds: float = REPORT_SECONDS, **met: float) -> None:
        for _ in range(times):
            for rates in self.team.values():
                for stratum, number in met.items():
                    part, _ = rates.in_force(None, stratum)
                    rates.count(stratum, number, number * float(part))
                    self.spent += number * float(part)
            self.tick(seconds)

    def policies(self) -> Iterator[str]:
        return (key.decode().split()[-1][:-2] for key, _ in self.log if rates_record_kind(key) == "policy")


def test_workers_publish_one_policy_and_the_next_one_goes_on() -> None:
    """The first of those that report publishes; if it is killed, the next one does. All sample alike, and the
    rates spend what is left: 0.1 a second of 2 workers with 3 a second.
    """
    group = Group()
    group.join("a")
    group.join("b")
    assert not group.team["a"].known.is_set()
    assert group.team["a"].in_force(None, "default")[0] == part_of(FIRST_STEP)
    group.run(240, default=20, gold=2.5)
    assert set(group.policies()) == {"a"}
    rates = {name: rate.rate("default") for name, rate in group.team.items()}
    assert rates["a"] == rates["b"] == pytest.approx(0.9 * 0.1 / 3, rel=0.3)
    assert group.spent == pytest.approx(0.1 * 240 * REPORT_SECONDS, rel=0.1)
    del group.team["a"]
    group.run(20, default=200, gold=2.5)
    assert set(group.policies()) == {"a", "b"}
    late = group.join("c")
    group.run(1)
    assert late.known.is_set()
    for seconds in range(0, 4_000, 100):
        at = MIDNIGHT.timestamp() + seconds
        assert late.in_force(at, "gold") == group.team["b"].in_force(at, "gold")


def test_an_event_is_decided_by_the_rates_of_its_time() -> None:
    group = Group()
    rates = group.join("a")
    group.run(50, default=20, gold=5)
    at = group.now.timestamp()
    before = rates.in_force(at, "default")
    group.run(50, default=2_000, gold=5)
    assert rates.in_force(at, "default") == before
    assert rates.in_force(None, "default")[0] < before[0]
    assert rates.in_force(at, "unknown")[0] == part_of(FIRST_STEP)
    assert Policy(1.0, "a", {"x": 4, "y": 4}).suffix == Policy(2.0, "b", {"y": 4, "x": 4}).suffix == "*0.5"
    assert Policy(1.0, "a", {"x": 4, "y": 5}).suffix == Policy(9.0, "b", {"y": 5, "x": 4}).suffix
    assert Policy(1.0, "a", {"x": 0}).suffix == ""


def test_a_suspected_stratum_is_judged_at_its_configured_rate() -> None:
    """As far as a quarter of what is left pays for 15 minutes of it, while the suspicion is told."""
    group = Group()
    rates = group.join("a")
    group.run(240, default=40, gold=5)
    calm = rates.rate("gold")
    rates.suspect("tone", ["gold"])
    group.run(4, default=40, gold=5)
    assert (calm < 0.1, rates.rate("gold")) == (True, 0.5)
    rates.suspect("tone", ["default", "gold"])
    group.run(20, default=400, gold=5)
    # 400 / 15 a second, for 900 s, of a quarter of about 8,640 * 23 / 24.
    assert rates.rate("default") == pytest.approx(0.25 * 8_640 * 23 / 24 / (900 * 400 / 15), rel=0.3)
    rates.suspect("tone", [])
    group.run(4, default=40, gold=5)
    assert rates.rate("gold") < 0.1
    rates.suspect("tone", ["gold"])
    group.run(90, default=40, gold=5)
    assert rates.rate("gold") < 0.1


def test_a_day_begins_with_its_money_and_knows_the_days_before() -> None:
    """A worker that joins on the third day knows from the log when demand comes: from noon to midnight."""
    group = Group()
    group.join("a")
    for number in range(48):
        group.spent *= number != 24
        group.run(90, 40.0, default=60 * (number % 24 >= 12))
    assert group.spent == pytest.approx(8_640, rel=0.02)
    group.spent = 0
    late = group.join("c")
    for _ in range(12):
        group.run(90, 40.0, default=0)
    assert late.rate("default") == group.team["a"].rate("default")
    for _ in range(6):
        group.run(90, 40.0, default=30)
    assert group.spent == pytest.approx(4_320, rel=0.2)


def test_what_is_no_record_of_rates_is_left() -> None:
    rates = Group().join("a")
    assert not rates.heard(b'["2026-11-21", "a", "all", "", "calls"]', b"{}")
    assert not rates.heard(None, b"x")
    with capture_logs() as logs:
        assert rates.heard(b'["policy", "x"]', b'{"since": "soon"}')
    assert [one["event"] for one in logs] == ["record says nothing about sampling rates; skipped"]
    assert rates.heard(b'["policy", "x"]', None)


def test_old_policies_and_reports_are_deleted() -> None:
    group = Group()
    group.join("b")
    group.run(60, default=20)
    del group.team["b"]
    group.join("a")
    group.tick(9 * 86_400)
    group.run(10, default=20)
    gone = [key for key, value in group.log if value is None]
    assert b'["report", "b"]' in gone
    assert len(gone) > 1
    assert len(list(group.policies())) > 1
