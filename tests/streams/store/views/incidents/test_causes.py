"""Causes of a fall, by hand and over simulated drops of five kinds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.causes import DROPS, draw, find, found_in, judged, mix_alone
from streams.store.views.causes import JudgedAnswer
from streams.store.views.report import sentence

_RUNS = 40


@pytest.mark.slow
@pytest.mark.parametrize("drop", DROPS)
def test_simulated_drops_have_the_right_cause(
    drop: Callable[[Random], tuple[list[JudgedAnswer], list[JudgedAnswer], set[object]]],
) -> None:
    """`python -m benchmarks.causes` runs 200 of each kind."""
    right = wrongly_within = 0
    for seed in range(_RUNS):
        before, after, expected = drop(Random(seed))
        found = found_in(find(before, after))
        right += found <= expected
        wrongly_within += drop is mix_alone and any(kind != "mix" for kind, _, _ in found)
    assert right >= 0.95 * _RUNS
    assert wrongly_within == 0


def test_traffic_that_is_replaced_is_a_change_of_the_mix() -> None:
    noise = Random(1)
    before, after = draw(noise, apps={"expertqa": (4.4, 1.0)}), draw(noise, apps={"nq": (2.4, 1.0)})
    assert found_in(find(before, after)) == {("mix", "app", "nq")}


def test_contributions_by_hand() -> None:
    """Half of the answers fall from 5 to 3: contribution 0.5 * 2 = 1 point of a fall from 5 to 4."""
    before = [JudgedAnswer({"app": "x"}, 5, 1.0)] * 50 + [JudgedAnswer({"app": "y"}, 5, 1.0)] * 50
    after = [JudgedAnswer({"app": "x"}, 5, 1.0)] * 50 + [JudgedAnswer({"app": "y"}, 3, 1.0)] * 50
    finding = find(before, after)
    assert (finding.before, finding.after, finding.fall) == (5, 4, 1)
    [cause] = finding.causes
    assert (cause.kind, cause.value, cause.contribution) == ("within", "y", 1.0)
    assert cause.low < 1 < cause.high
    assert finding.mix["app"] == pytest.approx(0)


def test_the_mix_by_hand() -> None:
    """4 of 5 answers score 5 and one 1, then the reverse: mean 4.2 to 1.8, all 2.4 points from shares."""
    easy, hard = JudgedAnswer({"app": "easy"}, 5, 1.0), JudgedAnswer({"app": "hard"}, 1, 1.0)
    finding = find([easy] * 80 + [hard] * 20, [easy] * 20 + [hard] * 80)
    assert finding.fall == pytest.approx(2.4)
    assert finding.mix["app"] == pytest.approx(2.4)
    assert found_in(finding) == {("mix", "app", "hard")}


_ANSWERS = st.lists(
    st.builds(
        JudgedAnswer,
        st.dictionaries(st.sampled_from(["app", "model"]), st.sampled_from(["x", "y"])),
        st.integers(1, 5),
        st.sampled_from([0.1, 0.5, 1.0]),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(_ANSWERS, _ANSWERS)
def test_any_answers_have_a_finding(before: list[JudgedAnswer], after: list[JudgedAnswer]) -> None:
    finding = find(before, after)
    assert len(finding.causes) <= 4
    assert finding.low <= finding.fall <= finding.high


def test_a_complete_roll_out_is_not_blamed_but_named() -> None:
    """What replaced all others fell "at the same time"; beside others it "is new"."""
    for versions, said in ((("v2",), "at the same time as prompt_version=v2"), (("v1", "v2"), "=v2 is new")):
        noise = Random(7)
        after = judged(noise, versions, lambda labels: 1.3 * (labels["prompt_version"] == "v2"))
        [cause] = find(judged(noise, ("v1",)), after).causes
        assert said in sentence(cause)


def test_a_label_value_may_look_like_a_crossing() -> None:
    good, bad = JudgedAnswer({"app": "b x c"}, 5, 1.0), JudgedAnswer({"app": "b x c"}, 1, 1.0)
    other = JudgedAnswer({"app": "a"}, 5, 1.0)
    finding = find([good, other] * 60, [bad, other] * 60)
    assert found_in(finding) == {("within", "app", "b x c")}
