from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from streams.monitoring.statistics.strata import (
    FORGET_AFTER,
    LONGEST_WAIT,
    MOST_POLICIES,
    RelativeWeights,
)


def known(policy: str = "a", **strata: float) -> RelativeWeights:
    """Return weights that saw two samples of each stratum."""
    weights = RelativeWeights()
    for stratum, weight in [*strata.items()] * 2:
        weights.share(policy, stratum, weight)
    return weights


def test_a_share_is_of_the_largest_weight_before_the_sample() -> None:
    weights = RelativeWeights()
    assert weights.share("a", "rest", 1000) == 0  # no scale is known
    assert weights.share("a", "gold", 2) == 0.002
    assert weights.share("a", "rest", 4000) == 1
    assert weights.share("a", "gold", 2) == 0.0005


def test_a_new_policy_awaits_the_strata_that_hold_the_traffic() -> None:
    """Of 101 answers "down" represents 1 and "rest" 100: only "rest", with 99% of the traffic, is awaited."""
    weights = known(down=1, rest=100)
    assert [weights.share("b", "down", 1) for _ in range(30)] == [0] * 30
    assert weights.share("b", "rest", 1000) == 0
    assert weights.share("b", "down", 1) == 0.001
    # The other way round nothing is awaited longer: the next policy starts with its second sample.
    assert [weights.share("c", "rest", 1) for _ in range(2)] == [0, 1]


def test_a_stratum_that_never_comes_is_awaited_for_a_bounded_time() -> None:
    weights = known(rest=100)
    shares = [weights.share("b", "renamed", 5) for _ in range(LONGEST_WAIT + 1)]
    assert shares == [0] * LONGEST_WAIT + [1]


def test_a_lowered_policy_begins_with_the_scale_of_its_base_over_the_factor() -> None:
    """Rates of 1 and 1/10, lowered to a quarter: 10 becomes 40, so a weight of 4 has share 1/10."""
    weights = known("p", down=1, rest=10)
    assert weights.share("p*1/4", "down", 4) == pytest.approx(0.1)
    assert weights.share("p*0", "down", 5) == pytest.approx(0.5)  # an invalid factor: as the base


@pytest.mark.parametrize("weight", [7.2e16, 1000.0])
def test_one_enormous_weight_is_forgotten_after_200_answers_of_its_stratum(weight: float) -> None:
    weights = known(rest=1)
    assert weights.share("a", "rest", weight) == 1
    shares = [weights.share("a", "rest", 1) for _ in range(FORGET_AFTER + 1)]
    assert shares == [pytest.approx(1 / weight)] * FORGET_AFTER + [1]


def test_a_weight_that_keeps_coming_is_not_forgotten_between() -> None:
    """With 50 before the next, 20 gaps are 1,020 samples; then the scale is the largest since."""
    weights = RelativeWeights()
    for _ in range(5):
        weights.share("a", "rest", 100)
        for _ in range(50):
            weights.share("a", "rest", 1)
    shares = [weights.share("a", "rest", 2) for _ in range(1000)]
    assert shares == [0.02] * 970 + [1] * 30


def test_a_stratum_that_is_rarely_judged_is_not_forgotten_for_others() -> None:
    weights = known(down=1, rest=1000)
    assert {weights.share("a", "down", 1) for _ in range(5000)} == {0.001}


samples = st.tuples(
    st.sampled_from(("a", "b", "a*1/4")), st.sampled_from(("down", "rest")), st.floats(1, 1e9)
)


@given(st.lists(samples, max_size=60))
def test_shares_are_at_most_1_and_survive_a_restart(drawn: list[tuple[str, str, float]]) -> None:
    one, state = RelativeWeights(), TypeAdapter(RelativeWeights)
    for policy, stratum, weight in drawn:
        two = state.validate_json(state.dump_json(one))
        share = one.share(policy, stratum, weight)
        assert 0 <= share <= 1
        assert two.share(policy, stratum, weight) == share


def test_remembered_policies_are_bounded() -> None:
    """The least recently used policy is forgotten."""
    weights = RelativeWeights()
    for number in range(MOST_POLICIES + 5):
        weights.share(f"p{number}", "rest", 3)
    assert list(weights.policies) == [f"p{number}" for number in range(5, MOST_POLICIES + 5)]
