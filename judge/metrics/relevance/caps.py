"""Cap a relevance score, with the reason in its justification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judge.metric import ScoredOutcome
from judge.metrics.relevance.items import told_pages
from judge.metrics.scoring import RELEVANCE_RANGE
from judge.text.citations import Citing, tagged_claims, unread_citations
from judge.text.normal import quoted
from schemas import Correction, Suspicion

MAX_TOLD_UNREAD = 5
MAX_EXAMPLE_CHARS = 100
CAP_WITH_FLAW = RELEVANCE_RANGE[1] - 1
"""Highest score of an answer with a flaw."""

CITES_NOTHING = (RELEVANCE_RANGE[0], "the answer makes claims but cites no page")
"""Cap of an answer without citations."""


def suspicions_of_citations(answer: str, citing: Citing) -> tuple[Suspicion, ...]:
    """Return the suspicions about unrecognised or missing citations."""
    unread = unread_citations(answer, citing)
    found = []
    if unread:
        named = ", ".join(map(quoted, unread[:MAX_TOLD_UNREAD]))
        found.append(
            Suspicion(kind="citation_not_understood", detail=f"not understood as citations: {named}")
        )
    if not tagged_claims(answer, citing):
        example = quoted(unread[0] if unread else answer[:MAX_EXAMPLE_CHARS])
        found.append(
            Suspicion(kind="no_citation", detail=f"the answer has no recognised citation: {example}")
        )
    return tuple(found)


def caps_of_tags(missing: Sequence[int]) -> list[tuple[int, str]]:
    """Return the cap for citations of missing pages."""
    return [(CAP_WITH_FLAW, f"{told_pages(missing)} cited, but not in the context")] if missing else []


def lowered(
    score: int,
    justification: str,
    caps: Sequence[tuple[int, str]],
    evidence: Any,
    corrections: tuple[Correction, ...],
) -> ScoredOutcome:
    """Return the judge's score, lowered to the lowest cap."""
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
