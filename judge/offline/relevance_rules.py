"""The offline judge's rules for relevance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judge.metrics.scoring import relevance_cap
from judge.offline.lexical import Match, Searched, Statement, tokens
from judge.text.tags import Claim, tagged_claims, untagged_segments
from judge.text.words import content_words

MAX_CLAIMS = 300
"""Claims that are listed; what an answer claims beyond them counts as left out."""

_MIN_CLAIM_WORDS = 3
_NO_CLAIM = re.compile(
    r"\W*(?:i['\u2019]m|i am|i cannot|i can['\u2019]t|i could not|i couldn['\u2019]t|i do not|i don['\u2019]t|sorry|unfortunately|hello|hi\b|hope"
    r"|i hope|please|let me know|the (?:context|pages?|documents?) (?:do|does|did) not|unable to)\b",
    re.IGNORECASE,
)
# A sentence that begins so is about what the one before it is about.
_GOES_ON = re.compile(r"\W*(?:it|its|they|their|he|his|she|her|this|these|those|that|such)\b", re.IGNORECASE)
_WITH_FLAW = 4


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim and the best that its pages say to it."""

    claim: Claim
    page: int | None
    match: Match | None
    relevant: bool

    @property
    def supported(self) -> bool:
        """Whether a cited page says it."""
        return self.match is not None and self.match.holds

    @property
    def strength(self) -> float:
        """How much of it its pages say, 0..1; for comparing judges, the verdict rests on `supported`."""
        return 0.0 if self.match is None else self.match.strength


def judge_claims(*, question: str, answer: str, pages: Mapping[int, str]) -> list[JudgedClaim]:
    """Hold each claim of an answer against the pages that it cites.

    A claim is supported where up to three sentences of one cited page have most of its words (by their stems), all its numbers, and
    as much negation. It is relevant where it shares a word with the question or with a claim that does, or goes on
    from a relevant one with a pronoun.

    Args:
        question: The question.
        answer: The answer, with its evidence tags.
        pages: The text of each page that exists, by number.

    Returns:
        The claims in the answer's order; none where the answer claims nothing.
    """
    searched = {page: Searched(text, max_sentences=3) for page, text in pages.items()}
    claims = sorted((*tagged_claims(answer), *_untagged(answer)), key=lambda claim: claim.start)[:MAX_CLAIMS]
    said = [tokens(claim.text) for claim in claims]
    stems = [{token.stem for token in one if token.is_content} for one in said]
    asked = {token.stem for token in tokens(question) if token.is_content}
    about = asked.union(*(own for own in stems if own & asked))
    found: list[JudgedClaim] = []
    relevant = False
    for claim, own, spoken in zip(claims, stems, said, strict=True):
        page, match = None, None
        if spoken:
            page, match = _best(Statement(spoken), claim, searched)
        goes_on = relevant and _GOES_ON.match(claim.text) is not None
        relevant = not asked or goes_on or bool(own & about)
        found.append(JudgedClaim(claim, page, match, relevant=relevant))
    return found


def relevance_evidence(
    *, question: str, answer: str, pages: Mapping[int, str], missing: bool
) -> dict[str, Any]:
    """List an answer's claims, in the form of the schema `relevance_evidence`.

    Args:
        question: The question.
        answer: The answer, with its evidence tags.
        pages: The text of each page that exists, by number.
        missing: Whether the answer cites pages that do not exist.
    """
    judged = judge_claims(question=question, answer=answer, pages=pages)
    upheld = sum(one.supported and one.relevant for one in judged)
    score = relevance_cap(upheld=upheld, total=len(judged)) if judged else 1
    return {
        "claims": [_listed(one, pages) for one in judged],
        "justification": (
            f"{upheld} of {len(judged)} claims share enough words with a page they cite and with the question. "
            "Compared by rules, not by a language model."
            if judged
            else "The answer makes no claim."
        ),
        "score": min(score, _WITH_FLAW) if missing else score,
    }


def _untagged(answer: str) -> list[Claim]:
    """Lines without a tag that seem to claim something: no heading, introduction, question, refusal or courtesy."""
    return [
        segment
        for segment in untagged_segments(answer)
        if not segment.text.startswith("#")
        and segment.text.rstrip("*_ ")[-1:] not in {":", "?"}
        and not _NO_CLAIM.match(segment.text)
        and len(content_words(segment.text)) >= _MIN_CLAIM_WORDS
    ]


def _best(
    statement: Statement, claim: Claim, searched: Mapping[int, Searched]
) -> tuple[int | None, Match | None]:
    best: tuple[int | None, Match | None] = (None, None)
    for page in claim.pages:
        match = searched[page].best(statement) if page in searched else None
        if match is None:
            continue
        if best[1] is None or (match.holds, match.strength) > (best[1].holds, best[1].strength):
            best = page, match
    return best


def _listed(one: JudgedClaim, pages: Mapping[int, str]) -> dict[str, Any]:
    match = one.match
    if one.supported and match is not None and one.page is not None:
        page_span: str | None = pages[one.page][match.start : match.end]
        justification = f"Page-{one.page} has {match.share:.0%} of its words, weighted, and all its numbers."
    else:
        page_span = None
        justification = _why_not(one, pages)
    return {
        "claim_span": one.claim.text,
        "pages": list(one.claim.pages),
        "page": one.page if one.supported else None,
        "page_span": page_span,
        "justification": justification,
        "supported": one.supported,
        "relevant": one.relevant,
    }


def _why_not(one: JudgedClaim, pages: Mapping[int, str]) -> str:
    if not one.claim.pages:
        return "It cites no page."
    if not any(page in pages for page in one.claim.pages):
        return "The pages that it cites are missing."
    match = one.match
    if match is None:
        return "The pages that it cites have none of its words."
    if not match.numbers_agree:
        reason = "a number is missing"
    elif not match.negation_agrees:
        reason = "one of the two is negated"
    else:
        reason = "too few"
    return f"Page-{one.page} has {match.share:.0%} of its words, weighted; {reason}."
