"""Lowering a relevance score to what was shown, with the reason in its justification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judge.metric import ScoredOutcome
from judge.metrics.relevance.evidence import told_pages
from judge.metrics.scoring import RELEVANCE_RANGE
from schemas import Correction

CAP_WITH_FLAW = RELEVANCE_RANGE[1] - 1
"""No answer with a flaw gets full marks."""


def caps_of_tags(missing: Sequence[int]) -> list[tuple[int, str]]:
    """What cited pages that do not exist allow."""
    return [(CAP_WITH_FLAW, f"{told_pages(missing)} cited, but not in the context")] if missing else []


def lowered(
    score: int,
    justification: str,
    caps: Sequence[tuple[int, str]],
    evidence: Any,
    corrections: tuple[Correction, ...],
) -> ScoredOutcome:
    """The judge's score, lowered to the lowest cap and never raised."""
    cap, reason = min(caps, key=lambda one: one[0])
    if score > cap:
        sentence = f"Lowered from {score} to {cap}: {reason}."
        corrections += (Correction(kind="score_lowered", detail=sentence),)
        justification = f"{justification.rstrip()} {sentence}".strip()
        score = cap
    return ScoredOutcome(
        verdict={"score": score, "justification": justification},
        score=score,
        evidence=evidence,
        corrections=corrections,
    )
