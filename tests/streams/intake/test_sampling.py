"""Consistent probability sampling: thresholds, sources of randomness, strata, upstream samplers."""

from __future__ import annotations

import hashlib
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas import QAEvent
from schemas.base import DEFAULT_STRATUM
from streams.intake.sampling import (
    RANGE,
    Decision,
    LabelsCondition,
    Rule,
    SamplingPolicy,
    event_randomness,
    hashed_randomness,
    probability,
    random_value,
    threshold,
    trace_randomness,
    upstream_threshold,
)
from streams.intake.selector import _sampling
from streams.monitoring.statistics.estimators import WeightedSums

RATES = st.floats(min_value=0, max_value=1)
TRACE = "0af7651916cd43dd8448eb211c80319c"
GOLD = Rule("gold", LabelsCondition.of({"tenant": ["gold"]}), 1.0)


def _event(event_id: str = "e", **fields: Any) -> QAEvent:
    return QAEvent.model_construct(event_id=event_id, question="", answer="", **fields)


def test_a_rate_outside_is_refused() -> None:
    for rate in (-0.1, 1.1, Fraction(-1, 10**30)):
        with pytest.raises(ValueError, match="rate must be from 0 to 1, got"):
            threshold(rate)


@example(0)  # none: R never reaches 2^56
@example(1)  # all
@example(2.0**-57)  # never rounded to none
@given(RATES | st.fractions(0, 1))
def test_the_probability_is_what_the_threshold_says(rate: Fraction | float) -> None:
    """P = (2^56 - T) / 2^56, at least the rate and less than 2^-56 above it."""
    exact = probability(threshold(rate))
    assert exact == Fraction(RANGE - threshold(rate), RANGE)
    assert 0 <= exact - Fraction(rate) < Fraction(1, RANGE)


@given(RATES, RATES, st.text(min_size=1, max_size=20))
def test_raising_a_rate_never_drops_an_event(first: float, second: float, event_id: str) -> None:
    low, high = sorted((first, second))
    policies = SamplingPolicy(default_rate=low), SamplingPolicy(default_rate=high)
    assert [policy.decide_event(_event(event_id), None).keep for policy in policies] != [True, False]


@given(RATES, RATES, st.integers(0, RANGE - 1))
def test_what_a_metric_keeps_is_part_of_what_sampling_keeps(rate: float, share: float, r: int) -> None:
    event = Decision(randomness=r, rate=Fraction(rate), threshold=threshold(rate), stratum="s", policy="p")
    own = event.for_metric(share)
    assert own.keep <= event.keep
    assert own.threshold == threshold(Fraction(rate) * Fraction(share))
    assert own.probability == probability(own.threshold)
    assert (own.stratum, own.policy) == ("s", "p")


@pytest.mark.parametrize(
    ("rate", "randomness", "skipped"),
    [*((0, of, "filtered") for of in (1, RANGE - 1)), *((1, of, None) for of in (1, RANGE - 1)),
     (0.5, 1, "not_sampled"), (0.5, 1 << 55, None), (0.5, (1 << 55) - 1, "not_sampled")],
)  # fmt: skip
def test_an_event_is_kept_from_its_threshold_on(rate: float, randomness: int, skipped: str | None) -> None:
    assert _decide(SamplingPolicy(default_rate=rate), randomness).skip_reason == skipped


@pytest.mark.parametrize("trace_id", [None, "", "0" * 32, "x" * 32, TRACE.upper(), TRACE[:-1], f"{TRACE}\n"])
def test_without_a_valid_trace_id_the_event_id_decides(trace_id: str | None) -> None:
    """Uninstrumented services send an id of zeros, which as randomness would drop all of their events."""
    digest = hashlib.sha256(b"e").hexdigest()
    assert event_randomness("e", trace_id, "ot=rv:ffffffffffffff") == int(digest[:14], 16)


@given(st.text(max_size=100), st.text(max_size=40))
def test_any_trace_context_is_read_without_an_error(tracestate: str, trace_id: str) -> None:
    found = event_randomness("e", trace_id, tracestate)
    assert 0 <= found < RANGE
    assert random_value(tracestate) is None or "ot=" in tracestate


