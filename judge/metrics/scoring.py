"""From counts to scores, in exact arithmetic: nothing here is a float."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

COVERAGE_RANGE = (0, 5)
RELEVANCE_RANGE = (1, 5)

_FACTS_WITH_CONCLUSIONS = Fraction(40, 100)
_CONCLUSIONS = Fraction(30, 100)
_FACTS = Fraction(70, 100)
_TERMS = Fraction(21, 100)
_ORGANIZATION = Fraction(9, 100)
_DECIMALS = 4

FORCED_VERDICT: Mapping[str, Any] = {
    "score": 0,
    "rationale": [
        "Fact: Evaluation not possible due to missing input.",
        "Conclusion: N/A",
        "Terminology: N/A",
        "Organization: N/A",
        "Score: 0 = forced due to missing context",
    ],
}
"""What coverage publishes where question, reference or answer is missing or blank; no average counts it."""
_FORCED = re.compile(r"evaluation not possible due to missing input|forced due to missing", re.IGNORECASE)


def is_forced(score: float, rationale: Any) -> bool:
    """Whether a judge's own verdict is the forced zero for missing input, which is not a score.

    Args:
        score: The verdict's score.
        rationale: Its rationale, in whatever form.
    """
    lines = rationale if isinstance(rationale, list) else [rationale]
    return score == 0 and any(isinstance(line, str) and _FORCED.search(line[:200]) for line in lines)


@dataclass(frozen=True, slots=True)
class CoverageScore:
    """A coverage score with its derivation."""

    exact: Fraction
    """Before rounding, 0..5."""
    score: int
    """Rounded to the nearest integer, halves up."""
    rationale: tuple[str, ...]
    """The five published lines."""

    @property
    def exact_text(self) -> str:
        """The exact score as a decimal where that ends, else as a fraction: "2.5", "29/12"."""
        return exact_text(self.exact)

    def verdict(self) -> dict[str, Any]:
        """As published."""
        return {"score": self.score, "rationale": list(self.rationale)}


def coverage_score(
    *, facts: tuple[int, int], conclusions: tuple[int, int], terms: tuple[int, int], organization: bool
) -> CoverageScore:
    """Score how much of a reference an answer covers.

    The rule has three branches, the first that applies counts: no fact matched though there are some;
    conclusions exist; neither. No facts, or no terms, in the reference gives the neutral ratio 1.

    Args:
        facts: Matched and total number of facts.
        conclusions: Matched and total number of conclusions.
        terms: Matched and total number of terms.
        organization: Whether the answer is built like the reference.

    Raises:
        ValueError: A matched number is not between 0 and its total.
    """
    for name, (matched, total) in (("facts", facts), ("conclusions", conclusions), ("terms", terms)):
        if not 0 <= matched <= total:
            raise ValueError(f"{name} matched must be between 0 and the total {total}, got {matched}")
    facts_part = ("facts_ratio", _ratio(*facts))
    terms_part = ("terms_ratio", _ratio(*terms), _TERMS)
    organization_part = ("organization_ratio", Fraction(organization), _ORGANIZATION)
    parts: tuple[tuple[str, Fraction, Fraction], ...]
    if facts[0] == 0 < facts[1]:
        parts = ((*facts_part, _FACTS), terms_part)
    elif conclusions[1]:
        conclusions_part = ("conclusions_ratio", _ratio(*conclusions), _CONCLUSIONS)
        parts = ((*facts_part, _FACTS_WITH_CONCLUSIONS), conclusions_part, terms_part, organization_part)
    else:
        parts = ((*facts_part, _FACTS), terms_part, organization_part)
    exact = 5 * sum((ratio * weight for _, ratio, weight in parts), Fraction(0))
    score = half_up(exact)
    formula = " + ".join(f"{name} {_shown(ratio)} * {_shown(weight)}" for name, ratio, weight in parts)
    return CoverageScore(
        exact,
        score,
        (
            f"Fact: {facts[0]} of {facts[1]} facts correctly matched.",
            f"Conclusion: {conclusions[0]} of {conclusions[1]} conclusions correctly matched.",
            f"Terminology: {terms[0]} of {terms[1]} terms correctly matched.",
            f"Organization: {'matched' if organization else 'mismatched'}",
            f"Score: {score} ≈ {_shown(exact)} = 5 * ({formula})",
        ),
    )


def relevance_cap(*, upheld: int, total: int) -> int:
    """The highest relevance score that the verified claims allow.

    All upheld allow 5, more than three fifths ("most") 4, from two fifths to three fifths ("about half") 3,
    fewer 2, none 1.

    Args:
        upheld: Claims that are relevant and supported by a page they cite.
        total: All claims, at least one.

    Raises:
        ValueError: There is no claim, or `upheld` is not between 0 and `total`.
    """
    if not 0 <= upheld <= total or total == 0:
        raise ValueError(f"upheld must be between 0 and a total of at least 1, got {upheld} of {total}")
    if upheld == total:
        return 5
    if 5 * upheld > 3 * total:
        return 4
    if 5 * upheld >= 2 * total:
        return 3
    return 2 if upheld else 1


def half_up(number: Fraction) -> int:
    """The nearest integer; of two equally near the higher."""
    return math.floor(number + Fraction(1, 2))


def exact_text(number: Fraction) -> str:
    """A number without loss: as a decimal where that ends ("2.5", "5"), else as a fraction ("29/12")."""
    rest = number.denominator
    twos = fives = 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{number.numerator}/{number.denominator}"
    decimals = max(twos, fives)
    return _with_point(int(number * 10**decimals), decimals)


def _shown(number: Fraction) -> str:
    """At least one decimal and at most four, halves up, trailing zeros cut."""
    text = _with_point(half_up(number * 10**_DECIMALS), _DECIMALS).rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _with_point(digits: int, decimals: int) -> str:
    if decimals == 0:
        return str(digits)
    text = str(abs(digits)).rjust(decimals + 1, "0")
    return f"{'-' if digits < 0 else ''}{text[:-decimals]}.{text[-decimals:]}"


def _ratio(matched: int, total: int) -> Fraction:
    return Fraction(matched, total) if total else Fraction(1)
