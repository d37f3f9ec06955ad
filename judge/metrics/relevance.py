"""Relevance, 1 to 5: are an answer's claims supported by the pages it cites, and do they answer the question?

The judge lists the claims with their support and scores by the rubric; code verifies and lowers the score.
With a pack it only scores, and is lowered if the answer's citations rule that out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Any, Literal

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.base import BuiltInMetric, Findings, Scale, read_pattern
from judge.metrics.doubts import uncited_numbers
from judge.metrics.packs.pack import PromptPack
from judge.metrics.prompting import array_of, object_schema, short_hash
from judge.metrics.relevance_checks import (
    RelevanceChecks,
    RelevanceReply,
    format_pages,
    is_upheld,
    unsupported_claim,
)
from judge.metrics.replies import extract_verdict, read_evidence
from judge.metrics.scoring import RELEVANCE_RANGE, relevance_cap
from judge.text.citations import Cited, page_key, read_sources, told_names
from judge.text.normal import is_blank, quoted
from schemas import JudgeTask, QAEvent

WithoutCitations = Literal["lowest", "unscored"]
"""Result of an answer without citations: score 1, as the metric defines it, or unscored."""
MAX_LISTED_MISSING = 200

Cap = tuple[int, str]
"""A highest score, with its reason."""
_LOWEST = int(RELEVANCE_RANGE[0])
_CITES_NOTHING: Cap = (_LOWEST, "the answer makes claims but cites no page")
_CAP_WITH_FLAW = int(RELEVANCE_RANGE[1]) - 1

_STRING = {"type": "string"}
RELEVANCE_SCHEMA = object_schema(
    "relevance_evidence",
    claims=array_of(
        claim_span=_STRING,
        pages={"type": "array", "items": {"type": "integer"}},
        page={"type": ["integer", "null"]},
        page_span={"type": ["string", "null"]},
        justification=_STRING,
        supported={"type": "boolean"},
        relevant={"type": "boolean"},
    ),
    justification=_STRING,
    score={"type": "integer"},
)


class Relevance(BuiltInMetric):
    options = ("pack", "citation_pattern", "without_citations")
    needs = ("context",)

    def __init__(
        self,
        name: str = "relevance",
        pack: PromptPack | None = None,
        *,
        citation_pattern: str | None = None,
        without_citations: WithoutCitations = "lowest",
    ) -> None:
        if citation_pattern is not None:
            read_pattern(citation_pattern, "metric relevance: citation_pattern")
        self._pattern = citation_pattern
        self._without_citations: WithoutCitations = without_citations
        version = "relevance-5"
        version += "" if self._pattern is None else f", citations {short_hash(self._pattern)}"
        version += "" if without_citations == "lowest" else ", without citations unscored"
        super().__init__(name, Scale(RELEVANCE_RANGE), RELEVANCE_SCHEMA, version, pack)

    def select(self, event: QAEvent) -> Inputs:
        inputs = super().select(event)
        if event.context is None:
            return inputs
        return replace(inputs, context=self._cited(event).named)

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        if is_blank(task.question) or is_blank(task.answer) or task.context is None:
            return UnscoredOutcome("missing_input")
        cited = self._cited(task)
        pages, missing = cited.pages, cited.missing
        if missing and not pages:
            return _all_missing(cited)
        if not pages and self._without_citations == "unscored":
            return UnscoredOutcome("missing_input", evidence={"missing": "citations"})
        sections = {"question": task.question, "answer": task.answer}
        sections |= {page_key(page): text for page, text in pages.items()}
        names = told_names(cited.sources, pages)
        if names:
            sections["page_names"] = names
        if missing:
            lines = [page_key(page) for page in missing[:MAX_LISTED_MISSING]]
            if len(missing) > MAX_LISTED_MISSING:
                lines.append(f"and {len(missing) - MAX_LISTED_MISSING} more")
            sections["missing_pages"] = "\n".join(lines)
        if self.pack is not None:
            inputs = Inputs(task.question, task.answer, context=cited.named)
            return ChatRequest(self.pack.render(inputs, sections), self.response_schema)
        return self.request(sections)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        cited = self._cited(task)
        if self.pack is not None:
            return self._of_score(cited, self.pack.checked(extract_verdict(reply)))
        listed = read_evidence(RelevanceReply, reply, key="claims")
        checks = RelevanceChecks(cited, question=task.question)
        claims = checks.verify(listed.claims)
        findings = checks.findings
        _suspect_citations(cited, findings)
        if not claims and listed.claims:
            raise InvalidVerdictError(
                f"claims[0].claim_span {quoted(listed.claims[0].claim_span)} is not in the answer, nor is "
                "that of any other claim; copy them character by character"
            )
        if not claims:
            return findings.no_claims({"claims": [], "justification": listed.justification})
        score = int(self.score_of(listed.score))
        flawed = len(claims) - sum(map(is_upheld, claims))
        reason = (
            f"{flawed} of {len(claims)} claims {'is' if flawed == 1 else 'are'} not both relevant and "
            "supported by a cited page"
        )
        cap = relevance_cap(upheld=len(claims) - flawed, total=len(claims)), reason
        evidence = {"claims": claims, "judge_score": listed.score}
        return _lowered(cited, score, listed.justification, [cap], evidence, findings)

    def _of_score(self, cited: Cited, verdict: Mapping[str, Any]) -> Outcome:
        justification = verdict.get("justification")
        if not isinstance(justification, str):
            raise InvalidVerdictError("justification must be a string")
        findings = Findings()
        _suspect_citations(cited, findings)
        tagged = cited.read.claims
        if verdict["score"] is None and not tagged:
            return findings.no_claims({"justification": justification})
        score = int(self.score_of(verdict["score"]))
        caps: list[Cap] = []
        if tagged:
            with_page = sum(any(page in cited.pages for page in claim.pages) for claim in tagged)
            share = f"{len(tagged) - with_page} of {len(tagged)} claims cite only missing pages"
            caps = [(relevance_cap(upheld=with_page, total=len(tagged)), share)]
            caps += [
                (_CAP_WITH_FLAW, f"{quoted(one.text)} cites no page")
                for one in islice(uncited_numbers(cited.read.untagged), 1)
            ]
        return _lowered(cited, score, justification, caps, {"judge_score": score}, findings)

    def _cited(self, texts: QAEvent | JudgeTask) -> Cited:
        return Cited(texts.answer, read_sources(texts.context or {}, pattern=self._pattern))


def _suspect_citations(cited: Cited, findings: Findings) -> None:
    unread = cited.read.unread
    if unread:
        named = ", ".join(map(quoted, unread[:5]))
        findings.suspect("citation_not_understood", f"not understood as citations: {named}")
    if not cited.read.claims:
        example = quoted(unread[0] if unread else cited.answer[:100])
        findings.suspect("no_citation", f"the answer has no recognised citation: {example}")


def _all_missing(cited: Cited) -> ScoredOutcome:
    pages = format_pages(cited.missing)
    reason = f"No cited page is in the context: {pages}. No claim of the answer is supported."
    unsupported = [
        unsupported_claim(claim, f"Missing from the context: {format_pages(claim.pages)}.")
        for claim in cited.read.claims
    ]
    evidence = {"claims": unsupported}
    return ScoredOutcome({"score": _LOWEST, "justification": reason}, _LOWEST, evidence=evidence)


def _lowered(
    cited: Cited, score: int, justification: str, caps: list[Cap], evidence: Any, findings: Findings
) -> ScoredOutcome:
    """Lower a score to the lowest cap; of equal ones the first gives the reason."""
    if not cited.read.claims:
        caps = [_CITES_NOTHING]
    elif cited.missing:
        missing = f"{format_pages(cited.missing)} cited, but not in the context"
        caps.insert(1, (_CAP_WITH_FLAW, missing))
    cap, reason = min(caps, key=itemgetter(0))
    if score > cap:
        sentence = f"Lowered from {score} to {cap}: {reason}."
        findings.correct("score_lowered", sentence)
        justification = f"{justification.rstrip()} {sentence}".strip()
        score = cap
    verdict = {"score": score, "justification": justification}
    return findings.scored(verdict, evidence)
