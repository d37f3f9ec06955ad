from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.monitoring.statistics.weights import MOST_POLICIES, RelativeWeights


def test_weights_are_relative_to_their_policy() -> None:
    """The largest weight is kept per policy: under a new policy a weight of 2 counts fully."""
    weights = RelativeWeights()
    assert weights.share("a", 1000) == 1
    assert weights.share("a", 2) == 0.002
    assert weights.share("b", 2) == 1
    assert weights.share("a", 2) == 0.002


def test_a_lowered_policy_begins_with_the_largest_weight_of_its_base_over_the_factor() -> None:
    """A lowered policy starts with the largest weight of its base divided by the factor.

    Rates of 1 and 1/10, lowered to a quarter: 10 becomes 40, so a weight of 4 has share 1/10.
    """
    weights = RelativeWeights([("p", 10.0)])
    assert weights.share("p*1/4", 4) == pytest.approx(0.1)
    assert weights.share("p*0", 5) == pytest.approx(0.5)  # an invalid factor: as the base
    assert weights.share("q*1/4", 4) == 1  # q is unknown


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 1e9)), max_size=60))
def test_shares_are_above_0_and_at_most_1_and_survive_a_restart(samples: list[tuple[str, float]]) -> None:
    one = RelativeWeights()
    for policy, weight in samples:
        two = RelativeWeights(one.largest)
        share = one.share(policy, weight)
        assert 0 < share <= 1
        assert two.share(policy, weight) == share


def test_remembered_policies_are_bounded() -> None:
    """The least recently used policy is forgotten."""
    weights = RelativeWeights()
    for number in range(MOST_POLICIES + 5):
        weights.share(f"p{number}", 3)
    assert len(weights.largest) == MOST_POLICIES
    assert weights.largest[0][0] == "p5"


@pytest.mark.parametrize("weight", [0.5, float("nan")])
def test_a_weight_below_1_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="weight must be at least 1"):
        RelativeWeights().share("p", weight)
