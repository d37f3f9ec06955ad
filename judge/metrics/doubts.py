"""Word checks, which only mark a result: what is a claim, does a text support or state it? Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from judge.text.citations import Claim
from judge.text.normal import TextIndex, normalise
from judge.text.passages import Passage, passage, stem, stems
from judge.text.words import (
    STOP_WORDS,
    content_words,
    each_word,
    fold,
    has_words,
    read_data,
    sentences,
    word_texts,
    words,
)

Place = tuple[int, int]
MAX_CHARS = 4000
"""Maximum characters of a sentence that are examined."""

_OPENINGS = "|".join(re.escape(fold(opening)) for opening in read_data("claims.toml")["openings"])
_OPENING = re.compile(rf"\W*(?:{_OPENINGS})(?![^\W_])")
_SOURCES_SAY_NOTHING = re.compile(read_data("claims.toml")["sources_say_nothing"])
_NOT_CLAIMING_ENDS = frozenset({":", "\uff1a", "?", "\uff1f", "\u061f", ";"})
_CLOSING = "\"'\u201d\u2019\u00bb)]*_ "
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s{0,3}(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__):?\s*\Z")
MIN_SHARE: Final = 8
"""At least one in this many of a statement's words must be shared. About 1 in 20 of the claims that experts
rate "completely supported" (ExpertQA) share less with any sentences of their pages; 1 in 27 accepted human
answers (NQ) share no word with their reference."""
LONG_STATEMENT: Final = 3
"""From this many own words, one common word does not suffice for a sentence."""
QUESTION_SHARE: Final = 4
"""An answer with less than one in this many of the question's words is off topic, if the reference has more:
1 in 1,390 accepted human answers (NQ), 0 of 219 model answers (ExpertQA), 2 in 3 pages retrieved for other
questions; with its supporting pages 1 in 200 model answers, 9 in 10 such pages."""
LONG_ANSWER: Final = 6
"""Distinct content words from which an answer itself is checked; a short one need not repeat the question."""
MIN_SENTENCE_WORDS: Final = 3
"""Sentences of the reference with at least this many content words must be half covered."""
FACTS_SHARE: Final = 4
"""Facts must contain at least one in this many of the items' words."""
_POLARITY = frozenset(
    {"yes", "no", "not", "true", "false", "correct", "incorrect", "right", "wrong", "indeed"}
)
_QUESTION_MARKS = ("?", "\uff1f")
# A sentence that starts like this and adds only usual words refuses or announces an answer.
_REFUSAL = re.compile(
    r"\W*(?:(?:i['\u2019]m|i am) (?:sorry|afraid|not sure|unable)|sorry|unfortunately,? i"
    r"|i (?:can['\u2019]?t|cannot|could not|couldn['\u2019]?t|don['\u2019]?t|do not|have no|am unable)"
    r"|as an? (?:ai|language model)|let['\u2019]?s\b|let (?:us|me)\b|below,? i\b|no (?:answer|comment|idea)"
    r"|n/?a\b|none\b|unknown\b)",
    re.IGNORECASE,
)
_USUAL_IN_REFUSALS = stems(each_word("refusal_words"))


