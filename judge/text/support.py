"""Check whether a text supports a statement: enough common words, and the numbers. Pure.

A judge's quotation may be correct and prove nothing. Common words do not prove that a text states something,
but texts without a common word, name or number do not state the same. Words of the question do not count,
because any answer may repeat them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Final

from judge.text.normal import TextIndex
from judge.text.words import (
    STOP_WORDS,
    Word,
    content_words,
    each_sentence,
    each_word,
    folded_words,
    word_texts,
    words,
)

MIN_SHARE: Final = 8
"""At least one in this many of a statement's words must be shared. About 1 in 20 of the claims that experts
rate "completely supported" (ExpertQA) share less with any sentences of their pages; 1 in 27 accepted human
answers (NQ) share no word with their reference."""
LONG_STATEMENT: Final = 3
"""From this many own words, one common word does not suffice for a sentence."""
_STEM_CHARS = 4
_MOST_ALIKE = 50
"""Words with the same first letters that are compared."""
_ENDINGS = folded_words("endings") | {""}
_POLARITY = frozenset(
    {"yes", "no", "not", "true", "false", "correct", "incorrect", "right", "wrong", "indeed"}
)
_SPELLED_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_SPELLED = {word: str(number) for number, word in enumerate(_SPELLED_NUMBERS.split())}
_LITTLE_ENGLISH, _MUCH_ENGLISH = 0.08, 0.25
_MIN_LANGUAGE_WORDS = 15
_LANGUAGE_CHARS = 1000
_SCRIPTS = (
    ("latin", re.compile("[\x00-\u024f\u1e00-\u1eff]")),
    ("greek", re.compile("[\u0370-\u03ff]")),
    ("cyrillic", re.compile("[\u0400-\u052f]")),
    ("hebrew", re.compile("[\u0590-\u05ff]")),
    ("arabic", re.compile("[\u0600-\u077f]")),
    ("devanagari", re.compile("[\u0900-\u097f]")),
    ("bengali", re.compile("[\u0980-\u09ff]")),
    ("thai", re.compile("[\u0e00-\u0e7f]")),
    ("korean", re.compile("[\u1100-\u11ff\uac00-\ud7a3]")),
    # Japanese mixes kana and Han, so both count as one script.
    ("han", re.compile("[\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")),
)
# A sentence that starts like this and adds only usual words refuses or announces an answer.
_REFUSAL = re.compile(
    r"\W*(?:(?:i['\u2019]m|i am) (?:sorry|afraid|not sure|unable)|sorry|unfortunately,? i"
    r"|i (?:can['\u2019]?t|cannot|could not|couldn['\u2019]?t|don['\u2019]?t|do not|have no|am unable)"
    r"|as an? (?:ai|language model)|let['\u2019]?s\b|let (?:us|me)\b|below,? i\b|no (?:answer|comment|idea)"
    r"|n/?a\b|none\b|unknown\b)",
    re.IGNORECASE,
)


class Vocabulary:
    """A set of normalised words for lookup in any inflection; see `are_forms`."""

    def __init__(self, given: Iterable[str]) -> None:
        self._words = frozenset(given)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The significant digits of its numbers."""
        return frozenset(filter(None, map(significant, self._words)))

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._words)

    def __contains__(self, word: str) -> bool:
        if word in self._words:
            return True
        number = significant(word)
        if number is not None:
            return number in self.numbers
        stem = word[:_STEM_CHARS]
        first = bisect_left(self._sorted, stem)
        for other in self._sorted[first : first + _MOST_ALIKE]:
            if not other.startswith(stem):
                return False
            if are_forms(word, other):
                return True
        return False


def share_stem(one: str, other: str) -> bool:
    """Return whether two normalised words are equal or look like inflections of one word.

    They share a prefix of at least four letters, and have at most five letters beyond it ("completed" and
    "completion", but not "internet" and "international").
    """
    if one == other:
        return True
    common = _common_letters(one, other)
    return common >= _STEM_CHARS and one[:4].isalpha() and max(len(one), len(other)) - common <= 5


def _common_letters(one: str, other: str) -> int:
    differing = (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(one), len(other)))


@lru_cache(maxsize=8192)
def are_forms(one: str, other: str) -> bool:
    """Return whether two normalised words are forms of one word: a common stem with usual endings."""
    if not share_stem(one, other):
        return False
    common = _common_letters(one, other)
    # A stem may end with letters that the endings have in common: "valid-ate" and "valid-ation".
    return any(
        (one[end:] in _ENDINGS and other[end:] in _ENDINGS) or not (one[end:] + other[end:]).isascii()
        for end in range(common, max(_STEM_CHARS, common - 4) - 1, -1)
    )


@lru_cache(maxsize=8192)
def significant(word: str) -> str | None:
    """Return the significant digits of a number; None for other words.

    1.8 (million) and 1,800,000 agree. Numbers up to twenty may be English words.
    """
    spelled = _SPELLED.get(word)
    if spelled is None and not word[0].isdecimal():
        return None
    return "".join(filter(str.isdecimal, spelled or word)).strip("0") or "0"


def own_words(text: str | TextIndex, known: Vocabulary) -> list[Word]:
    """Return the content words of a text that are not in `known`, without yes, no and footnote marks."""
    original = text if isinstance(text, str) else text.text
    return [
        word
        for word in content_words(text)
        if word.text not in known
        and word.text not in _POLARITY
        and not (word.text.isdecimal() and original[word.start - 1 : word.end + 1] == f"[{word.text}]")
    ]


