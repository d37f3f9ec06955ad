"""The offline judge's rules for coverage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from judge.offline.matching import Match, Searched, Statement, unmarked
from judge.text.index import TextIndex, normalise
from judge.text.overlap import Vocabulary, significant
from judge.text.sentences import sentences
from judge.text.tags import without_tags
from judge.text.words import content_words, has_content, word_texts, words

THRESHOLD = 0.5
"""Share of a fact's words that a passage of the answer must have."""
MAX_TERMS = 20
"""Number of a reference's longest words that are listed as terms."""

_CUE = re.compile(
    r"\b(?:therefore|thus|hence|consequently|accordingly|suggest(?:s|ed|ing)?|impl(?:y|ies|ied|ying)|indicat(?:es?|ing)"
    r"|means? that|as a result|in conclusion|it follows that|shows? that|which explains)\b",
    re.IGNORECASE,
)
# Semicolons, conjunctions after a comma, and slashes between alternatives ("Olivia/MFSK").
_CLAUSE_END = re.compile(r";\s+|,\s+(?=(?:and|but|while|whereas|although|though)\s)|(?<=\w{3})/(?=\w{3})")
_MIN_CLAUSE_WORDS = 4


def coverage_evidence(*, reference: str, answer: str) -> dict[str, Any]:
    """List a reference's statements and whether an answer has them, in the schema `coverage_evidence`.

    Facts are the reference's sentences, split at semicolons, before some conjunctions and between
    alternatives; those with a cue word such as "therefore" are conclusions. An item is matched if two
    neighbouring sentences of the answer contain half of its words, all its numbers, and the same number of
    negations modulo 2. Terms are the longest words.

    Args:
        reference: The known good answer.
        answer: The judged answer.
    """
    searched = Searched(without_tags(answer), together=2)
    facts: list[dict[str, Any]] = []
    conclusions: list[dict[str, Any]] = []
    order: list[int] = []
    for span in _spans(reference):
        place = _place(span, searched, answer)
        matched = isinstance(place, Match) and place.holds(THRESHOLD)
        item = {
            "item": span,
            "reference_span": span,
            "answer_span": answer[place.start : place.end] if matched and place is not None else None,
            "justification": "The answer has none of its words."
            if place is None
            else f"The answer has {place.reason}.",
            "matched": matched,
        }
        (conclusions if _CUE.search(span) else facts).append(item)
        if matched and place is not None:
            order.append(place.start)
    if not facts:
        # Without facts, conclusions count as facts.
        facts, conclusions = conclusions, []
    similar = _in_order(order)
    return {
        "facts": facts,
        "conclusions": conclusions,
        "terms": [_named(term, searched) for term in _terms(reference)],
        "organization": {
            "justification": (
                f"{len(order)} matched items, {'mostly' if similar else 'not'} in the reference's order."
            ),
            "similar": similar,
        },
    }


def _spans(reference: str) -> list[str]:
    """Return the reference's distinct statements, in order."""
    different: dict[str, str] = {}
    for place in sentences(reference):
        for start, end in _clauses(reference, *place):
            clause = reference[start:end]
            if word_texts(unmarked(clause)):
                different.setdefault(normalise(clause).rstrip("."), clause)
    spans = list(different.values())
    return [span for span in spans if has_content(unmarked(span))] or spans


def _clauses(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a sentence's clauses; only alternatives may be very short."""
    begin = start
    for match in _CLAUSE_END.finditer(text, start, end):
        around = text[begin : match.start()], text[match.end() : end]
        if match[0] == "/" or min(len(part.split()) for part in around) >= _MIN_CLAUSE_WORDS:
            yield begin, match.start()
            begin = match.end()
    yield begin, end


def _place(span: str, searched: Searched, answer: str) -> Match | None:
    """Return the best match of a statement in the answer."""
    if has_content(span):
        return searched.best(Statement(span))
    # A statement of stop words needs a literal match.
    place = TextIndex(answer).find(span.strip(" .,;:!?\"'()[]"))
    return (
        None
        if place is None
        else Match(1.0, numbers_agree=True, negation_agrees=True, start=place[0], end=place[1])
    )


def _in_order(places: Sequence[int]) -> bool:
    """Return whether at least half of the matched items follow their predecessor in the answer."""
    follows = [one <= other for one, other in pairwise(places)]
    return bool(places) and 2 * sum(follows) >= len(follows)


def _terms(reference: str) -> list[str]:
    """Return the longest content words, as first written in the reference."""
    terms: dict[str, str] = {}
    for word in content_words(unmarked(reference)):
        if significant(word.text) is None:
            terms.setdefault(word.text, reference[word.start : word.end])
    return sorted(terms.values(), key=len, reverse=True)[:MAX_TERMS]


def _named(term: str, searched: Searched) -> dict[str, Any]:
    """Return the entry of one term; it matches any inflection in the answer."""
    wanted = next(iter(word_texts(term)), term)  # a ligature gives several words, a lone mark none
    sentence = searched.has(wanted) or ""
    form = next((word for word in words(sentence) if wanted in Vocabulary([word.text])), None)
    return {
        "item": term,
        "reference_span": term,
        "answer_span": None if form is None else sentence[form.start : form.end],
        "justification": "The answer does not use it." if form is None else "The answer uses it.",
        "matched": form is not None,
    }
