"""Verbatim mode of relevance: check the judge's own verdict against the answer's tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from judge.errors import InvalidVerdictError
from judge.metric import ScoredOutcome, UnscoredOutcome, Verification
from judge.metrics.findings import Findings
from judge.metrics.relevance.caps import (
    CAP_WITH_FLAW,
    CITES_NOTHING,
    caps_of_tags,
    lowered,
    suspicions_of_citations,
)
from judge.metrics.relevance.claims import claiming_parts
from judge.metrics.relevance.support import Support
from judge.metrics.replies.reply import extract_verdict
from judge.metrics.replies.structured import check_score
from judge.metrics.scoring import RELEVANCE_RANGE, relevance_cap
from judge.text.citations import Claim, tagged_claims, untagged_segments, without_tags
from judge.text.normal import TextIndex, quoted
from judge.text.sources import Sources
from schemas import JudgeTask, SuspicionKind


def own_verdict(
    task: JudgeTask, reply: str, sources: Sources, *, verification: Verification
) -> ScoredOutcome | UnscoredOutcome:
    """Return the judge's own verdict, lowered if the texts rule it out.

    Args:
        task: The task.
        reply: The judge's raw reply.
        sources: The task's pages.
        verification: How suspicions are handled.

    Raises:
        InvalidVerdictError: There is no single verdict; the detail says what to repair.
    """
    verdict = extract_verdict(reply)
    justification = verdict.get("justification")
    if not isinstance(justification, str):
        raise InvalidVerdictError("justification must be a string")
    findings = Findings(verification)
    of_citations = (
        suspicions_of_citations(task.answer, sources.citing) if findings.looks_for_suspicions else ()
    )
    tagged = tagged_claims(task.answer, sources.citing)
    if verdict["score"] is None and not tagged:
        evidence = {"justification": justification}
        return UnscoredOutcome("no_claims", evidence=evidence, suspicions=of_citations)
    score = check_score(verdict["score"], low=RELEVANCE_RANGE[0], high=RELEVANCE_RANGE[1])
    caps = [CITES_NOTHING] if not tagged else _caps(task, tagged, sources, findings)
    outcome = lowered(score, justification, caps, {"judge_score": score}, ())
    corrections = (*findings.corrections, *outcome.corrections)
    return replace(outcome, corrections=corrections, suspicions=(*findings.suspicions, *of_citations))


def _caps(
    task: JudgeTask, tagged: Sequence[Claim], sources: Sources, findings: Findings
) -> list[tuple[int, str]]:
    pages = sources.cited(task.answer)
    with_page = [claim for claim in tagged if any(page in pages for page in claim.pages)]
    share = f"{len(tagged) - len(with_page)} of {len(tagged)} claims cite only missing pages"
    caps = [
        (relevance_cap(upheld=len(with_page), total=len(tagged)), share),
        *caps_of_tags(sources.missing(task.answer)),
    ]
    if findings.looks_for_suspicions:
        untagged_answer = without_tags(task.answer, sources.citing)
        for kind, detail, cap in _caps_of_words(task, with_page, len(tagged), pages, untagged_answer):
            if findings.suspect(kind, detail):
                caps.append(cap)
    untagged = [
        segment
        for segment in untagged_segments(task.answer, sources.citing)
        if claiming_parts(segment.text, surely=True)
    ]
    if untagged:
        caps.append((CAP_WITH_FLAW, f"{quoted(untagged[0].text)} cites no page"))
    return caps


def _caps_of_words(
    task: JudgeTask, claims: Sequence[Claim], total: int, pages: Mapping[int, str], untagged: str
) -> list[tuple[SuspicionKind, str, tuple[int, str]]]:
    """Return the suspicions from shared words, with their caps."""
    support = Support(task.question, task.answer, untagged)
    indexes = {page: TextIndex(text) for page, text in pages.items()}
    borne_out = sum(
        support.may_bear_out(claim.text, {page: indexes[page] for page in claim.pages if page in indexes})
        for claim in claims
    )
    found: list[tuple[SuspicionKind, str, tuple[int, str]]] = []
    if borne_out < len(claims):
        few = f"{len(claims) - borne_out} of {total} claims share too little with the pages they cite"
        found.append(("support_not_borne_out", few, (relevance_cap(upheld=borne_out, total=total), few)))
    if not support.is_about((page, index, (0, len(index.text))) for page, index in indexes.items()):
        off = "hardly a word of the question is in the answer or its pages"
        found.append(("not_about_question", off, (RELEVANCE_RANGE[0], off)))
    return found
