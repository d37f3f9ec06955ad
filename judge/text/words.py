"""Words and sentences of a text; the words of each language are in `data/languages.toml`. Pure."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from judge.text.normal import PLAIN_FORMS, UNSPACED, is_unspaced

_PLAIN = PLAIN_FORMS | str.maketrans(
    "\u2018\u2019\u02bc\u0060\u00b4\u066b\u066c\u066a\u061b\u061f", "'''''.,%;?"
)
_PLAIN |= dict.fromkeys((0xA0, 0x202F, 0x2009), "\u00a0") | {0x649: "\u064a", 0x629: "\u0647", 0x131: "i"}
_UNSEEN = "\u00ad\u200b-\u200f\u2060\ufeff"
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670" + _UNSEEN + "]+"
)


class _Folds(dict[int, int]):
    """The folded form of each character, found when it is first met."""

    def __missing__(self, code: int) -> int:
        folded = unicodedata.normalize("NFD", chr(code).casefold().translate(_PLAIN))
        folded = _ACCENTS.sub("", folded)
        self[code] = ord(folded) if len(folded) == 1 else code
        return self[code]


_FOLDS: Final = _Folds()


def fold(text: str) -> str:
    """Return a text of the same length in lower case, with ASCII digits, plain quotes, letters unaccented."""
    if text.isascii():
        return text.lower() if "`" not in text else text.lower().replace("`", "'")
    return text.translate(_FOLDS)


@cache
def read_data(name: str) -> Mapping[str, Any]:
    return tomllib.loads((files("judge.text") / "data" / name).read_text("utf-8"))


@cache
def folded_words(kind: str) -> frozenset[str]:
    return frozenset(fold(word) for word in each_word(kind))


def each_word(kind: str) -> Iterator[str]:
    for language in read_data("languages.toml").values():
        yield from language.get(kind, "").split()


def any_of(kind: str) -> str:
    return "(?:" + "|".join(sorted(set(each_word(kind)), key=lambda one: (-len(one), one))) + ")"


# Words

# Vowel signs and accents, which Python's \w does not match.
MARKS = "".join(chr(code) for code in range(0x300, 0x11FFF) if unicodedata.category(chr(code))[0] == "M")
_LETTER = rf"(?:[^\W_{UNSPACED}]|[{MARKS}{_UNSEEN}])"
_BEGINNING = rf"[^\W\d_{UNSPACED}]"
_WORD = re.compile(
    rf"\d+(?:[.,]\d+)*(?:{_BEGINNING}{_LETTER}*)?|[{UNSPACED}][{MARKS}]*|{_LETTER}+(?:'(?!s\b){_BEGINNING}+)?"
)
# The same for folded ASCII text, several times as fast.
_ASCII_WORD = re.compile(
    r"[a-z][a-z0-9]*(?:'(?!s\b)[a-z]+)?|[0-9]+(?:[.,][0-9]+)*(?:[a-z][a-z0-9]*)?", re.ASCII
)
STOP_WORDS: Final = folded_words("stop_words")
"""Without negations and "yes", which change a statement."""


class Word(NamedTuple):  # a frozen dataclass takes three times as long to create
    text: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """Return all folded words: numbers with decimals, no possessive 's, each unspaced character."""
    folded = fold(text)
    if folded.isascii():
        return [Word(match[0], *match.span()) for match in _ASCII_WORD.finditer(folded)]
    found = (Word(_ACCENTS.sub("", match[0]), *match.span()) for match in _WORD.finditer(folded))
    return [word for word in found if word.text]


def word_texts(text: str) -> list[str]:
    folded = fold(text)
    if folded.isascii():
        return _ASCII_WORD.findall(folded)
    return [word for word in (_ACCENTS.sub("", word) for word in _WORD.findall(folded)) if word]


def content_words(text: str) -> list[Word]:
    return [word for word in words(text) if is_content(word.text)]


def has_words(text: str) -> bool:
    return _ALPHANUMERIC.search(text) is not None and bool(word_texts(text))


def is_content(word: str) -> bool:
    """No stop word, no single letter; numbers are content."""
    return word not in STOP_WORDS and (len(word) > 1 or not word.isalpha() or is_unspaced(word))


