from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.metrics.scoring import FORCED_VERDICT, coverage_score, exact_text, half_up, relevance_cap
from schemas import CoverageVerdict

COUNTS = st.integers(0, 12).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


@pytest.mark.parametrize(
    ("facts", "conclusions", "terms", "organization", "exact", "score", "last"),
    [
        pytest.param(
            (2, 2), (0, 0), (1, 1), True, "5", 5,
            # 0.7 + 0.21 + 0.09 = 1; times 5 is 5.
            (
                    "Score: 5 ≈ 5.0 = 5 * (facts_ratio 1.0 * 0.7 + terms_ratio 1.0 * 0.21 + "
                    "organization_ratio 1.0 * 0.09)"
                ),
            id="everything matched",
        ),
        pytest.param(
            (0, 0), (0, 0), (1, 2), True, "4.475", 4,
            # No facts is neutral: 0.7 + 0.5*0.21 + 0.09 = 0.895; times 5 is 4.475.
            (
                    "Score: 4 ≈ 4.475 = 5 * (facts_ratio 1.0 * 0.7 + terms_ratio 0.5 * 0.21 + "
                    "organization_ratio 1.0 * 0.09)"
                ),
            id="no facts in the reference",
        ),
        pytest.param(
            (1, 2), (0, 0), (0, 0), False, "2.8", 3,
            # No terms is neutral: 0.35 + 0.21 + 0 = 0.56; times 5 is 2.8.
            (
                    "Score: 3 ≈ 2.8 = 5 * (facts_ratio 0.5 * 0.7 + terms_ratio 1.0 * 0.21 + "
                    "organization_ratio 0.0 * 0.09)"
                ),
            id="no terms in the reference",
        ),
        pytest.param(
            (0, 0), (0, 0), (0, 0), True, "5", 5,
            (
                    "Score: 5 ≈ 5.0 = 5 * (facts_ratio 1.0 * 0.7 + terms_ratio 1.0 * 0.21 + "
                    "organization_ratio 1.0 * 0.09)"
                ),
            id="nothing in the reference at all",
        ),
        pytest.param(
            (0, 3), (0, 0), (2, 2), True, "1.05", 1,
            # First branch, without organization: 0 + 0.21 = 0.21; times 5 is 1.05.
            "Score: 1 ≈ 1.05 = 5 * (facts_ratio 0.0 * 0.7 + terms_ratio 1.0 * 0.21)",
            id="no fact matched",
        ),
        pytest.param(
            (0, 3), (2, 2), (0, 0), True, "1.05", 1,
            # The first branch has precedence over conclusions.
            "Score: 1 ≈ 1.05 = 5 * (facts_ratio 0.0 * 0.7 + terms_ratio 1.0 * 0.21)",
            id="no fact matched, though conclusions are",
        ),
        pytest.param(
            (0, 1), (0, 1), (0, 4), False, "0", 0,
            "Score: 0 ≈ 0.0 = 5 * (facts_ratio 0.0 * 0.7 + terms_ratio 0.0 * 0.21)",
            id="nothing matched",
        ),
        pytest.param(
            (2, 2), (0, 3), (1, 1), True, "3.5", 4,
            # 0.4 + 0 + 0.21 + 0.09 = 0.7; times 5 is 3.5, a half, up to 4.
            "Score: 4 ≈ 3.5 = 5 * (facts_ratio 1.0 * 0.4 + conclusions_ratio 0.0 * 0.3 + terms_ratio 1.0 * "
            "0.21"
            " + organization_ratio 1.0 * 0.09)",
            id="conclusions present, none matched",
        ),
        pytest.param(
            (1, 2), (1, 2), (3, 3), True, "3.25", 3,
            # 0.2 + 0.15 + 0.21 + 0.09 = 0.65; times 5 is 3.25.
            "Score: 3 ≈ 3.25 = 5 * (facts_ratio 0.5 * 0.4 + conclusions_ratio 0.5 * 0.3 + terms_ratio 1.0 "
            "* 0.21"
            " + organization_ratio 1.0 * 0.09)",
            id="half of facts and conclusions",
        ),
        pytest.param(
            (0, 0), (0, 1), (0, 3), False, "2", 2,
            # No facts and one conclusion: second branch, facts neutral. 0.4; times 5 is 2.
            "Score: 2 ≈ 2.0 = 5 * (facts_ratio 1.0 * 0.4 + conclusions_ratio 0.0 * 0.3 + terms_ratio 0.0 * "
            "0.21"
            " + organization_ratio 0.0 * 0.09)",
            id="no facts, a conclusion missed",
        ),
        pytest.param(
            (1, 2), (1, 1), (0, 1), False, "2.5", 3,
            # 0.2 + 0.3 = 0.5; times 5 is exactly 2.5, up to 3 (to even would give 2).
            "Score: 3 ≈ 2.5 = 5 * (facts_ratio 0.5 * 0.4 + conclusions_ratio 1.0 * 0.3 + terms_ratio 0.0 * "
            "0.21"
            " + organization_ratio 0.0 * 0.09)",
            id="exactly 2.5",
        ),
        pytest.param(
            (1, 7), (0, 0), (0, 1), False, "0.5", 1,
            # 0.7/7 = 0.1; times 5 is exactly 0.5, up to 1; in floats 5 * (1/7*0.7) is 0.49999999999999994.
            (
                    "Score: 1 ≈ 0.5 = 5 * (facts_ratio 0.1429 * 0.7 + terms_ratio 0.0 * 0.21 + "
                    "organization_ratio 0.0 * 0.09)"
                ),
            id="exactly 0.5 through a seventh",
        ),
        pytest.param(
            (1, 3), (0, 0), (2, 3), True, "139/60", 2,
            # 0.7/3 + 0.42/3 + 0.27/3 = 1.39/3; times 5 is 6.95/3 = 139/60 = 2.31666...
            "Score: 2 ≈ 2.3167 = 5 * (facts_ratio 0.3333 * 0.7 + terms_ratio 0.6667 * 0.21"
            " + organization_ratio 1.0 * 0.09)",
            id="thirds",
        ),
        pytest.param(
            (2, 3), (1, 3), (1, 1), False, "173/60", 3,
            # 0.8/3 + 0.3/3 + 0.21 = 1.73/3; times 5 is 8.65/3 = 173/60 = 2.88333...
            "Score: 3 ≈ 2.8833 = 5 * (facts_ratio 0.6667 * 0.4 + conclusions_ratio 0.3333 * 0.3 + "
            "terms_ratio 1.0 * 0.21"
            " + organization_ratio 0.0 * 0.09)",
            id="thirds with conclusions",
        ),
        pytest.param(
            (5, 7), (0, 0), (0, 2), False, "2.5", 3,
            # 0.7*5/7 = 0.5; times 5 is 2.5, up to 3. 5/7 = 0.714285... shows as 0.7143.
            (
                    "Score: 3 ≈ 2.5 = 5 * (facts_ratio 0.7143 * 0.7 + terms_ratio 0.0 * 0.21 + "
                    "organization_ratio 0.0 * 0.09)"
                ),
            id="exactly 2.5 through sevenths",
        ),
        pytest.param(
            (1, 32), (0, 0), (0, 0), True, "1.609375", 2,
            # 0.7/32 + 0.21 + 0.09 = 0.321875; times 5 is 1.609375, shown 1.6094. 1/32 = 0.03125, a half,
            # shown 0.0313.
            (
                    "Score: 2 ≈ 1.6094 = 5 * (facts_ratio 0.0313 * 0.7 + terms_ratio 1.0 * 0.21 + "
                    "organization_ratio 1.0 * 0.09)"
                ),
            id="a half in the fifth decimal is shown upwards",
        ),
    ],
)  # fmt: skip
def test_the_rule_case_by_case(
    facts: tuple[int, int],
    conclusions: tuple[int, int],
    terms: tuple[int, int],
    organization: bool,
    exact: str,
    score: int,
    last: str,
) -> None:
    """Branch, exact value, rounding and the printed formula, each derived by hand."""
    result = coverage_score(facts=facts, conclusions=conclusions, terms=terms, organization=organization)
    assert exact_text(result.exact) == exact
    assert result.score == score
    assert result.rationale[4] == last


