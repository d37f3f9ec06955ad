"""Words and sentences of a text, and the words of each language. Pure.

`data/languages.toml` has the words of languages: adding a language changes no code.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from judge.text.normal import ASCII_FOLDS, PLAIN_FORMS, UNSPACED, TextIndex, is_unspaced

# Languages

_FOLDS = str.maketrans(
    PLAIN_FORMS
    | dict.fromkeys(map(ord, "\u2018\u2019\u02bc\u0060\u00b4"), "'")
    | dict.fromkeys((0xA0, 0x202F, 0x2009), "\u00a0")
    | {0x66B: ".", 0x66C: ",", 0x66A: "%", 0x61B: ";", 0x61F: "?"}
    | {0x649: "\u064a", 0x629: "\u0647", 0x131: "i"}
)
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u00ad\u200b-\u200f\u2060\ufeff]+"
)


def fold(text: str) -> str:
    """Return a text in lower case without accents, with ASCII digits and plain quotes and dashes."""
    if text.isascii():
        return text.lower().replace("`", "'")
    return _ACCENTS.sub("", unicodedata.normalize("NFD", text.casefold()).translate(_FOLDS))


@cache
def read_data(name: str) -> Mapping[str, Any]:
    """Return a data file of this package."""
    return tomllib.loads((files("judge.text") / "data" / name).read_text("utf-8"))


@cache
def folded_words(kind: str) -> frozenset[str]:
    """Return the folded words of one kind in all languages."""
    return frozenset(fold(word) for word in each_word(kind))


def each_word(kind: str) -> Iterator[str]:
    """Yield the words, or expressions, of one kind in all languages."""
    for language in read_data("languages.toml").values():
        yield from language.get(kind, "").split()


def any_of(kind: str) -> str:
    """Return a regular expression for the expressions of one kind, longest first."""
    return "(?:" + "|".join(sorted(set(each_word(kind)), key=len, reverse=True)) + ")"


# Words

_REMEMBERED_CHARS = 1000
"""Words of shorter texts are cached, because claims and quotations of an event are examined repeatedly;
longer ones would take too much memory."""
_MAX_WORD_CHARS = 200
# Vowel signs and accents, which Python's \w does not match.
MARKS = "".join(chr(code) for code in range(0x300, 0x11FFF) if unicodedata.category(chr(code))[0] == "M")
_LETTER = rf"(?:[^\W_{UNSPACED}]|[{MARKS}])"
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
    """A normalised word and its span in the original text."""

    text: str
    start: int
    end: int


def words(text: str | TextIndex) -> Sequence[Word]:
    """Return all normalised words of a text, with offsets.

    Numbers are words and keep their decimals; a possessive 's is no part of a word; in scripts without word
    boundaries each character is a word.
    """
    if isinstance(text, str) and len(text) <= _REMEMBERED_CHARS:
        return _remembered_words(text)
    return _words(text)


@lru_cache(maxsize=256)
def _remembered_words(text: str) -> Sequence[Word]:
    return tuple(_words(text))


def _words(text: str | TextIndex) -> Sequence[Word]:
    original = text if isinstance(text, str) else text.text
    if original.isascii():
        found = _ASCII_WORD.finditer(original.translate(ASCII_FOLDS))
        return [Word(match[0], match.start(), match.end()) for match in found]
    index = TextIndex(text) if isinstance(text, str) else text
    expression = _ASCII_WORD if index.normal.isascii() else _WORD
    return [
        Word(_composed(match[0]), index.original(match.start()), index.original(match.end()))
        for match in expression.finditer(index.normal)
    ]


def _composed(word: str) -> str:
    """Return a word in NFC; the order of many marks takes quadratic time, and no real word has them."""
    return unicodedata.normalize("NFC", word) if len(word) <= _MAX_WORD_CHARS else word


def word_texts(text: str) -> Sequence[str]:
    """Return all normalised words of a text, without offsets; see `words`."""
    if text.isascii():
        return _ASCII_WORD.findall(text.translate(ASCII_FOLDS))
    return [word.text for word in words(text)]


def content_words(text: str | TextIndex) -> Sequence[Word]:
    """Return the content words of a text, including numbers; see `words` and `is_content`."""
    if isinstance(text, str) and len(text) <= _REMEMBERED_CHARS:
        return _remembered_content(text)
    return [word for word in words(text) if is_content(word.text)]


@lru_cache(maxsize=256)
def _remembered_content(text: str) -> Sequence[Word]:
    return tuple(word for word in words(text) if is_content(word.text))


def has_words(text: str) -> bool:
    """Return whether a text has a word."""
    return any(map(str.isalnum, text)) and bool(words(text))


def has_content(text: str) -> bool:
    """Return whether a text has a content word."""
    return bool(content_words(text))


def is_content(word: str) -> bool:
    """Return whether a normalised word is a content word: no stop word, no single letter."""
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
_LAST_WORD = re.compile(r"[^\W\d_][\w.]*$")
_LIST_MARK = re.compile(r"(?:[-*+\u2022\u2013\u2014]|\(?(?:\d{1,3}|[A-Za-z])[.)])$")
_ALPHANUMERIC = re.compile(r"[^\W_]")


def sentences(text: str) -> Sequence[tuple[int, int]]:
    """Return start and end (exclusive) of the sentences of a text, by simple deterministic rules.

    A sentence ends at a line end, at `.`, `!`, `?` or an ellipsis before white space (not after a common
    abbreviation, an initial or a list mark, and not if the next word starts with a lower-case letter), or at
    a full-width stop. Surrounding white space is left out, and so is a sentence without letter or digit.
    """
    return _remembered_sentences(text) if len(text) <= _REMEMBERED_CHARS else tuple(each_sentence(text))


@lru_cache(maxsize=256)
def _remembered_sentences(text: str) -> Sequence[tuple[int, int]]:
    return tuple(each_sentence(text))


def each_sentence(text: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences of a text lazily; see `sentences`."""
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        if match.lastindex != 1 or _ends_sentence(text, start, match.start(), end):
            yield from _pieces(text, start, end)
            start = end
    yield from _pieces(text, start, len(text))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a run without white space around it, in parts if it is long."""
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
    """Return whether a run of stops ends the sentence that began at `start`."""
    following = text[end : end + 3].lstrip()[:1]
    if following.islower():
        return False
    if end - stop > 1 or text[stop] != ".":
        return True
    if end - start < 10 and _LIST_MARK.match(text[start:end].strip()):
        return False
    # A bounded lookback suffices: no abbreviation is longer.
    word = _last_word(text[max(start, stop - 20) : stop])
    if word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I"):
        return False
    return not (following.isdigit() and word.lower() in _BEFORE_NUMBERS)


def _last_word(before: str) -> str:
    """Return the word directly before a stop, including inner stops; empty if there is none."""
    last = before.rsplit(None, 1)[-1:]
    if not last or not before.endswith(last[0]):
        return ""
    if last[0].isalpha():
        return last[0]
    found = _LAST_WORD.search(last[0])
    return "" if found is None else found[0]
