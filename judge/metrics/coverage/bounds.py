"""What a judge's own counts for coverage can be at most, by the words of the texts alone.

In verbatim mode a judge says how many items are matched and not which. So no item can be looked at, but some counts are
impossible: nothing is matched where no sentence of the answer could show it, no term where the answer has no word of the
reference, and a reference that says something has facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from judge.metrics.coverage.evidence import verify_coverage
from judge.metrics.coverage.items import CoverageReply, ListedOrganization
from judge.metrics.coverage.statements import Statements
from judge.text.index import TextIndex
from judge.text.overlap import Vocabulary
from judge.text.words import content_words
from schemas import Correction, JudgeTask


@dataclass(frozen=True, slots=True)
class Counts:
    """Matched and total numbers, and whether the organization is alike."""

    facts: tuple[int, int]
    conclusions: tuple[int, int]
    terms: tuple[int, int]
    organization: bool


def lowered_counts(task: JudgeTask, counts: Counts) -> tuple[Counts, tuple[Correction, ...]]:
    """Lower counts that cannot be.

    Args:
        task: The task, with a reference.
        counts: As the judge gives them.

    Returns:
        The counts that may be, and what was corrected.
    """
    reference = TextIndex(task.reference or "")
    statements = Statements(reference, TextIndex(task.answer), task.question)
    corrections: list[Correction] = []
    if not counts.facts[1]:
        counts, added = _with_facts(task, counts)
        corrections += added
    if (counts.facts[0] or counts.conclusions[0]) and not statements.may_state_anything():
        corrections.append(
            Correction(
                kind="match_not_borne_out",
                detail=f"{counts.facts[0]} facts and {counts.conclusions[0]} conclusions are said to be matched, but no sentence of "
                "the answer has a word of the reference beyond those of the question, or it is on something else",
            )
        )
        counts = replace(counts, facts=(0, counts.facts[1]), conclusions=(0, counts.conclusions[1]))
    said, telling = Vocabulary(statements.answer_words), content_words(reference)
    # Where nothing of the reference says anything by itself ("The Who"), a term may be a stop word.
    if counts.terms[0] and telling and not any(word.text in said for word in telling):
        corrections.append(
            Correction(
                kind="term_not_in_answer",
                detail=f"{counts.terms[0]} terms are said to be matched, but the answer has no word of the reference",
            )
        )
        counts = replace(counts, terms=(0, counts.terms[1]))
    return counts, tuple(corrections)


def _with_facts(task: JudgeTask, counts: Counts) -> tuple[Counts, list[Correction]]:
    """Without facts a judge would be given their neutral ratio: conclusions count as facts, else the reference's sentences."""
    if counts.conclusions[1]:
        correction = Correction(
            kind="conclusions_without_facts",
            detail="conclusions are counted without a fact that they could be drawn from; they count as facts",
        )
        return replace(counts, facts=counts.conclusions, conclusions=(0, 0)), [correction]
    nothing = CoverageReply(
        facts=[], conclusions=[], terms=[], organization=ListedOrganization(similar=counts.organization)
    )
    found = verify_coverage(
        nothing, reference=task.reference or "", answer=task.answer, question=task.question
    )
    facts = sum(item.matched for item in found.facts), len(found.facts)
    return replace(counts, facts=facts), list(found.corrections)
