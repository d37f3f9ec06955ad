"""The offline judge's rules for coverage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from judge.offline.lexical import Searched, Sentence, Statement, Token, is_citation, split
from judge.text.index import TextIndex, normalise
from judge.text.sentences import sentences
from judge.text.words import share_stem, words

MAX_UNITS = 300
"""Facts and conclusions that are listed; of a longer reference, neighbours are put together."""
MAX_TERMS = 12
MAX_ITEM_CHARS = 200

_CUE = re.compile(
    r"\b(?:therefore|thus|hence|consequently|accordingly|suggest(?:s|ed|ing)?|impl(?:y|ies|ied|ying)|indicat(?:es?|ing)"
    r"|means? that|as a result|in conclusion|it follows that|shows? that|which explains)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r";\s+|,\s+(?=(?:and|but|while|whereas|although|though)\s)")
_MIN_CLAUSE_WORDS = 4
_SIGNS = " .,;:!?\"'()[]"
_MIN_TERM_CHARS = 7
# Endings of verbs and adverbs, which tell what happens to a topic rather than name it.
_NO_TERM = ("ed", "ing", "ly")
_MAX_PHRASE_WORDS = 5


@dataclass(frozen=True, slots=True)
class _Unit:
    start: int
    end: int
    parts: tuple[Sentence, ...]


def coverage_evidence(*, reference: str, answer: str) -> dict[str, Any]:
    """List what a reference says and whether an answer says it, in the form of the schema `coverage_evidence`.

    Facts are the reference's sentences, split at semicolons and before some conjunctions; with a cue word such as
    "therefore" they are conclusions, where others are facts. One is matched where up to two sentences of the answer have most of its words (by their
    stems), all its numbers, and as much negation. Terms are names and long words.

    Args:
        reference: The known good answer.
        answer: The answer under judgement.
    """
    searched = Searched(answer)
    facts: list[dict[str, Any]] = []
    conclusions: list[dict[str, Any]] = []
    order: list[int] = []
    for unit in _units(reference):
        span = reference[unit.start : unit.end]
        item, place = _stated(span, unit, searched, answer)
        (conclusions if _CUE.search(span) else facts).append(item)
        if place is not None:
            order.append(place)
    similar = _in_order(order)
    if not facts:
        # What is concluded rests on facts; where none is told, the conclusions are what is told.
        facts, conclusions = conclusions, []
    return {
        "facts": facts,
        "conclusions": conclusions,
        "terms": [_named(term, answer, searched) for term in _terms(reference)],
        "organization": {
            "justification": f"{len(order)} matched items, {'mostly' if similar else 'not'} in the reference's order.",
            "similar": similar,
        },
    }


def _units(reference: str) -> list[_Unit]:
    """What the reference states, each once, in order."""
    spans: list[tuple[int, int]] = []
    for sentence in sentences(reference):
        for start, end in _clauses(reference, *sentence):
            if spans and is_citation(reference[start:end]):
                spans[-1] = spans[-1][0], end  # a line of footnote marks belongs to what is before it
            else:
                spans.append((start, end))
    seen: set[str] = set()
    parts: list[Sentence] = []
    for part in split(reference, spans):
        key = normalise(reference[part.start : part.end]).rstrip(".")
        if key not in seen:
            seen.add(key)
            parts.append(part)
    together = -(-len(parts) // MAX_UNITS) or 1
    grouped = [parts[first : first + together] for first in range(0, len(parts), together)]
    units = [_Unit(group[0].start, group[-1].end, tuple(group)) for group in grouped]
    return [unit for unit in units if _tells(unit)] or units


def _tells(unit: _Unit) -> bool:
    """Whether it has any word that says something."""
    return any(token.is_content for part in unit.parts for token in part.tokens)


def _clauses(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence's clauses, none of them very short."""
    begin = start
    for match in _CLAUSE_END.finditer(text, start, end):
        if (
            min(len(text[begin : match.start()].split()), len(text[match.end() : end].split()))
            >= _MIN_CLAUSE_WORDS
        ):
            yield begin, match.start()
            begin = match.end()
    yield begin, end