def test_the_published_lines() -> None:
    """The first four rationale lines state the counts."""
    result = coverage_score(facts=(2, 3), conclusions=(0, 1), terms=(4, 5), organization=False)
    assert result.rationale[:4] == (
        "Fact: 2 of 3 facts correctly matched.",
        "Conclusion: 0 of 1 conclusions correctly matched.",
        "Terminology: 4 of 5 terms correctly matched.",
        "Organization: mismatched",
    )


def test_the_forced_verdict() -> None:
    """The forced verdict for missing input has the published text and conforms to its schema."""
    assert FORCED_VERDICT == {
        "score": 0,
        "rationale": [
            "Fact: Evaluation not possible due to missing input.",
            "Conclusion: N/A",
            "Terminology: N/A",
            "Organization: N/A",
            "Score: 0 = forced due to missing context",
        ],
    }
    CoverageVerdict.model_validate(dict(FORCED_VERDICT))


@given(COUNTS, COUNTS, COUNTS, st.booleans())
def test_a_score_is_in_range_and_nearest(
    facts: tuple[int, int], conclusions: tuple[int, int], terms: tuple[int, int], organization: bool
) -> None:
    """The score is in 0..5 and the nearest integer, halves upwards; the printed numbers agree with it."""
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


@given(COUNTS, COUNTS, COUNTS, st.booleans(), st.sampled_from(["facts", "terms"]))
def test_matching_more_never_lowers_the_score(
    facts: tuple[int, int],
    conclusions: tuple[int, int],
    terms: tuple[int, int],
    organization: bool,
    what: str,
) -> None:
    """Another matched fact or term, or a matched organization, never lowers the score."""

    def score(
        facts: tuple[int, int] = facts, terms: tuple[int, int] = terms, organization: bool = organization
    ) -> Fraction:
        return coverage_score(
            facts=facts, conclusions=conclusions, terms=terms, organization=organization
        ).exact

    assert score(organization=True) >= score(organization=False)
    if what == "terms" and terms[0] < terms[1]:
        assert score(terms=(terms[0] + 1, terms[1])) > score()
    # The branch changes from none to one matched fact; the other branches only add terms.
    if what == "facts" and facts[0] < facts[1]:
        assert score(facts=(facts[0] + 1, facts[1])) >= score()


