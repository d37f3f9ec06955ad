"""A relevance judge's own verdict, held against the answer's tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judge.errors import InvalidVerdictError
from judge.metric import ScoredOutcome, UnscoredOutcome
from judge.metrics.relevance.caps import CAP_WITH_FLAW, caps_of_tags, lowered
from judge.metrics.relevance.support import Support
from judge.metrics.reply import extract_verdict
from judge.metrics.scoring import RELEVANCE_RANGE, relevance_cap
from judge.metrics.structured import check_score
from judge.text.index import TextIndex
from judge.text.quoting import quoted
from judge.text.tags import Claim, tagged_claims, untagged_segments
from judge.text.words import content_words
from schemas import JudgeTask

_MIN_CLAIM_WORDS = 3


def own_verdict(
    task: JudgeTask, reply: str, pages: Mapping[int, str], missing: Sequence[int]
) -> ScoredOutcome | UnscoredOutcome:
    """The judge's own verdict, lowered where the texts by themselves rule it out.

    Args:
        task: The task.
        reply: The reply as the judge wrote it.
        pages: The cited pages that exist, by number.
        missing: The cited pages that do not.

    Raises:
        InvalidVerdictError: There is no single verdict; the detail says what to repair.
    """
    verdict = extract_verdict(reply)
    justification = verdict.get("justification")
    if not isinstance(justification, str):
        raise InvalidVerdictError("justification must be a string")
    tagged = tagged_claims(task.answer)
    if verdict["score"] is None and not tagged:
        return UnscoredOutcome("no_claims", evidence={"justification": justification})
    score = check_score(verdict["score"], low=RELEVANCE_RANGE[0], high=RELEVANCE_RANGE[1])
    evidence = {"judge_score": score}
    if not tagged:
        caps = [(RELEVANCE_RANGE[0], "no claim of the answer cites a page")]
        return lowered(score, justification, caps, evidence, ())
    with_page = [claim for claim in tagged if any(page in pages for page in claim.pages)]
    share = f"{len(tagged) - len(with_page)} of {len(tagged)} claims cite missing pages alone"
    caps = [
        (relevance_cap(upheld=len(with_page), total=len(tagged)), share),
        *caps_of_tags(missing),
        *_caps_of_words(task, with_page, len(tagged), pages),
    ]
    untagged = [segment for segment in untagged_segments(task.answer) if _looks_like_claim(segment.text)]
    if untagged:
        caps.append((CAP_WITH_FLAW, f"{quoted(untagged[0].text)} cites no page"))
    return lowered(score, justification, caps, evidence, ())


def _caps_of_words(
    task: JudgeTask, claims: Sequence[Claim], total: int, pages: Mapping[int, str]
) -> list[tuple[int, str]]:
    """What the words allow, wherever on the pages the judge saw its claims supported."""
    support = Support(task.question, task.answer)
    indexes = {page: TextIndex(text) for page, text in pages.items()}
    borne_out = sum(
        support.may_bear_out(claim.text, {page: indexes[page] for page in claim.pages if page in indexes})
        for claim in claims
    )
    caps = []
    if borne_out < len(claims):
        few = f"{len(claims) - borne_out} of {total} claims share too little with the pages they cite"
        caps.append((relevance_cap(upheld=borne_out, total=total), few))
    if not support.is_about((page, index, (0, len(index.text))) for page, index in indexes.items()):
        caps.append((RELEVANCE_RANGE[0], "hardly a word of the question is in the answer or its pages"))
    return caps


def _looks_like_claim(text: str) -> bool:
    """A guess that only keeps an answer from full marks: not a heading, an introduction or a question."""
    return not text.startswith("#") and text[-1] not in ":?\uff1a\uff1f" and (
        len(content_words(text)) >= _MIN_CLAIM_WORDS
    )  # fmt: skip
