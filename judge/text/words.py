"""Split a text into normalised words, and detect content words. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from judge.text.normal import ASCII_FOLDS, UNSPACED, TextIndex, is_unspaced

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
_STOP_WORDS = """
    about above after again all also am an and any are as at be because been before being below between
    both but by
    can could did do does doing down during each few for from further had has have having he her here hers
    herself
    him himself his how i if in into is it its itself just let may me might more most must my myself nor of
    off on
    once only or other our ours ourselves out over own per quite rather same shall she should so some such
    than that
    the their theirs them themselves then there these they this those through thus to too under until up
    upon us very
    via was we were what when where whether which while who whom whose why will with would yet you your
    yours yourself
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English stop words, without negations and "yes", which change a statement."""


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
    if isinstance(text, TextIndex):
        return _words(text.text) if text.text.isascii() else _indexed_words(text)
    return _remembered_words(text) if len(text) <= _REMEMBERED_CHARS else _words(text)


def word_texts(text: str) -> Sequence[str]:
    """Return all normalised words of a text, without offsets; see `words`."""
    if len(text) > _REMEMBERED_CHARS and text.isascii():
        return _ASCII_WORD.findall(text.translate(ASCII_FOLDS))
    return [word.text for word in words(text)]


def content_words(text: str | TextIndex) -> Sequence[Word]:
    """Return the content words of a text, including numbers; see `words` and `is_content`."""
    if isinstance(text, str) and len(text) <= _REMEMBERED_CHARS:
        return _remembered_content(text)
    return [word for word in words(text) if is_content(word.text)]


def has_words(text: str) -> bool:
    """Return whether a text has a word."""
    return any(map(str.isalnum, text)) and bool(words(text))


def has_content(text: str) -> bool:
    """Return whether a text has a content word."""
    return bool(content_words(text))


def is_content(word: str) -> bool:
    """Return whether a normalised word is a content word: no stop word, no single letter."""
    if word in STOP_WORDS:
        return False
    return len(word) > 1 or not word.isalpha() or is_unspaced(word)


def share_stem(one: str, other: str) -> bool:
    """Return whether two normalised words are equal or look like inflections of one word.

    They share a prefix of at least four letters, and have at most five letters beyond it ("completed" and
    "completion", but not "internet" and "international").
    """
    if one == other:
        return True
    common = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        common += 1
    return common >= 4 and one[:4].isalpha() and max(len(one), len(other)) - common <= 5


def _words(text: str) -> list[Word]:
    if not text.isascii():
        return _indexed_words(TextIndex(text))
    return [
        Word(match[0], match.start(), match.end())
        for match in _ASCII_WORD.finditer(text.translate(ASCII_FOLDS))
    ]


def _indexed_words(index: TextIndex) -> list[Word]:
    normal = index.normal
    expression = _ASCII_WORD if normal.isascii() else _WORD
    return [
        Word(_composed(match[0]), index.original(match.start()), index.original(match.end()))
        for match in expression.finditer(normal)
    ]


def _composed(word: str) -> str:
    """Return a word in NFC; the order of many marks takes quadratic time, and no real word has them."""
    return unicodedata.normalize("NFC", word) if len(word) <= _MAX_WORD_CHARS else word


@lru_cache(maxsize=256)
def _remembered_words(text: str) -> tuple[Word, ...]:
    return tuple(_words(text))


@lru_cache(maxsize=256)
def _remembered_content(text: str) -> tuple[Word, ...]:
    return tuple(word for word in words(text) if is_content(word.text))