@given(COUNTS.filter(lambda counts: counts[0] < counts[1]), COUNTS, st.booleans())
def test_a_matched_conclusion_never_lowers_the_score(
    conclusions: tuple[int, int], facts: tuple[int, int], organization: bool
) -> None:
    """Another matched conclusion never lowers the score."""
    more = (conclusions[0] + 1, conclusions[1])
    one = coverage_score(facts=facts, conclusions=conclusions, terms=(0, 0), organization=organization)
    other = coverage_score(facts=facts, conclusions=more, terms=(0, 0), organization=organization)
    assert other.exact >= one.exact


@pytest.mark.parametrize("facts", [(2, 1), (-1, 1), (1, 0)])
def test_impossible_counts_are_refused(facts: tuple[int, int]) -> None:
    """More matched items than the total raise ValueError with both numbers."""
    with pytest.raises(ValueError, match=f"facts matched .* total {facts[1]}, got {facts[0]}"):
        coverage_score(facts=facts, conclusions=(0, 0), terms=(0, 0), organization=True)


@pytest.mark.parametrize(
    ("number", "text"),
    [("5", "5"), ("1/2", "0.5"), ("1/8", "0.125"), ("1/3", "1/3"), ("21/20", "1.05"), ("0", "0"),
        ("-1/4", "-0.25")],
)  # fmt: skip
def test_exact_numbers_lose_nothing(number: str, text: str) -> None:
    """A number is printed as a decimal if it is finite, else as a fraction."""
    assert exact_text(Fraction(number)) == text


@pytest.mark.parametrize(("number", "rounded"), [("1/2", 1), ("3/2", 2), ("5/2", 3), ("49/20", 2), ("0", 0)])
def test_halves_go_up(number: str, rounded: int) -> None:
    """Halves are rounded up, not to even."""
    assert half_up(Fraction(number)) == rounded


@pytest.mark.parametrize(
    ("upheld", "total", "cap"),
    [
        (1, 1, 5),
        (7, 7, 5),
        (99, 100, 4),
        (2, 3, 4),  # 0.667 > 0.6
        (3, 5, 3),  # exactly three fifths is still "about half"
        (1, 2, 3),
        (2, 5, 3),  # exactly two fifths is already "about half"
        (1, 3, 2),  # 0.333 < 0.4
        (1, 100, 2),
        (0, 1, 1),
        (0, 9, 1),
    ],
)
def test_relevance_is_capped_by_the_share_of_upheld_claims(upheld: int, total: int, cap: int) -> None:
    """The cap follows the shares of the rubric."""
    assert relevance_cap(upheld=upheld, total=total) == cap


@pytest.mark.parametrize(("upheld", "total"), [(0, 0), (2, 1), (-1, 3)])
def test_a_cap_needs_claims(upheld: int, total: int) -> None:
    """A cap without claims or with impossible counts raises ValueError."""
    with pytest.raises(ValueError, match="upheld"):
        relevance_cap(upheld=upheld, total=total)
