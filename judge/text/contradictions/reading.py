"""Tokenise a sentence into folded words, numbers and signs. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

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
_LETTER = rf"[^\W\d_{UNSPACED}]"
_TOKEN = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2}(?!\d)|\d{1,2}(?P<point>[./])\d{1,2}(?P=point)(?:\d{4}|\d{2})(?!\d))"
    r"|(?P<time>\d{1,2}:\d{2}(?!\d))"
    r"|(?P<number>\d{1,3}(?:[\u00a0' ]\d{3})+(?!\d)|\d+(?:[.,]\d+)*)"
    rf"|(?P<word>{_LETTER}+-\d\w*|{_LETTER}+\d\w*|{_LETTER}+(?:'{_LETTER}+)*[\u00b2\u00b3]?|[{UNSPACED}])"
    r"|(?P<sign>[^\w\s])"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a number or a sign, folded."""

    kind: Kind
    text: str
    glued: bool
    """Whether no blank precedes it."""


def fold(text: str) -> str:
    """Return a text in lower case without accents, with ASCII digits and plain quotes and dashes."""
    folded = unicodedata.normalize("NFD", text.casefold()).translate(_FOLDS)
    return _UNSEEN.sub("", folded)


@lru_cache(maxsize=64)
def tokens(text: str) -> Sequence[Token]:
    """Tokenise a sentence; empty if the text is too long."""
    if len(text) > MAX_CHARS:
        return ()
    folded = _ASIDE.sub(" ", fold(text))
    found = []
    end = 0
    for match in _TOKEN.finditer(folded):
        kind = match.lastgroup
        if kind == "point":
            kind = "date"
        found.append(Token(kind, match[0], match.start() == end))  # type: ignore[arg-type]
        end = match.end()
    return tuple(found)