def _stated(span: str, unit: _Unit, searched: Searched, answer: str) -> tuple[dict[str, Any], int | None]:
    """One fact or conclusion, and where the answer states it."""
    item: dict[str, Any] = {
        "item": span if len(span) <= MAX_ITEM_CHARS else f"{span[: MAX_ITEM_CHARS - 1]}…",
        "reference_span": span,
        "answer_span": None,
        "justification": "The answer has none of its words.",
        "matched": False,
    }
    if not _tells(unit):
        # Nothing but the very words can show that they are meant.
        place = TextIndex(answer).find(span.strip(_SIGNS))
        if place is not None:
            item |= {"answer_span": answer[place[0] : place[1]], "matched": True}
            item["justification"] = "The answer has these very words."
        return item, None if place is None else place[0]
    matches = [searched.best(Statement(part.tokens)) for part in unit.parts]
    found = [match for match in matches if match is not None]
    if not found:
        return item, None
    share = sum(match.share for match in found) / len(matches)
    if len(found) == len(matches) and all(match.holds for match in found):
        first = found[0]
        item["answer_span"] = answer[first.start : first.end]
        item["matched"] = True
        item["justification"] = f"The answer has {share:.0%} of its words, weighted, and all its numbers."
        return item, first.start
    if not all(match.numbers_agree for match in found):
        reason = "a number is missing"
    elif not all(match.negation_agrees for match in found):
        reason = "one of the two is negated"
    else:
        reason = "too few"
    item["justification"] = f"The answer has {share:.0%} of its words, weighted; {reason}."
    return item, None


def _in_order(places: Sequence[int]) -> bool:
    """Whether most pairs of matched items stand in the answer as in the reference."""
    pairs = [(one, other) for number, one in enumerate(places) for other in places[number + 1 :]]
    return bool(places) and 2 * sum(one <= other for one, other in pairs) >= len(pairs)


def _terms(reference: str) -> list[str]:
    """Names, then long words, as the reference writes them."""
    phrases: dict[str, str] = {}
    long_words: dict[str, str] = {}
    named: set[str] = set()
    for sentence in split(reference):
        names = list(_names(reference, sentence))
        for first, last in names:
            phrase = reference[first.start : last.end]
            phrases.setdefault(normalise(phrase), phrase)
        taken = {place for first, last in names for place in range(first.start, last.end)}
        for token in sentence.tokens:
            word = reference[token.start : token.end]
            if token.start in taken:
                named.add(token.stem)
            elif token.is_content and _is_long_word(word):
                long_words.setdefault(token.stem, word)
    # A word that a name holds is the same term; the longer of the others say more.
    rest = [word for base, word in long_words.items() if base not in named]
    rest.sort(key=len, reverse=True)
    return [*phrases.values(), *rest][:MAX_TERMS]


def _names(text: str, sentence: Sentence) -> Iterator[tuple[Token, Token]]:
    """Runs of capitalised words; the first word of a sentence counts only where a name goes on after it."""
    run: list[Token] = []
    for place, token in enumerate((*sentence.tokens, None)):
        joined = not run or (token is not None and text[run[-1].end : token.start] in {" ", "-", "\n"})
        if token is not None and joined and _is_name(text, token) and len(run) < _MAX_PHRASE_WORDS:
            run.append(token)
            continue
        begins = place - len(run) == 0
        if run and (not begins or len(run) > 1 or len(sentence.tokens) == 1):
            yield run[0], run[-1]
        run = [token] if token is not None and _is_name(text, token) else []


def _is_name(text: str, token: Token) -> bool:
    return text[token.start].isupper() and token.is_content and not token.is_number


def _is_long_word(word: str) -> bool:
    return len(word) >= _MIN_TERM_CHARS and word.isalpha() and not word.endswith(_NO_TERM)


def _named(term: str, answer: str, searched: Searched) -> dict[str, Any]:
    """One term, matched where the answer has it word by word, or all its stems in one sentence."""
    span = _find_term(term, answer, searched)
    return {
        "item": term,
        "reference_span": term,
        "answer_span": span,
        "justification": "The answer uses it." if span is not None else "The answer does not use it.",
        "matched": span is not None,
    }


def _find_term(term: str, answer: str, searched: Searched) -> str | None:
    statement = Statement([token for sentence in split(term) for token in sentence.tokens])
    wanted = set(statement.weights)
    match = searched.best(statement)
    if match is None or match.share < 1:
        return None
    own = [word.text for word in words(TextIndex(term))]
    for sentence in searched.sentences:
        if sentence.start < match.start or sentence.end > match.end:
            continue
        places = [token for token in sentence.tokens if token.stem in wanted]
        if {token.stem for token in places} == wanted:
            span = answer[places[0].start : places[-1].end]
            if any(share_stem(one, word.text) for one in own for word in words(TextIndex(span))):
                return span
    return None