class Surroundings:
    """A text's sentences, read as far as they are needed, to look up the context of a span.

    Args:
        text: Text to return instead of the index's, with equal offsets, such as an answer without its tags.
    """

    def __init__(self, index: TextIndex, *, text: str | None = None) -> None:
        self.index = index
        self._text = index.text if text is None else text
        self._vocabularies: dict[tuple[int, int], Vocabulary] = {}
        self._bounds: dict[tuple[tuple[int, int], int], tuple[int, int]] = {}
        self._unread = each_sentence(index.text)
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def places(self) -> Iterable[tuple[int, int]]:
        """Start and end (exclusive) of all sentences."""
        self._read(len(self.index.text), 1)
        return zip(self._starts, self._ends, strict=True)

    def _read(self, place: int, beyond: int) -> None:
        """Read the sentences before a place, and this many from there on."""
        while len(self._starts) < beyond or self._starts[-beyond] < place:
            found = next(self._unread, None)
            if found is None:
                return
            self._starts.append(found[0])
            self._ends.append(found[1])

    def bounds(self, place: tuple[int, int], *, neighbours: int = 0) -> tuple[int, int]:
        """Return a span widened to whole sentences, plus some before and after."""
        if (place, neighbours) not in self._bounds:
            self._bounds[place, neighbours] = self._widened(place, neighbours)
        return self._bounds[place, neighbours]

    def _widened(self, place: tuple[int, int], neighbours: int) -> tuple[int, int]:
        self._read(place[1], max(neighbours, 1))
        first = max(bisect_right(self._ends, place[0]) - neighbours, 0)
        last = min(bisect_left(self._starts, place[1]) - 1 + neighbours, len(self._starts) - 1)
        if first > last:
            return place
        return min(place[0], self._starts[first]), max(place[1], self._ends[last])

    def told(self, place: tuple[int, int], *, neighbours: int = 0) -> str:
        """Return the sentences that overlap a span; see `bounds`."""
        start, end = self.bounds(place, neighbours=neighbours)
        return self._text[start:end]

    def said(self, place: tuple[int, int], *, neighbours: int = 0) -> Vocabulary:
        """Return all words of the sentences that overlap a span; see `bounds`."""
        bounds = self.bounds(place, neighbours=neighbours)
        if bounds not in self._vocabularies:
            self._vocabularies[bounds] = Vocabulary(word_texts(self._text[slice(*bounds)]))
        return self._vocabularies[bounds]


def needed(count: int) -> int:
    """Return how many of a statement's distinct words another text must share to support it."""
    return max(1, -(-count // MIN_SHARE))


def shortfall(
    wanted: Sequence[Word], text: str, said: Vocabulary, told: str, *, of: Sequence[Word] = ()
) -> str | None:
    """Return why the common words are too few to support a statement; None if they suffice.

    Args:
        wanted: The statement's own words, of `text`.
        said: The words of the supporting text, which is `told`.
        of: All own words of the statement's sentence, if that is longer.
    """
    different = {word.text: word for word in wanted}
    shared = [word for name, word in different.items() if name in said]
    enough = needed(len(different))
    if len(shared) < enough:
        return f"it shares {len(shared)} of {len(different)} words with it, at least {enough} are needed"
    sentence = {word.text for word in (*wanted, *of)}
    if len(sentence) < LONG_STATEMENT or len(shared) >= 2 or sum(word in said for word in sentence) >= 2:
        return None
    if any(_is_strong(word, text, told) for word in shared):
        return None
    return f"the one word in common, {shared[0].text}, says too little of a sentence with {len(sentence)}"


def _is_strong(word: Word, text: str, told: str) -> bool:
    """Return whether one shared word is strong evidence: a number, or a name in both texts."""
    if word.text[0].isdecimal():
        return sum(char.isdecimal() for char in word.text) > 1  # one digit may be a list mark
    before = text[: word.start].rstrip(" \t\"'(\u201c\u2018*_")
    if not text[word.start].isupper() or before[-1:] in {"", "\n", ".", "!", "?", ":", "-", "\u2022"}:
        return False
    return told.islower() or any(
        told[other.start].isupper() and share_stem(word.text, other.text) for other in words(told)
    )


def is_answering(said: Vocabulary) -> bool:
    """Return whether yes or no occurs."""
    return any(word in said for word in _POLARITY - {"not"})


_USUAL_IN_REFUSALS = Vocabulary(each_word("refusal_words"))


def is_refusal(text: str, known: Vocabulary) -> bool:
    """Return whether a sentence starts like a refusal and adds only words that are known or usual in one."""
    return _REFUSAL.match(text) is not None and all(
        word.text in _USUAL_IN_REFUSALS for word in own_words(text, known)
    )


def cannot_be_compared(text: str, answer: str, *, question: str) -> bool:
    """Return whether an answer is certainly in another language than a text.

    The question must also certainly be in the answer's language. Languages are distinguished by script, and
    English by its stop words; short texts, which may be names, only by script.
    """
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
    letters = "".join(word[0] for word in read)
    script = "latin"
    if not letters.isascii():
        counts = {name: len(expression.findall(letters)) for name, expression in _SCRIPTS}
        script = max(counts, key=counts.__getitem__)
    if script != "latin" or len(read) < _MIN_LANGUAGE_WORDS:
        return script, None
    share = sum(map(STOP_WORDS.__contains__, read)) / len(read)
    return script, True if share >= _MUCH_ENGLISH else False if share <= _LITTLE_ENGLISH else None
