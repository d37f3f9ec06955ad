"""A text as a reader sees it, in plain characters, and where each of them stands in the text. Pure."""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from functools import lru_cache
from typing import Final

_DASHES: Final = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63\uff0d", "-")
_STOPS: Final = dict.fromkeys("\u3002\uff61\u2024", ".")
# Letters that no reader tells from a Latin one; in the order of the Latin ones after them.
_ALIKE: Final = dict(
    zip(
        "авеорсухіјѕԁһԛԝАВЕКМНОРСТХУІЈЅԚԜοΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
        "abeopcyxijsdhqwABEKMHOPCTXYIJSQWoABEZHIKMNOPTYX",
        strict=True,
    )
)
# Marks that are put over, under or around a character and stay out of words of the alphabets that need none.
_MARK: Final = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u0610-\u061a\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)


class Seen:
    """A text without marks over its characters, each of these in its plain form.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        """What a reader sees; as long as the text, less its marks."""
        self._marks: array[int] | None = None
        if not text.isascii():
            # Of each mark, how many characters that are none come before it.
            self._marks = array("I", (place.start() - n for n, place in enumerate(_MARK.finditer(text))))
            self.text = text.translate(_PLAIN)

    def place(self, start: int, stop: int) -> tuple[int, int]:
        """Where characters stand in the text itself, with the marks on them; start and end (exclusive)."""
        if not self._marks:
            return start, stop
        return start + bisect_right(self._marks, start), stop + bisect_right(self._marks, stop)


class _Plain(dict[int, str]):
    """What stands for a character; worked out when it is first seen."""

    def __missing__(self, code: int) -> str:
        char = _plain_char(chr(code))
        if len(self) < 10_000:
            self[code] = char
        return char


_PLAIN: Final = _Plain()


@lru_cache(maxsize=1024)
def _plain_char(char: str) -> str:
    """The character's plain form: no character for a mark, one for all others."""
    if _MARK.match(char):
        return ""
    known = _DASHES.get(char) or _STOPS.get(char) or _ALIKE.get(char)
    if known is not None:
        return known
    if char.isspace():
        return char if char in "\t\n" else " "
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    folded = _MARK.sub("", unicodedata.normalize("NFKD", char))
    return folded if len(folded) == 1 and folded.isascii() else char
