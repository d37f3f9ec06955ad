"""Relevance, 1 to 5: whether an answer's claims are supported by the cited pages and answer the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError, JudgeConfigurationError
from judge.metric import Inputs, Mode, Outcome, ScoredOutcome, UnscoredOutcome, Verification
from judge.metrics.base import BuiltInMetric
from judge.metrics.packs.pack import PromptPack
from judge.metrics.prompting import short_hash
from judge.metrics.relevance.caps import CITES_NOTHING, caps_of_tags, lowered, suspicions_of_citations
from judge.metrics.relevance.evidence import verify_relevance
from judge.metrics.relevance.items import CheckedClaim, RelevanceReply, told_pages, unsupported_claim
from judge.metrics.relevance.verbatim import own_verdict
from judge.metrics.replies.response_schemas import RELEVANCE_SCHEMA
from judge.metrics.replies.structured import check_score, read_evidence
from judge.metrics.scoring import RELEVANCE_RANGE, relevance_cap
from judge.text.citations import Claim, compile_pattern, page_key, tagged_claims
from judge.text.normal import is_blank, quoted
from judge.text.sources import Sources, read_sources, told_names
from schemas import JudgeTask, QAEvent, Suspicion

WithoutCitations = Literal["lowest", "unscored"]
"""Result of an answer without citations: score 1, as the metric defines it, or unscored."""
MAX_LISTED_MISSING = 200
"""Limit of missing pages listed in the prompt."""


class Relevance(BuiltInMetric):
    """The metric `relevance`.

    In evidence mode the judge lists the answer's claims with the supporting words of the pages, and scores by
    the rubric; code verifies the claims and lowers a score that they do not justify. In verbatim mode the
    judge's score counts; it is lowered if the answer's tags, or the words of answer and pages, rule it out.

    Args:
        mode: The mode.
        pack: Prompts that replace the built-in ones; the mode is then verbatim.
        verification: How suspicions are handled.
        citation_pattern: A regular expression for other citations; its first group is a page's number or a
            document's name.
        without_citations: Result of an answer without citations: `lowest` (score 1, as the metric defines it)
            or `unscored`.

    Raises:
        JudgeConfigurationError: The pattern is invalid, or may take exponential time.
    """

    NAME = "relevance"
    RANGE = RELEVANCE_RANGE
    _EVIDENCE = RELEVANCE_SCHEMA

    def __init__(
        self,
        *,
        mode: Mode = "evidence",
        pack: PromptPack | None = None,
        verification: Verification = "marks",
        citation_pattern: str | None = None,
        without_citations: WithoutCitations = "lowest",
    ) -> None:
        super().__init__(mode=mode, pack=pack, verification=verification)
        self._pattern = None if citation_pattern is None else _checked(citation_pattern)
        self._without_citations: WithoutCitations = without_citations

    @property
    def scoring_version(self) -> str:
        """Version of the rules in this folder, `judge.text` and `scoring`, with settings."""
        own = "" if self._pattern is None else f", citations {short_hash(self._pattern)}"
        without = "" if self._without_citations == "lowest" else ", without citations unscored"
        return f"relevance-5, {self._verification}{own}{without}"

    def select(self, event: QAEvent) -> Inputs:
        """Return question, answer and the existing cited pages, named by number."""
        if event.context is None:
            return Inputs(question=event.question, answer=event.answer)
        sources = read_sources(event.context, pattern=self._pattern)
        return Inputs(question=event.question, answer=event.answer, context=_by_key(sources, event.answer))

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request; no call if a text or all cited pages are missing."""
        if is_blank(task.question) or is_blank(task.answer) or task.context is None:
            return UnscoredOutcome("missing_input")
        sources = read_sources(task.context, pattern=self._pattern)
        pages = sources.cited(task.answer)
        missing = sources.missing(task.answer)
        if missing and not pages:
            return _all_missing(tagged_claims(task.answer, sources.citing), missing)
        if not pages and self._without_citations == "unscored":
            return UnscoredOutcome("missing_input", evidence={"missing": "citations"})
        if self._pack is not None:
            inputs = Inputs(question=task.question, answer=task.answer, context=_by_key(sources, task.answer))
            return ChatRequest(self._pack.render(inputs), response_schema=self.response_schema)
        sections = {"question": task.question, "answer": task.answer}
        sections |= {page_key(page): text for page, text in pages.items()}
        named = told_names(sources, pages)
        if named:
            sections["page_names"] = named
        if missing:
            lines = [page_key(page) for page in missing[:MAX_LISTED_MISSING]]
            if len(missing) > MAX_LISTED_MISSING:
                lines.append(f"and {len(missing) - MAX_LISTED_MISSING} more")
            sections["missing_pages"] = "\n".join(lines)
        return self._request(sections)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Turn the judge's reply into a verdict.

        Raises:
            InvalidVerdictError: The reply is invalid; the detail says what to repair.
        """
        sources = read_sources(task.context or {}, pattern=self._pattern)
        if self._mode == "verbatim":
            if self._pack is not None:
                self._pack.check(reply)
            return own_verdict(task, reply, sources, verification=self._verification)
        listed = read_evidence(RelevanceReply, reply, key="claims")
        found = verify_relevance(
            listed.claims,
            answer=task.answer,
            pages=sources.cited(task.answer),
            question=task.question,
            citing=sources.citing,
            verification=self._verification,
        )
        suspicions = (*found.suspicions, *self._of_citations(task.answer, sources))
        if not found.claims and listed.claims:
            raise InvalidVerdictError(
                f"claims[0].claim_span {quoted(listed.claims[0].claim_span)} is not in the answer, nor is "
                "that of any other "
                "claim; copy them character by character"
            )
        if not found.claims:
            return UnscoredOutcome(
                "no_claims",
                evidence={"claims": [], "justification": listed.justification},
                corrections=found.corrections,
                suspicions=suspicions,
            )
        score = check_score(listed.score, low=RELEVANCE_RANGE[0], high=RELEVANCE_RANGE[1])
        missing = sources.missing(task.answer)
        cited = bool(tagged_claims(task.answer, sources.citing))
        caps = [_cap_of_claims(found.claims) if cited else CITES_NOTHING, *caps_of_tags(missing)]
        evidence = {"claims": [claim.as_json() for claim in found.claims], "judge_score": listed.score}
        outcome = lowered(score, listed.justification, caps, evidence, found.corrections)
        return replace(outcome, suspicions=suspicions, objection=found.objection)

    def _of_citations(self, answer: str, sources: Sources) -> tuple[Suspicion, ...]:
        return () if self._verification == "off" else suspicions_of_citations(answer, sources.citing)


def _checked(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise JudgeConfigurationError(f"metric relevance: {error}") from error
    return pattern


def _by_key(sources: Sources, answer: str) -> dict[str, str]:
    return {sources.key(page): text for page, text in sources.cited(answer).items()}


def _all_missing(claims: Sequence[Claim], cited: Sequence[int]) -> ScoredOutcome:
    """Return the outcome if all cited pages are missing, without a call."""
    justification = (
        f"No cited page is in the context: {told_pages(cited)}. No claim of the answer is supported."
    )
    evidence = {
        "claims": [
            unsupported_claim(claim, f"Missing from the context: {told_pages(claim.pages)}.").as_json()
            for claim in claims
        ]
    }
    lowest = RELEVANCE_RANGE[0]
    return ScoredOutcome(
        verdict={"score": lowest, "justification": justification}, score=lowest, evidence=evidence
    )


def _cap_of_claims(claims: Sequence[CheckedClaim]) -> tuple[int, str]:
    upheld = sum(claim.upheld for claim in claims)
    flawed = len(claims) - upheld
    return (
        relevance_cap(upheld=upheld, total=len(claims)),
        (
            f"{flawed} of {len(claims)} claims {'is' if flawed == 1 else 'are'} not both relevant and "
            "supported by a cited page"
        ),
    )
