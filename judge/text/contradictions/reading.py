"""Tokenise a sentence into folded words, numbers and signs. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import dropwhile, islice
from typing import Literal, NamedTuple

from judge.text.index import UNSPACED

MAX_CHARS = 2000
"""Longer texts are not compared."""

Kind = Literal["word", "number", "date", "time", "sign"]

_DIGITS = {
    code: str(unicodedata.decimal(chr(code)))
    for code in range(0x80, 0x1FBFA)
    if unicodedata.category(chr(code)) == "Nd"
}
_FOLDS = str.maketrans(
    _DIGITS
    | dict.fromkeys(map(ord, "\u2018\u2019\u02bc\u0060\u00b4"), "'")
    | dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-")
    | dict.fromkeys(map(ord, "\u00a0\u202f\u2009"), "\u00a0")
    | {0x66B: ".", 0x66C: ",", 0x66A: "%", 0x60C: ",", 0x61B: ";", 0x61F: "?", 0x649: "\u064a",
        0x629: "\u0647", 0x131: "i"}
)  # fmt: skip
_UNSEEN = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u00ad\u200b-\u200f\u2060\ufeff]+"
)
# Ignored: footnotes, evidence tags, emphasis, list numbers.
_ASIDE = re.compile(
    r"\[\^?[\d,; -]{1,20}\]|\u3010[^\u3010\u3011]{1,60}\u3011|[*_`]{1,3}|^\s{0,9}(?:[-*+\u2022]|\d{1,2}[.)])\s"  # noqa: E501
)


_TOKENS = (
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2}(?!\d)|\d{1,2}(?P<point>[./])\d{1,2}(?P=point)(?:\d{4}|\d{2})(?!\d))"
    r"|(?P<time>\d{1,2}:\d{2}(?!\d))"
    r"|(?P<number>\d{1,3}(?:[\u00a0' ]\d{3})+(?!\d)|\d+(?:[.,]\d+)*)"
    rf"|(?P<word>LETTER+(?:-?\d\w*|(?:'LETTER+)*[\u00b2\u00b3]?)|[{UNSPACED}])"
    r"|(?P<sign>[^\w\s])"
)
_TOKEN = re.compile(_TOKENS.replace("LETTER", rf"[^\W\d_{UNSPACED}]"))
_ASCII_TOKEN = re.compile(_TOKENS.replace("LETTER", "[a-z]"), re.ASCII)  # twice as fast


class Token(NamedTuple):
    """A word, a number or a sign, folded."""

    kind: Kind
    text: str
    glued: bool
    """Whether no blank precedes it."""


_new_token = tuple.__new__  # a third faster than the constructor, which ends there, too


def fold(text: str) -> str:
    """Return a text in lower case without accents, with ASCII digits and plain quotes and dashes."""
    if text.isascii():
        return text.lower().replace("`", "'")
    folded = unicodedata.normalize("NFD", text.casefold()).translate(_FOLDS)
    return _UNSEEN.sub("", folded)


@lru_cache(maxsize=64)
def tokens(text: str) -> Sequence[Token]:
    """Tokenise a sentence; empty if the text is too long."""
    return () if len(text) > MAX_CHARS else tuple(_each_token(text))


def opening(text: str) -> Sequence[Token]:
    """Return the first token that is not a sign, and the one after it."""
    found = dropwhile(lambda token: token.kind == "sign", _each_token(text))
    return tuple(islice(found, 2))


def _each_token(text: str) -> Iterator[Token]:
    folded = _ASIDE.sub(" ", fold(text))
    last = 0
    for match in (_ASCII_TOKEN if folded.isascii() else _TOKEN).finditer(folded):
        kind = match.lastgroup
        start, end = match.span()
        yield _new_token(Token, ("date" if kind == "point" else kind, match[0], start == last))
        last = end
