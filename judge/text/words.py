"""Split a text into normalised words, and detect content words. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from judge.text.index import ASCII_FOLDS, UNSPACED, TextIndex, is_unspaced

_REMEMBERED_CHARS = 1000
"""Words of shorter texts are cached, because claims and quotations of an event are examined repeatedly;
longer ones would take too much memory."""
# Vowel signs and accents, which Python's \w does not match.
_MARKS = "".join(chr(code) for code in range(0x300, 0x11FFF) if unicodedata.category(chr(code))[0] == "M")
_LETTER = rf"(?:[^\W_{UNSPACED}]|[{_MARKS}])"
_BEGINNING = rf"[^\W\d_{UNSPACED}]"
_WORD = re.compile(
    rf"\d+(?:[.,]\d+)*(?:{_BEGINNING}{_LETTER}*)?|[{UNSPACED}][{_MARKS}]*|{_LETTER}+(?:'(?!s\b){_BEGINNING}+)?"
)

# The same for folded ASCII text, several times as fast.
_ASCII_WORD = re.compile(
    r"[a-z][a-z0-9]*(?:'(?!s\b)[a-z]+)?|[0-9]+(?:[.,][0-9]+)*(?:[a-z][a-z0-9]*)?", re.ASCII
)
_STOP_WORDS = """
    about above after again all also am an and any are as at be because been before being below between both
    but by
    can could did do does doing down during each few for from further had has have having he her here hers
    herself
    him himself his how i if in into is it its itself just let may me might more most must my myself nor of
    off on
    once only or other our ours ourselves out over own per quite rather same shall she should so some such
    than that
    the their theirs them themselves then there these they this those through thus to too under until up upon
    us very
    via was we were what when where whether which while who whom whose why will with would yet you your yours
    yourself
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
    if isinstance(text, str):
        return _remembered_words(text) if len(text) <= _REMEMBERED_CHARS else _words(text)
    return _words(text.text) if text.text.isascii() else _indexed_words(text)


def _words(text: str) -> list[Word]:
    if not text.isascii():
        return _indexed_words(TextIndex(text))
    return [
        _new_word(Word, (match.group(), match.start(), match.end()))
        for match in _ASCII_WORD.finditer(text.translate(ASCII_FOLDS))
    ]


_new_word = tuple.__new__  # a third faster than the constructor


def _indexed_words(index: TextIndex) -> list[Word]:
    normal = index.normal
    is_ascii = normal.isascii()
    spans = [match.span() for match in (_ASCII_WORD if is_ascii else _WORD).finditer(normal)]
    offsets = index.originals([position for span in spans for position in span])
    if is_ascii:
        return [Word(normal[start:end], next(offsets), next(offsets)) for start, end in spans]
    return [
        Word(unicodedata.normalize("NFC", normal[start:end]), next(offsets), next(offsets))
        for start, end in spans
    ]


@lru_cache(maxsize=256)
def _remembered_words(text: str) -> tuple[Word, ...]:
    return tuple(_words(text))


def has_words(text: str) -> bool:
    """Return whether a text has a word; reads no further than the first one."""
    if text.isascii():
        return _ASCII_WORD.search(text.translate(ASCII_FOLDS)) is not None
    return bool(words(text))


def has_content(text: str) -> bool:
    """Return whether a text has a content word; reads no further than the first one."""
    if text.isascii():
        return any(is_content(match[0]) for match in _ASCII_WORD.finditer(text.translate(ASCII_FOLDS)))
    return bool(content_words(text))


def word_texts(text: str) -> Sequence[str]:
    """Return all normalised words of a text, without offsets; see `words`."""
    return _remembered_texts(text) if len(text) <= _REMEMBERED_CHARS else _texts(text)


def _texts(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.translate(ASCII_FOLDS))
    normal = TextIndex(text).normal
    if normal.isascii():
        return _ASCII_WORD.findall(normal)
    return [unicodedata.normalize("NFC", word) for word in _WORD.findall(normal)]


@lru_cache(maxsize=256)
def _remembered_texts(text: str) -> tuple[str, ...]:
    return tuple(_texts(text))


def is_content(word: str) -> bool:
    """Return whether a normalised word is a content word: no stop word, no single letter."""
    if word in STOP_WORDS:
        return False
    return len(word) > 1 or not word.isalpha() or is_unspaced(word)


def content_words(text: str | TextIndex) -> Sequence[Word]:
    """Return the content words of a text, including numbers; see `words` and `is_content`."""
    if isinstance(text, str):
        return _remembered_content(text) if len(text) <= _REMEMBERED_CHARS else _content(text)
    return _content(text.text) if text.text.isascii() else list(filter(_is_content, words(text)))


def _content(text: str) -> list[Word]:
    if not text.isascii():
        return list(filter(_is_content, words(text)))
    return [
        _new_word(Word, (word, match.start(), match.end()))
        for match in _ASCII_WORD.finditer(text.translate(ASCII_FOLDS))
        if (word := match.group()) not in STOP_WORDS and (len(word) > 1 or not word.isalpha())
    ]


def _is_content(word: Word) -> bool:
    return is_content(word.text)


@lru_cache(maxsize=256)
def _remembered_content(text: str) -> tuple[Word, ...]:
    return tuple(_content(text))


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
