"""Tokens of a text without markup, with offsets. Pure."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator

from judge.text.index import UNSPACED

_ENTITY = r"&(?:[a-zA-Z][a-zA-Z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});"
_MARKUP = re.compile(
    rf"(?P<entity>{_ENTITY})"
    r"|</?[a-zA-Z][^<>]{0,300}>"
    # The address after a link's text.
    r"|\]\([^()\n]{0,500}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)"
    r"|\[\^[\w-]{1,40}\]|\[\d{1,3}(?:\s?[,;\u2013-]\s?\d{1,3}){0,9}\]|\u3010[^\u3010\u3011\n]{1,60}\u3011"
    r"|[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{1,3}"
)
LIST_MARK = re.compile(r"^[ \t>|*+-]{0,20}(?P<mark>\d{1,3}[.)])(?=\s)", re.MULTILINE)
"""The number of a list's item."""

# Ignored marks: accents of Latin, Greek and Cyrillic, Hebrew points, Arabic vowel signs.
_ACCENTS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed"
_ACCENT = re.compile(f"[{_ACCENTS}]+")
_MARKS = "".join(char for code in range(0x300, 0x11FFF) if unicodedata.category(char := chr(code))[0] == "M")
_TOKEN = re.compile(
    rf"[0-9]+(?:[.,][0-9]+)*|[^\W0-9_{UNSPACED}](?:[^\W0-9_{UNSPACED}]|[{_MARKS}])*|[{UNSPACED}][{_MARKS}]*"
)
_ASCII_TOKEN = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[a-z]+")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")


def without_markup(text: str, *, keep_marks: bool) -> str:
    """Return the text with its markup blanked out; offsets stay the same."""
    cleaned = (
        _MARKUP.sub(_blank, text) if any(sign in text for sign in "&<[\u3010") or not text.isascii() else text
    )
    if keep_marks:
        return cleaned
    return LIST_MARK.sub(lambda match: " " * len(match[0]), cleaned)


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    if match["entity"] is None:
        return " " * len(found)
    decoded = html.unescape(found)
    return decoded.ljust(len(found)) if len(decoded) == 1 else " " * len(found)


def tokens_of(normal: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and letters of each word and number of a text in the index's normal form."""
    pattern = _ASCII_TOKEN if normal.isascii() else _TOKEN
    for match in pattern.finditer(normal):
        token = match[0]
        if not token.isascii():
            token = _ACCENT.sub("", token)
        elif "," in token and _GROUPED.fullmatch(token):
            token = token.replace(",", "")
        if token:
            yield match.start(), match.end(), token