def test_the_first_rule_that_fits_decides() -> None:
    also = Rule("also", LabelsCondition.of({"tenant": ["gold", "x"]}), 0.0)
    policy = SamplingPolicy(default_rate=0.25, rules=[GOLD, also])
    events = [_event(labels={"tenant": tenant}) for tenant in ("gold", "x", "y")]
    gold, other, default = (policy.decide_event(event, None) for event in events)
    assert (gold.stratum, gold.probability, gold.keep) == ("gold", Fraction(1), True)
    assert (other.stratum, other.probability, other.skip_reason) == ("also", Fraction(0), "filtered")
    assert (default.stratum, default.probability) == (DEFAULT_STRATUM, Fraction(1, 4))
    assert policy.label_names == ("tenant",)


def test_the_record_key_can_decide() -> None:
    policy = SamplingPolicy(default_rate=0.5, key="record_key")

    def randomness(event_id: str, key: bytes | None) -> int:
        return policy.decide_event(_event(event_id, trace_id=TRACE), key).randomness

    by_key = {randomness(str(number), b"k") for number in range(5)}
    assert by_key == {int(hashlib.sha256(b"k").hexdigest()[:14], 16)}
    assert {randomness("e", no_key) for no_key in (None, b"")} == {0x48EB211C80319C}
    auto = SamplingPolicy(default_rate=0.5).decide_event(_event(), b"k")
    assert auto.randomness == hashed_randomness(b"e")


def test_policies_are_named_by_what_they_say() -> None:
    policies = [
        SamplingPolicy(),
        SamplingPolicy(default_rate=0.5),
        SamplingPolicy(key="record_key"),
        SamplingPolicy(rules=[GOLD]),
        SamplingPolicy(rules=[Rule("gold", LabelsCondition.of({"tenant": ["gold", "x"]}), 1.0)]),
    ]
    assert len({policy.name for policy in policies}) == len(policies)
    assert SamplingPolicy(rules=[GOLD]).name == policies[3].name


# Upstream samplers


