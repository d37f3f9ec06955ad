"""The offline judge's rules for relevance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judge.metrics.scoring import relevance_cap
from judge.offline.matching import Match, Searched, Statement
from judge.text.citations.citing import USUAL, Citing
from judge.text.overlap import Vocabulary
from judge.text.tags import Claim, tagged_claims, untagged_segments
from judge.text.words import content_words, has_content, word_texts

THRESHOLD = 0.6
"""Share of a claim's words that a passage of its page must have."""
TOGETHER = 6
"""Maximum neighbouring sentences of a page that support a claim together."""
MAX_CLAIMS = 300
"""Limit of listed claims; further ones count as left out."""

_MIN_CLAIM_WORDS = 3
_NO_CLAIM = re.compile(
    r"\W*(?:i['\u2019]m|i am|i cannot|i can['\u2019]t|i could not|i couldn['\u2019]t|i do not|i don['\u2019]t|sorry|unfortunately|hello|hi\b|hope"  # noqa: E501
    r"|i hope|please|let me know|the (?:context|pages?|documents?) (?:do|does|did) not|unable to)\b",
    re.IGNORECASE,
)
# A sentence with such a start continues the topic of the previous one.
_GOES_ON = re.compile(r"\W*(?:it|its|they|their|he|his|she|her|this|these|those|that|such)\b", re.IGNORECASE)
_WITH_FLAW = 4


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim and its best match on the cited pages."""

    claim: Claim
    page: int | None
    match: Match | None
    relevant: bool

    @property
    def supported(self) -> bool:
        """Whether a cited page supports it."""
        return self.match is not None and self.match.holds(THRESHOLD)

    @property
    def strength(self) -> float:
        """The share of its words that its pages contain, 0..1.

        Used to compare judges; the verdict uses `supported`.
        """
        return 0.0 if self.match is None else self.match.share


def judge_claims(
    *, question: str, answer: str, pages: Mapping[int, str], citing: Citing = USUAL
) -> list[JudgedClaim]:
    """Compare each claim of an answer with the pages that it cites.

    A claim is supported if six neighbouring sentences of one cited page contain most of its words, all its
    numbers, and the same number of negations modulo 2. It is relevant if it, or its supporting passage,
    shares a word with the question or with a claim that does, or if it continues a relevant claim with a
    pronoun.

    Args:
        question: The question.
        answer: The answer, with its evidence tags.
        pages: The text of each existing page, by number.
        citing: Citation syntax of the answer.

    Returns:
        The claims in the answer's order; empty if it claims nothing.
    """
    searched = {page: Searched(text, together=TOGETHER) for page, text in pages.items()}
    untagged = (segment for segment in untagged_segments(answer, citing) if is_claim(segment.text))
    claims = sorted((*tagged_claims(answer, citing), *untagged), key=lambda claim: claim.start)[:MAX_CLAIMS]
    said = [{word.text for word in content_words(claim.text)} for claim in claims]
    asked = Vocabulary(word.text for word in content_words(question))
    about = Vocabulary(word for own in said if any(one in asked for one in own) for word in own)
    found: list[JudgedClaim] = []
    relevant = False
    for claim, own in zip(claims, said, strict=True):
        goes_on = relevant and _GOES_ON.match(claim.text) is not None
        relevant = goes_on or not has_content(question) or any(one in asked or one in about for one in own)
        page, match = _best(claim, searched)
        if not relevant and page is not None and match is not None and match.holds(THRESHOLD):
            # Relevant if its support concerns the question.
            relevant = any(word in asked for word in word_texts(pages[page][match.start : match.end]))
        found.append(JudgedClaim(claim, page, match, relevant=relevant))
    return found


def relevance_evidence(
    *, question: str, answer: str, pages: Mapping[int, str], missing: bool, citing: Citing = USUAL
) -> dict[str, Any]:
    """List an answer's claims, in the schema `relevance_evidence`.

    Args:
        question: The question.
        answer: The answer, with its evidence tags.
        pages: The text of each existing page, by number.
        missing: Whether the answer cites pages that do not exist.
        citing: Citation syntax of the answer.
    """
    judged = judge_claims(question=question, answer=answer, pages=pages, citing=citing)
    upheld = sum(one.supported and one.relevant for one in judged)
    score = relevance_cap(upheld=upheld, total=len(judged)) if judged else 1
    return {
        "claims": [_listed(one, pages) for one in judged],
        "justification": (
            f"{upheld} of {len(judged)} claims share enough words with a page they cite and with the "
            "question. "
            "Compared by rules, not by a language model."
            if judged
            else "The answer makes no claim."
        ),
        "score": min(score, _WITH_FLAW) if missing else score,
    }


def is_claim(text: str) -> bool:
    """Return whether a text is a claim, not a heading, introduction, question, refusal or courtesy."""
    return (
        not text.startswith("#")
        and text.rstrip("*_ ")[-1:] not in {":", "?"}
        and not _NO_CLAIM.match(text)
        and len(content_words(text)) >= _MIN_CLAIM_WORDS
    )


def _best(claim: Claim, searched: Mapping[int, Searched]) -> tuple[int | None, Match | None]:
    statement = Statement(claim.text)
    matches = ((page, searched[page].best(statement)) for page in claim.pages if page in searched)
    found = [(page, match) for page, match in matches if match is not None]
    return max(found, key=lambda one: (one[1].holds(THRESHOLD), one[1].share), default=(None, None))


def _listed(one: JudgedClaim, pages: Mapping[int, str]) -> dict[str, Any]:
    match = one.match
    if match is not None:
        justification = f"Page-{one.page} has {match.reason}."
    elif not one.claim.pages:
        justification = "It cites no page."
    elif any(page in pages for page in one.claim.pages):
        justification = "The pages that it cites have none of its words."
    else:
        justification = "The pages that it cites are missing."
    supported = one.page is not None and match is not None and one.supported
    return {
        "claim_span": one.claim.text,
        "pages": list(one.claim.pages),
        "page": one.page if supported else None,
        "page_span": pages[one.page][match.start : match.end]
        if supported and match and one.page is not None
        else None,
        "justification": justification,
        "supported": supported,
        "relevant": one.relevant,
    }