# Sentences

MAX_SENTENCE_CHARS: Final = 2_000
"""A longer run without an end is cut, so that no claim is compared with a whole text: 200 claims over 3,000
kana took 60 s."""
_ABBREVIATIONS: Final = folded_words("abbreviations")
_BEFORE_NUMBERS: Final = folded_words("before_numbers")
_STOPS, _AFTER_STOPS = ".!?\u2026", "\"'\u2019\u201d)\\]\u00bb"
_WIDE_STOPS, _AFTER_WIDE_STOPS = "\u3002\uff01\uff1f\uff61", "\"'\u2019\u201d\u300d\u300f\uff09"
_LINE_ENDS = "\r\n\u2028\u2029"
# A leading character set lets the search skip all others at C speed. Group 1 has the stops.
_END = re.compile(
    f"[{_STOPS}{_WIDE_STOPS}{_LINE_ENDS}](?:"
    # A possessive match reads a run of stops once, from its first on.
    f"(?<=[{_STOPS}])(?<![{_STOPS}]{{2}})([{_STOPS}]*+[{_AFTER_STOPS}]*+)(?=\\s|$)"
    f"|(?<=[{_WIDE_STOPS}])([{_WIDE_STOPS}]*+[{_AFTER_WIDE_STOPS}]*+)"
    f"|(?<=[{_LINE_ENDS}])([{_LINE_ENDS}]*+))"
)
_REMEMBERED_CHARS = 1000
"""Sentences of longer texts are not cached: they would take too much memory."""
_LAST_WORD = re.compile(r"[^\W\d_][\w.]*$")
_LIST_MARK = re.compile(r"(?:[-*+\u2022\u2013\u2014]|\(?(?:\d{1,3}|[A-Za-z])[.)])$")
_ALPHANUMERIC = re.compile(r"[^\W_]")


def sentences(text: str) -> Sequence[tuple[int, int]]:
    """Return start and end (exclusive) of the sentences of a text.

    A sentence ends at a line end, a full-width stop, or a stop before white space (not after an abbreviation,
    an initial or a list mark, and not before a lower-case letter).
    """
    return _remembered_sentences(text) if len(text) <= _REMEMBERED_CHARS else tuple(each_sentence(text))


@lru_cache(maxsize=256)
def _remembered_sentences(text: str) -> Sequence[tuple[int, int]]:
    return tuple(each_sentence(text))


def each_sentence(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        if match.lastindex != 1 or _ends_sentence(text, start, match.start(), end):
            yield from _pieces(text, start, end)
            start = end
    yield from _pieces(text, start, len(text))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a run without white space around it, in parts if it is long; none without a letter or digit."""
    while start < end:
        cut = end
        if end - start > MAX_SENTENCE_CHARS:
            blank = text.rfind(" ", start + 1, start + MAX_SENTENCE_CHARS)
            cut = start + MAX_SENTENCE_CHARS if blank < 0 else blank
        piece = text[start:cut].rstrip()
        stop = start + len(piece)
        piece = piece.lstrip()
        if piece[:1].isalnum() or _ALPHANUMERIC.search(piece) is not None:
            yield stop - len(piece), stop
        start = cut


def _ends_sentence(text: str, start: int, stop: int, end: int) -> bool:
    following = text[end : end + 3].lstrip()[:1]
    if following.islower():
        return False
    if end - stop > 1 or text[stop] != ".":
        return True
    if end - start < 10 and _LIST_MARK.match(text[start:end].strip()):
        return False
    # A bounded lookback suffices: no abbreviation is longer.
    word = _last_word(text[max(start, stop - 20) : stop])
    if len(word) == 1:
        return not (word.isupper() and word != "I")
    lowered = word.lower()
    return lowered not in _ABBREVIATIONS and not (following.isdigit() and lowered in _BEFORE_NUMBERS)


def _last_word(before: str) -> str:
    last = before.rsplit(None, 1)[-1:]
    if not last or not before.endswith(last[0]):
        return ""
    if last[0].isalpha():
        return last[0]
    found = _LAST_WORD.search(last[0])
    return "" if found is None else found[0]