@pytest.mark.parametrize(
    ("tracestate", "randomness", "limit"),
    [
        ("ot=rv:9b8233f7e3a151", 0x9B8233F7E3A151, None),
        ("ot=th:8;rv:9b8233f7e3a151", 0x9B8233F7E3A151, 0x80000000000000),
        ("vendor=1, ot=rv:00000000000000;th:c", 0, 0xC0000000000000),  # trailing zeros are omitted
        ("vendor=x,ot=th:0", None, 0),
        ("ot=th:123456789abcde", None, 0x123456789ABCDE),
        ("ot=rv:9B8233F7E3A151;th:C", None, None),  # the specification requires lower case
        ("ot=rv:9b8233f7e3a15;th:", None, None),
        ("ot=rv:9b8233f7e3a151a;th:123456789abcdef", None, None),  # 15 digits
        ("foot=rv:9b8233f7e3a151;th:8", None, None),
        ("other=ot=rv:9b8233f7e3a151", None, None),
        ("th=c", None, None),
        ("ot=", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_randomness_and_threshold_are_read_as_the_specification_writes_them(
    tracestate: str | None, randomness: int | None, limit: int | None
) -> None:
    assert random_value(tracestate) == randomness
    # Else the last 14 digits of the trace id: 48 eb 21 1c 80 31 9c.
    expected = 0x48EB211C80319C if randomness is None else randomness
    assert trace_randomness(TRACE, tracestate) == event_randomness("e", TRACE, tracestate) == expected
    assert upstream_threshold(tracestate) == limit


def _decide(policy: SamplingPolicy, randomness: int, tracestate: str | None = None) -> Decision:
    trace_id = f"{1:018x}{randomness:014x}"
    return policy.decide_event(_event(trace_id=trace_id, tracestate=tracestate), None)


@pytest.mark.parametrize(
    ("upstream", "rate", "randomness", "tracestate", "expected"),
    [
        ("equalize", 0.5, RANGE - 1, "ot=th:c", Fraction(1, 4)),  # upstream is lower: p = 25%
        ("equalize", 0.125, RANGE - 1, "ot=th:c", Fraction(1, 8)),  # the policy's rate is lower
        ("proportional", 0.5, RANGE - 1, "ot=th:c", Fraction(1, 8)),  # 0.5 * 0.25
        ("ignore", 0.5, RANGE - 1, "ot=th:c", Fraction(1, 2)),
        ("equalize", 0.5, RANGE - 1, None, Fraction(1, 2)),
        ("equalize", 0.75, RANGE // 2, "ot=th:c", Fraction(3, 4)),  # R < T0: it did not decide by this R
    ],
)
def test_the_probability_is_that_of_both_samplers(
    upstream: str, rate: float, randomness: int, tracestate: str | None, expected: Fraction
) -> None:
    policy = SamplingPolicy(default_rate=rate, upstream=upstream)  # type: ignore[arg-type] # one of the three
    decision = _decide(policy, randomness, tracestate)
    assert decision.keep
    assert decision.probability == expected


@pytest.mark.parametrize("upstream", ["equalize", "proportional"])
def test_a_stated_probability_below_the_floor_is_unknown(upstream: str) -> None:
    """Users write headers and events: none counts as more answers than the floor allows."""
    policy = SamplingPolicy(upstream=upstream, floor=0.01)  # type: ignore[arg-type] # one of the two
    hostile = "ot=th:ffffffffffffff;rv:ffffffffffffff"
    assert _decide(policy, RANGE - 1, hostile).probability == 1
    events = [_event(sampling_probability=share) for share in (1e-300, 0.0099, 0.01)]
    stated = [float(policy.decide_event(event, None).probability) for event in events]
    assert stated == [1, 1, pytest.approx(0.01)]


def test_metrics_and_lowered_rates_meet_the_upstream_threshold_too() -> None:
    # A metric's 50% of 50% is 25%; the upstream 12.5% is lower.
    decision = _decide(SamplingPolicy(default_rate=0.5, upstream="equalize"), RANGE - 1, "ot=th:e")
    assert decision.for_metric(0.5).probability == Fraction(1, 8)
    assert decision.lowered(Fraction(1, 8)).probability == Fraction(1, 16)


@given(st.integers(0, RANGE - 1), st.floats(0.001, 1), st.integers(0, RANGE - 1))
def test_equalizing_never_keeps_what_our_own_rate_would_not(randomness: int, rate: float, limit: int) -> None:
    state = f"ot=th:{limit:014x}"
    ours = _decide(SamplingPolicy(default_rate=rate), randomness)
    both = _decide(SamplingPolicy(default_rate=rate, upstream="equalize"), randomness, state)
    assert both.keep == ours.keep
    assert both.probability <= ours.probability


@pytest.mark.slow
@pytest.mark.parametrize("upstream", ["equalize", "proportional"])
@pytest.mark.parametrize("stated", [False, True])
def test_the_mean_is_unbiased_whatever_was_sampled_upstream(upstream: str, stated: bool) -> None:
    """Half of the answers score 2 and arrive at 100%, half score 4 and arrive at 25%: the true mean is 3.

    The mean of the arrivals is (2 + 0.25 * 4) / 1.25 = 2.4.
    """
    policy = SamplingPolicy(default_rate=0.5, upstream=upstream)  # type: ignore[arg-type] # one of the two
    source = random.Random(21)
    held, runs = 0, 160
    for run in range(runs):
        kept: list[tuple[float, float]] = []
        for index in range(600):
            share, score = source.choice(((1.0, 2), (0.25, 4)))
            score += source.choice((-1, 0, 1))
            randomness = source.getrandbits(56)
            decision = _arrived(policy, f"{run}-{index}", randomness, share, source if stated else None)
            if decision is not None and decision.keep:
                kept.append((score, float(decision.probability)))
        interval = WeightedSums.of(kept).interval(lowest=1, highest=5)
        held += interval is not None and interval[0] <= 3 <= interval[1]
    # The share of 160 runs at 95% has a standard error of 0.017; four of them below 0.95 is 0.88.
    assert held / runs >= 0.88


def _arrived(
    policy: SamplingPolicy, event_id: str, randomness: int, share: float, independent: random.Random | None
) -> Decision | None:
    """Decide on an event after an upstream sampler; return None if that dropped the event."""
    if independent is not None:
        if independent.random() >= share:
            return None
        return policy.decide_event(_event(event_id, sampling_probability=share), None)
    limit = threshold(share)
    if randomness < limit:
        return None
    state = f"ot=th:{limit:014x}".rstrip("0") if limit else "ot=th:0"
    return _decide(policy, randomness, state)


def test_a_task_names_the_key_that_sampled_it() -> None:
    by_key = SamplingPolicy(key="record_key")
    keys = (("a", b"user-1"), ("b", b"user-1"), ("a", None))
    one, other, alone = (_sampling(by_key.decide_event(_event(name), key)).cluster for name, key in keys)
    assert one == other != alone
    assert len(one or "") == len(alone or "") == 14
    assert _sampling(SamplingPolicy().decide_event(_event("a"), b"user-1")).cluster is None
