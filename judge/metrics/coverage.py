"""Coverage, 0 to 5: how much of a reference an answer states.

The judge lists the reference's items with quotations, code verifies and counts them; with a pack it counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Outcome, UnscoredOutcome
from judge.metrics.base import BuiltInMetric, Findings, Scale
from judge.metrics.coverage_checks import CoverageChecks, CoverageReply
from judge.metrics.packs.pack import PromptPack
from judge.metrics.prompting import array_of, object_schema
from judge.metrics.replies import extract_verdict, read_evidence
from judge.metrics.scoring import (
    COVERAGE_RANGE,
    FORCED_VERDICT,
    coverage_score,
    exact_text,
    is_forced,
)
from judge.text.normal import is_blank
from judge.text.passages import MAX_SENTENCES, passage
from judge.text.words import each_sentence
from schemas import JudgeTask

MAX_REFERENCE_BYTES = 12_000
"""Limit of a reference in UTF-8: about 1,800 words, for which a judge lists some 160 items."""
REPLY_TOKENS_PER_BYTE = 1.3
"""Measured: 3,000 bytes give about 40 items, each of about 75 to 95 tokens in the reply."""
MIN_REPLY_TOKENS = 4_096

_STRING = {"type": "string"}
_ITEMS = array_of(
    item=_STRING,
    reference_span=_STRING,
    answer_span={"type": ["string", "null"]},
    justification=_STRING,
    matched={"type": "boolean"},
)
COVERAGE_SCHEMA = object_schema(
    "coverage_evidence",
    facts=_ITEMS,
    conclusions=_ITEMS,
    terms=_ITEMS,
    organization=object_schema("", justification=_STRING, similar={"type": "boolean"}).schema,
)


class Coverage(BuiltInMetric):
    options = ("pack",)
    needs = ("reference",)

    def __init__(self, name: str = "coverage", pack: PromptPack | None = None) -> None:
        super().__init__(name, Scale(COVERAGE_RANGE), COVERAGE_SCHEMA, "coverage-5", pack)
        self.uses = ("question", "answer", "reference")

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        reference = task.reference or ""
        if is_blank(task.question) or is_blank(task.answer) or is_blank(reference):
            return UnscoredOutcome("missing_input", verdict=dict(FORCED_VERDICT))
        sections = {"question": task.question, "reference": reference, "answer": task.answer}
        if self.pack is not None:
            return ChatRequest(self.pack.render(Inputs.of(task), sections), self.response_schema)
        size = len(reference.encode("utf-8", "surrogatepass"))
        if size > MAX_REFERENCE_BYTES:
            evidence = {"reference_bytes": size, "limit": MAX_REFERENCE_BYTES}
            return UnscoredOutcome("too_long", evidence=evidence)
        tokens = max(MIN_REPLY_TOKENS, int(size * REPLY_TOKENS_PER_BYTE))
        return self.request(sections, max_output_tokens=tokens)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        if self.pack is not None:
            return self._of_counts(task, self.pack.checked(extract_verdict(reply)))
        listed = read_evidence(CoverageReply, reply, key="facts")
        checks = CoverageChecks(reference=task.reference or "", answer=task.answer, question=task.question)
        facts, conclusions, terms = checks.verify(listed.facts, listed.conclusions, listed.terms)
        evidence: dict[str, Any] = {"facts": facts, "conclusions": conclusions, "terms": terms}
        counts = [(sum(item["matched"] for item in items), len(items)) for items in evidence.values()]
        similar = listed.organization.similar
        evidence["organization"] = {"similar": similar, "justification": listed.organization.justification}
        score = coverage_score(*counts, organization=similar)
        exact, objection = exact_text(score.exact), checks.nothing_listed
        return checks.findings.scored(score.verdict(), evidence, exact, objection)

    def _of_counts(self, task: JudgeTask, verdict: dict[str, Any]) -> Outcome:
        """Return a pack's verdict, scored by its own counts; a contradicting score is sent back once."""
        claimed = self.score_of(verdict["score"])
        if is_forced(float(claimed), verdict.get("rationale")):
            return UnscoredOutcome("missing_input", verdict=dict(FORCED_VERDICT))
        lines = _lines(verdict.get("rationale"))
        counts, similar = read_counts(lines)
        own = coverage_score(*counts, organization=similar)
        findings = Findings()
        lowered = _without_contradicted(task, counts, findings)
        score = coverage_score(*lowered, organization=similar)
        objection = None
        if own.score != claimed:
            objection = (
                f"the score is {claimed}, but the counts of the rationale give {exact_text(own.exact)}, "
                f"rounded {own.score}, by the formula; count once more and compute the score from the counts"
            )
        if score.score != claimed:
            whose = "own" if lowered == counts else "lowered"
            findings.correct(
                "score_recomputed",
                f"the judge said {claimed}; its {whose} counts give {exact_text(score.exact)}, "
                f"rounded {score.score}",
            )
        evidence = {"score": claimed, "rationale": lines}
        return findings.scored(score.verdict(), evidence, exact_text(score.exact), objection)


def _without_contradicted(
    task: JudgeTask, counts: list[tuple[int, int]], findings: Findings
) -> list[tuple[int, int]]:
    """Return the counts with at least one unmatched fact per sentence that the answer contradicts."""
    reference = task.reference or ""
    answer = (passage(task.answer),) * 2
    contradicted = sum(
        findings.contradict("rationale", (stated, stated), answer, names=("the reference", "the answer"))
        for start, end in islice(each_sentence(reference), MAX_SENTENCES)
        if (stated := passage(reference[start:end]))
    )
    (matched, total), *others = counts
    return [(min(matched, max(total - contradicted, 0)), total), *others]


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


def read_counts(lines: Sequence[str]) -> tuple[list[tuple[int, int]], bool]:
    found: dict[str, set[tuple[int, int]]] = {"fact": set(), "conclusion": set(), "term": set()}
    organization: set[bool | None] = set()
    for line, kind in zip(lines, map(_KIND.match, lines), strict=True):
        name = kind[1].lower() if kind else ""
        if name in found:
            found[name].update((int(matched), int(total)) for matched, total in _COUNTS.findall(line))
        elif kind:
            organization.add(_similar(line[kind.end() :]))
    counts: list[tuple[int, int]] = []
    for name, pairs in found.items():
        if len(pairs) != 1:
            raise _unreadable(f"{len(pairs)} counts of {name}s" if pairs else f"no count of {name}s")
        matched, total = pairs.pop()
        if matched > total:
            raise _unreadable(f"{matched} of {total} {name}s")
        counts.append((matched, total))
    similar = organization.pop() if len(organization) == 1 else None
    if similar is None:
        raise _unreadable("no organization, or both matched and mismatched")
    return counts, similar


def _similar(line: str) -> bool | None:
    """None: neither matched nor mismatched, or both."""
    match = _ORGANIZATION.match(line)
    if match is None or _BOTH.match(match["rest"]) or "match" in match["rest"].lower():
        return None
    return match["not"] is None


def _lines(rationale: Any) -> list[str]:
    if isinstance(rationale, str):
        return [line for line in rationale.splitlines() if line.strip()]
    if isinstance(rationale, list) and all(isinstance(line, str) for line in rationale):
        return rationale
    raise InvalidVerdictError("rationale must be a list of five strings")


def _unreadable(problem: str) -> InvalidVerdictError:
    return InvalidVerdictError(
        f"the rationale has {problem}; it must be a list of five strings: {_FORM}, and the score"
    )
