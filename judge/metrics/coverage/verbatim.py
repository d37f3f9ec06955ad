"""Verbatim mode of coverage: parse the judge's counts, check them, and score them by the formula."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from judge.errors import InvalidVerdictError
from judge.metric import Outcome, ScoredOutcome, UnscoredOutcome, Verification
from judge.metrics.coverage.bounds import Counts, lowered_counts
from judge.metrics.coverage.items import CoverageEvidence
from judge.metrics.findings import Findings
from judge.metrics.replies.structured import read_score
from judge.metrics.scoring import COVERAGE_RANGE, FORCED_VERDICT, CoverageScore, coverage_score, is_forced
from schemas import JudgeTask

_KIND = re.compile(r"\W*(fact|conclusion|term|organi[sz]ation)\w*", re.IGNORECASE)
_COUNTS = re.compile(r"(?<![\d.,-])(\d{1,6})\s*(?:out\s+of|of|/)\s*(\d{1,6})(?![\d.,]*\d)")
_ORGANIZATION = re.compile(
    r"\W{0,6}(?P<not>not\s+|mis-?|un-?)?match(?:ed)?\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_BOTH = re.compile(r"[\s,;]*(?:or\b|/|\|)", re.IGNORECASE)
_FORM = (
    '"Fact: 2 of 3 facts correctly matched.", "Conclusion: 0 of 0 conclusions correctly matched.", '
    '"Terminology: 1 of 1 terms correctly matched.", "Organization: matched" (or "Organization: mismatched")'
)


def own_verdict(task: JudgeTask, reply: str, *, verification: Verification) -> Outcome:
    """Return the judge's own verdict with the score that follows from its counts.

    If counts and score contradict each other, the reply is sent back once; after that the counts decide. The
    forced zero for missing input becomes `Unscored`.

    Args:
        task: The task, with a reference.
        reply: The judge's raw reply.
        verification: How suspicions are handled.

    Raises:
        InvalidVerdictError: There is no single verdict, or its counts are unreadable; the detail says what to
            repair.
    """
    low, high = COVERAGE_RANGE
    verdict = read_score(reply, (low, high))
    claimed = verdict["score"]
    if is_forced(claimed, verdict.get("rationale")):
        return UnscoredOutcome("missing_input", verdict=dict(FORCED_VERDICT))
    lines = _lines(verdict.get("rationale"))
    said = read_counts(lines)
    own = _score(said)
    findings = Findings(verification)
    counts = lowered_counts(task, said, findings)
    score = _score(counts)
    objection = None
    if own.score != claimed:
        objection = (
            f"the score is {claimed}, but the counts of the rationale give {own.exact_text}, rounded "
            f"{own.score}, by the formula; "
            "count once more and compute the score from the counts"
        )
    if score.score != claimed:
        whose = "own" if counts == said else "lowered"
        detail = (
            f"the judge said {claimed}; its {whose} counts give {score.exact_text}, rounded {score.score}"
        )
        findings.correct("score_recomputed", detail)
    return scored(score, {"score": claimed, "rationale": lines}, findings, objection)


def read_counts(lines: Sequence[str]) -> Counts:
    """Parse the counts of a rationale.

    Args:
        lines: The rationale's lines, in any order, including one each for facts, conclusions, terms and
            organization.

    Raises:
        InvalidVerdictError: A line is missing or ambiguous, or more is matched than the total.
    """
    found: dict[str, set[tuple[int, int]]] = {"fact": set(), "conclusion": set(), "term": set()}
    organization: set[bool | None] = set()
    for line in lines:
        kind = _KIND.match(line)
        if kind is None:
            continue
        name = kind[1].lower()
        if name in found:
            found[name].update((int(matched), int(total)) for matched, total in _COUNTS.findall(line))
        else:
            organization.add(_alike(line[kind.end() :]))
    counts: dict[str, tuple[int, int]] = {}
    for name, pairs in found.items():
        if len(pairs) != 1:
            raise _unreadable(f"{len(pairs)} counts of {name}s" if pairs else f"no count of {name}s")
        counts[name] = next(iter(pairs))
        if counts[name][0] > counts[name][1]:
            raise _unreadable(f"{counts[name][0]} of {counts[name][1]} {name}s")
    similar = organization.pop() if len(organization) == 1 else None
    if similar is None:
        raise _unreadable("no organization, or both matched and mismatched")
    return Counts(counts["fact"], counts["conclusion"], counts["term"], similar)


def scored(
    score: CoverageScore, evidence: Any, found: Findings | CoverageEvidence, objection: str | None
) -> ScoredOutcome:
    """Return the outcome of a coverage score."""
    return ScoredOutcome(
        verdict=score.verdict(),
        score=score.score,
        score_exact=score.exact_text,
        evidence=evidence,
        corrections=found.corrections,
        suspicions=found.suspicions,
        objection=objection,
    )


def _score(counts: Counts) -> CoverageScore:
    return coverage_score(
        facts=counts.facts,
        conclusions=counts.conclusions,
        terms=counts.terms,
        organization=counts.organization,
    )


def _alike(said: str) -> bool | None:
    """Return whether a line says matched or mismatched; None if neither or both."""
    match = _ORGANIZATION.match(said)
    if match is None or _BOTH.match(match["rest"]) or "match" in match["rest"].lower():
        return None
    return match["not"] is None


def _unreadable(problem: str) -> InvalidVerdictError:
    return InvalidVerdictError(
        f"the rationale has {problem}; it must be a list of five strings: {_FORM}, and the score"
    )


def _lines(rationale: Any) -> list[str]:
    if isinstance(rationale, str):
        return [line for line in rationale.splitlines() if line.strip()]
    if isinstance(rationale, list) and all(isinstance(line, str) for line in rationale):
        return rationale
    raise InvalidVerdictError("rationale must be a list of five strings")
