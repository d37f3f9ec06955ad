"""What a judge's own counts for coverage can be at most, by the words of the texts alone.

In verbatim mode a judge says how many items are matched and not which. So no item can be looked at. A
sentence of the reference that the answer contradicts is a fact that is not matched. Suspected is that nothing
is matched where no sentence of the answer could show it, no term where the answer has no word of the
reference, and that a reference which says something has facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

from judge.metrics.coverage.evidence import verify_coverage
from judge.metrics.coverage.items import CoverageReply, ListedOrganization
from judge.metrics.coverage.statements import Statements
from judge.metrics.findings import Findings
from judge.text.characters import quoted
from judge.text.contradictions.passages import MAX_SENTENCES, Passage, contradiction_between
from judge.text.index import TextIndex
from judge.text.overlap import Vocabulary
from judge.text.sentences import each_sentence
from judge.text.words import content_words
from schemas import JudgeTask, SuspicionKind


@dataclass(frozen=True, slots=True)
class Counts:
    """Matched and total numbers, and whether the organization is alike."""

    facts: tuple[int, int]
    conclusions: tuple[int, int]
    terms: tuple[int, int]
    organization: bool


def lowered_counts(task: JudgeTask, counts: Counts, findings: Findings) -> Counts:
    """Lower counts that cannot be.

    Args:
        task: The task, with a reference.
        counts: As the judge gives them.
        findings: Takes what is shown to be wrong and what is suspected.
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
    # Where nothing of the reference says anything by itself ("The Who"), a term may be a stop word.
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
    """Counts without the facts of sentences that the answer contradicts; at least one fact for each."""
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
    """Without facts, conclusions count as facts, else the reference's sentences: no neutral ratio."""
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
    # Nothing is listed, so that all it can find are suspicions that `strict` takes for corrections.
    lowers = [findings.suspect(cast(SuspicionKind, one.kind), one.detail) for one in found.corrections]
    if not any(lowers):
        return counts
    return replace(counts, facts=(sum(item.matched for item in found.facts), len(found.facts)))
