"""Upper bounds of a coverage judge's own counts, from the words of the texts.

In verbatim mode a judge reports how many items are matched, not which, so single items cannot be checked. A
sentence of the reference that the answer contradicts counts as an unmatched fact. Suspicions: nothing is
matched if no sentence of the answer could state it; no term is matched if the answer has no word of the
reference; a reference with content words has facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

from judge.metrics.coverage.evidence import verify_coverage
from judge.metrics.coverage.items import CoverageReply, ListedOrganization
from judge.metrics.coverage.statements import Statements
from judge.metrics.findings import Findings
from judge.text.contradictions import MAX_SENTENCES, Passage, contradiction_between
from judge.text.normal import TextIndex, quoted
from judge.text.sentences import each_sentence
from judge.text.support import Vocabulary
from judge.text.words import content_words
from schemas import JudgeTask, SuspicionKind


@dataclass(frozen=True, slots=True)
class Counts:
    """Matched and total numbers, and whether the organization is similar."""

    facts: tuple[int, int]
    conclusions: tuple[int, int]
    terms: tuple[int, int]
    organization: bool


def lowered_counts(task: JudgeTask, counts: Counts, findings: Findings) -> Counts:
    """Return counts lowered to their upper bounds.

    Args:
        task: The task, with a reference.
        counts: The judge's counts.
        findings: Receives corrections and suspicions.
    """
    counts = _without_contradicted(task, counts, findings)
    if not findings.looks_for_suspicions:
        return counts
    reference = TextIndex(task.reference or "")
    statements = Statements(reference, TextIndex(task.answer), task.question)
    if not counts.facts[1]:
        counts = _with_facts(task, counts, findings)
    if (
        (counts.facts[0] or counts.conclusions[0])
        and not statements.may_state_anything()
        and findings.suspect(
            "match_not_borne_out",
            f"{counts.facts[0]} facts and {counts.conclusions[0]} conclusions are reported as matched, but "
            "no sentence of the answer shares a word with the reference beyond the question's words, or its "
            "topic differs",
        )
    ):
        counts = replace(counts, facts=(0, counts.facts[1]), conclusions=(0, counts.conclusions[1]))
    said, telling = Vocabulary(statements.answer_words), content_words(reference)
    # If the reference has only stop words ("The Who"), a term may be one.
    if (
        counts.terms[0]
        and telling
        and not any(word.text in said for word in telling)
        and findings.suspect(
            "term_not_in_answer",
            f"{counts.terms[0]} terms are reported as matched, but the answer shares no word with the "
            "reference",
        )
    ):
        counts = replace(counts, terms=(0, counts.terms[1]))
    return counts


def _without_contradicted(task: JudgeTask, counts: Counts, findings: Findings) -> Counts:
    """Return the counts with at least one unmatched fact per sentence that the answer contradicts."""
    answer = Passage(task.answer, task.answer)
    contradicted = 0
    for start, end in islice(each_sentence(task.reference or ""), MAX_SENTENCES):
        sentence = (task.reference or "")[start:end]
        found = contradiction_between(Passage(sentence, sentence), answer)
        if found is not None:
            contradicted += 1
            findings.correct(
                found.kind, f"the answer says {quoted(found.stated)}, the reference {quoted(found.source)}"
            )
    matched, total = counts.facts
    return replace(counts, facts=(min(matched, max(total - contradicted, 0)), total))


def _with_facts(task: JudgeTask, counts: Counts, findings: Findings) -> Counts:
    """If no facts are counted, count conclusions or the reference's sentences as facts."""
    if counts.conclusions[1]:
        detail = "conclusions are counted without any fact to draw them from"
        if findings.suspect("conclusions_without_facts", detail):
            return replace(counts, facts=counts.conclusions, conclusions=(0, 0))
        return counts
    nothing = CoverageReply(
        facts=[], conclusions=[], terms=[], organization=ListedOrganization(similar=counts.organization)
    )
    found = verify_coverage(
        nothing,
        reference=task.reference or "",
        answer=task.answer,
        question=task.question,
        verification="strict",
    )
    # Without listed items there are only suspicions, which `strict` treats as corrections.
    lowers = [findings.suspect(cast(SuspicionKind, one.kind), one.detail) for one in found.corrections]
    if not any(lowers):
        return counts
    return replace(counts, facts=(sum(item.matched for item in found.facts), len(found.facts)))
