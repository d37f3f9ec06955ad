"""The rules of the scores, and the sentences that make a claim."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from judge.metrics.doubts import claiming_parts
from judge.metrics.scoring import coverage_score, exact_text, relevance_cap
from schemas import CoverageVerdict

COUNTS = st.integers(0, 12).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


@pytest.mark.parametrize(
    "case", yaml.safe_load((Path(__file__).parent / "cases" / "scoring.yaml").read_text("utf-8"))
)
def test_the_rule_case_by_case(case: dict[str, Any]) -> None:
    counts: dict[str, Any] = {
        name: given if name == "organization" else tuple(given) for name, given in case["counts"].items()
    }
    result = coverage_score(**counts)
    assert (exact_text(result.exact), result.score) == (case["exact"], case["score"])
    assert result.rationale[4] == f"Score: {case['score']} ≈ {case['shown']} = {case['formula']}"


@given(COUNTS, COUNTS, COUNTS, st.booleans())
def test_a_score_is_in_range_and_nearest(
    facts: tuple[int, int], conclusions: tuple[int, int], terms: tuple[int, int], organization: bool
) -> None:
    result = coverage_score(facts=facts, conclusions=conclusions, terms=terms, organization=organization)
    assert 0 <= result.exact <= 5
    assert Fraction(-1, 2) < result.score - result.exact <= Fraction(1, 2)
    assert Fraction(exact_text(result.exact)) == result.exact
    assert re.fullmatch(r"\d+(\.\d+|/\d+)?", exact_text(result.exact))
    shown = re.match(r"Score: (\d) ≈ (\d\.\d{1,4}) = ", result.rationale[4])
    assert shown is not None
    assert int(shown[1]) == result.score
    assert abs(Fraction(Decimal(shown[2])) - result.exact) <= Fraction(1, 20_000)
    CoverageVerdict.model_validate(result.verdict())


@given(*[COUNTS] * 3, st.booleans(), st.sampled_from(["facts", "conclusions", "terms"]))
def test_matching_more_never_lowers_the_score(
    facts: tuple[int, int],
    conclusions: tuple[int, int],
    terms: tuple[int, int],
    organization: bool,
    what: str,
) -> None:
    counts: dict[str, Any] = {"facts": facts, "conclusions": conclusions, "terms": terms}

    def score(**changed: Any) -> Fraction:
        return coverage_score(**(counts | {"organization": organization} | changed)).exact

    assert score(organization=True) >= score(organization=False)
    matched, total = counts[what]
    if matched < total:
        more = score(**{what: (matched + 1, total)})
        # Facts change the branch from none to one that is matched; the other branches only add terms.
        assert more > score() if what == "terms" else more >= score()


@pytest.mark.parametrize(("matched", "total"), [(2, 1), (-1, 1), (1, 0)])
def test_impossible_counts_are_refused(matched: int, total: int) -> None:
    counts: dict[str, Any] = {"facts": (matched, total), "conclusions": (0, 0), "terms": (0, 0)}
    with pytest.raises(ValueError, match=f"facts matched .* total {total}, got {matched}"):
        coverage_score(**counts, organization=True)
    for upheld in (matched, 0):
        with pytest.raises(ValueError, match="upheld"):
            relevance_cap(upheld=upheld, total=total if upheld else 0)


@given(st.text(max_size=80))
def test_parts_are_stretches_of_the_text(text: str) -> None:
    assert all(0 <= start < end <= len(text) for start, end in claiming_parts(text))