class Doubts:
    def __init__(self, question: str) -> None:
        self._question = passage(question)
        # Any answer may repeat the question's words.
        self._ignored = self._question.content | _POLARITY

    def own(self, text: Passage) -> frozenset[str]:
        """Return the stems of a text's content words that are not in the question, but for yes and no."""
        return text.content - self._ignored

    def refuses(self, text: Passage) -> bool:
        """Return whether a text starts like a refusal and adds only words that are known or usual in one."""
        return _REFUSAL.match(text.text) is not None and self.own(text) <= _USUAL_IN_REFUSALS

    def is_empty(self, claim: Passage) -> str | None:
        if not claim.content:
            return "the claim says nothing"
        if self.refuses(claim):
            return "the claim refuses an answer or announces one"
        repeated = f" {' '.join(claim.listed)} " in f" {' '.join(self._question.listed)} "
        return "the claim repeats the question" if repeated else None

    def doubt(self, stated: Passage, sentence: Passage, support: Passage) -> str | None:
        """Return why a passage does not bear out a statement, a part of a sentence; None if it may."""
        own = self.own(stated)
        if not own:
            return self._doubt_of_repetition(stated, support)
        shared = own & support.stems
        numbers = [one for one in own if one[0].isdecimal()]
        if numbers and shared.isdisjoint(numbers) and any(one[0].isdecimal() for one in support.stems):
            return "its numbers differ"
        enough = max(1, -(-len(own) // MIN_SHARE))
        if len(shared) < enough:
            return f"it shares {len(shared)} of {len(own)} words with it, at least {enough} are needed"
        whole = own | self.own(sentence)
        suffices = len(whole) < LONG_STATEMENT or len(whole & support.stems) >= 2
        if suffices or any(_is_strong(word, stated.text, support.text) for word in shared):
            return None
        return f"one word in common says too little of a sentence with {len(whole)}"

    def _doubt_of_repetition(self, stated: Passage, support: Passage) -> str | None:
        """Return a doubt if less than half of a statement that repeats the question is in the passage."""
        if stated.text.rstrip(" *_\"'").endswith(_QUESTION_MARKS) or support.text.rstrip().endswith(
            _QUESTION_MARKS
        ):
            return "it is a question"
        wanted = stated.content or stated.stems
        shared = len(wanted & support.stems)
        if 2 * shared >= len(wanted) or not support.words.isdisjoint(_POLARITY - {"not"}):
            return None
        return f"it shares {shared} of {len(wanted)} words with it (at least half needed)"

    def is_about(self, *told: Passage) -> bool:
        asked = self._question.content
        shared = asked.intersection(chain.from_iterable(one.stems for one in told))
        return QUESTION_SHARE * len(shared) >= len(asked)


def _is_strong(word: str, stated: str, support: str) -> bool:
    """Return whether one shared word is strong evidence: a number, or a name in both texts."""
    if word[0].isdecimal():
        return len(word) > 1  # one digit may be a list mark
    return any(
        stem(one.text) == word
        and stated[one.start].isupper()
        and stated[: one.start].rstrip(" \t\"'(\u201c\u2018*_")[-1:] not in {"", *"\n.!?:-\u2022"}
        for one in words(stated)
    ) and (
        support.islower()
        or any(support[one.start].isupper() and stem(one.text) == word for one in words(support))
    )


# The account of a reference


def left_out(reference: TextIndex, own: Collection[str], spans: Collection[str]) -> list[Place]:
    """Return the sentences of which items cover less than half of the words, in `own` if there are any."""
    covered = _covered(reference, spans)
    missed: list[Place] = []
    for start, end in sentences(reference.text):
        inside = content_words(reference.text[start:end]) or words(reference.text[start:end])
        telling = [word for word in inside if stem(word.text) in own] or inside
        count = sum(covered.covers(start + word.start, start + word.end) for word in telling)
        if 2 * count < (1 if len(inside) < MIN_SENTENCE_WORDS else len(telling)):
            missed.append((start, end))
    return missed


def has_facts_for(
    reference: TextIndex, own: Collection[str], facts: Iterable[str], conclusions: Iterable[str]
) -> bool:
    """Return whether the spans of the facts cover enough of the reference to draw the conclusions from."""
    counted = content_words(reference.text)
    telling = [word for word in counted if stem(word.text) in own] or counted
    of_facts, of_all = _covered(reference, facts), _covered(reference, [*facts, *conclusions])
    stated = sum(of_facts.covers(word.start, word.end) for word in telling)
    return FACTS_SHARE * stated >= sum(of_all.covers(word.start, word.end) for word in telling)


def _covered(reference: TextIndex, spans: Iterable[str]) -> Stretches:
    distinct = {normalise(span): span for span in spans}
    return Stretches(place for span in distinct.values() for place in reference.find_all(span))


def claiming_parts(text: str) -> Sequence[Place]:
    return [(start, end) for start, end in sentences(text) if not claims_nothing(text[start:end])]


def uncited_numbers(segments: Iterable[Claim]) -> Iterator[Claim]:
    """Yield the claiming sentences with a number in parts of an answer without a citation."""
    for segment in segments:
        for start, end in claiming_parts(segment.text):
            sentence = segment.text[start:end]
            if any(map(str.isdigit, sentence)):
                yield Claim(sentence, segment.start + start, segment.start + end, ())


def claims_nothing(sentence: str) -> bool:
    text = sentence[:MAX_CHARS].strip()
    if not has_words(text) or _HEADING.match(text):
        return True
    if text.rstrip(_CLOSING)[-1:] in _NOT_CLAIMING_ENDS:
        return True
    folded = fold(text)
    if _SOURCES_SAY_NOTHING.search(folded) is not None:
        return True
    # "Sure, it opens at 9" is a claim.
    says_more = any(map(str.isdigit, folded)) or len(content_words(folded)) > 12
    return not says_more and _OPENING.match(folded) is not None


class Stretches:
    def __init__(self, places: Iterable[Place]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(places):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def has_half(self, claim: Claim, parts: Iterable[Place]) -> bool:
        places = [
            (claim.start + start + word.start, claim.start + start + word.end)
            for start, end in parts
            for word in content_words(claim.text[start:end])
        ]
        if not places:
            return self.touches(claim.start, claim.end)
        return 2 * sum(self.covers(*place) for place in places) >= len(places)

    def covers(self, start: int, end: int) -> bool:
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._ends[number]

    def touches(self, start: int, end: int) -> bool:
        return bisect_left(self._starts, end) > bisect_right(self._ends, start)


_LITTLE_ENGLISH, _MUCH_ENGLISH = 0.08, 0.25
_MIN_LANGUAGE_WORDS = 15
_LANGUAGE_CHARS = 1000
# Japanese mixes kana and Han, so both count as one script.
_KANA = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}


def cannot_be_compared(text: str, answer: str, *, question: str) -> bool:
    """Return whether answer and question are certainly in one language, and a text in another."""
    spoken, asked = _language(answer), _language(question)
    if spoken is None or asked is None or asked[0] != spoken[0]:
        return False
    other = _language(text)
    if other is None:
        return False
    if other[0] != spoken[0]:
        return True
    return None not in {spoken[1], asked[1], other[1]} and asked[1] == spoken[1] != other[1]


@lru_cache(maxsize=64)
def _language(text: str) -> tuple[str, bool | None] | None:
    """Return the script, and for Latin whether it is English, if certain; None for a text without words."""
    read = [word for word in word_texts(text[:_LANGUAGE_CHARS]) if not word[0].isdecimal()]
    if not read:
        return None
    names = (unicodedata.name(word[0], "").partition(" ")[0] for word in read)
    script = Counter(_KANA.get(name, name) for name in names).most_common(1)[0][0]
    if script != "LATIN" or len(read) < _MIN_LANGUAGE_WORDS:
        return script, None
    share = sum(map(STOP_WORDS.__contains__, read)) / len(read)
    return script, True if share >= _MUCH_ENGLISH else False if share <= _LITTLE_ENGLISH else None
