"""Parse a tag's pages: lists, ranges and bare numbers after words for page or source. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from judge.text.index import safe_nfkc

MAX_PAGE = 999_999_999
"""Value of longer numbers."""
MAX_TAG_CHARS = 300
"""Characters of a tag that are parsed."""

PAGE_WORDS = (
    r"(?:pages?|pgs?|seiten?|p[a\u00e1]ginas?|p[a\u00e1]gs?|sayfa(?:lar)?|str(?:ona)?|pagin[ae]"
    r"|\u0441\u0442\u0440(?:\u0430\u043d\u0438\u0446\u0430)?"
    r"|\u0627?\u0644?\u0635\u0641\u062d\u0629|\u0635\u0641\u062d\u0627\u062a|\u30da\u30fc\u30b8|\u7b2c)"
)
_SHORT = r"(?:pp?|ss?|f|\u0635)\."
SOURCE_WORDS = (
    r"(?:sources?|doc(?:ument)?s?|chunks?|passages?|snippets?|references?|refs?|citations?|cite|evidence"
    r"|quellen?|dokumente?|belege?|nachweise?"
    r"|fuentes?|documentos?|pruebas?|evidencias?|fonti?|preuves?"
    r"|r\u00e9f\u00e9rences?|kaynak(?:lar)?|belge(?:ler)?|kan\u0131t(?:lar)?"
    r"|\u0627?\u0644?\u0645\u0635\u062f\u0631|\u0627?\u0644?\u0645\u0631\u062c\u0639"
    r"|\u0627?\u0644?\u062f\u0644\u064a\u0644|\u0627?\u0644?\u0645\u0635\u0627\u062f\u0631)"
)
_NUMBERED = rf"(?:(?:{PAGE_WORDS}\.?|{_SHORT}|{SOURCE_WORDS})[ ]?[-:#_]?[ ]?)"
_PAGE = rf"(?:{PAGE_WORDS}\.?|{_SHORT})[ ]?[-:#]?[ ]?"
FIRST = re.compile(rf"[ ]?{_NUMBERED}(?:no\.?[ ]?|{_PAGE})?(?P<number>\d+)(?:\b|(?=\u9875))")
_PAGE_ONLY = re.compile(rf"[ ]?{_PAGE}(?:no\.?[ ]?)?(?P<number>\d+)\b")
_RANGE_END = re.compile(
    rf"[ ]?(?:-|to\b|until\b|through\b|bis\b|a\b|\u00e0)[ ]?(?:{_NUMBERED})?(?P<number>\d+)\b"
)
_NEXT = re.compile(
    rf"[ ]?(?:[,;/&+\u060c]|and\b|or\b|und\b|et\b|y\b|ve\b|\u0648)[ ]?"
    rf"(?:(?:and\b|&)[ ]?)?(?:{_NUMBERED})?(?P<number>\d+)\b"
)
ANYWHERE = re.compile(rf"(?<![^\W_]){PAGE_WORDS}\.?[ ]?[-:#]?[ ]?(?P<number>\d+)\b")
_BARE = re.compile(r"[ ]?[\^#]?(?P<number>\d{1,3})(?!\d)\^?")
_BARE_NEXT = re.compile(r"[ ]?(?P<sign>[,;-])[ ]?[\^#]?(?P<number>\d{1,3})(?!\d)\^?")
DAGGER = re.compile(r"[ ]?(?:\d+:)?(?P<number>\d+)\u2020")
DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))


@lru_cache(maxsize=256)
def ranges_of(text: str, pages_only: bool, begin: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the ranges of a list of pages; cached, because an answer repeats its tags."""
    found: list[tuple[int, int]] = []
    position = begin
    match = (_PAGE_ONLY if pages_only else FIRST).match(text, begin)
    while match is not None:
        low = high = page_of(match["number"])
        position = match.end()
        end = _RANGE_END.match(text, position)
        if end is not None:
            low, high = sorted((low, page_of(end["number"])))
            position = end.end()
        found.append((low, high))
        match = _NEXT.match(text, position)
    return tuple(found), position


@lru_cache(maxsize=256)
def bare_pages(inside: str) -> tuple[int, ...]:
    """Return the numbers of `1`, `^1`, `^1^`, `#1`, `1, 2` or `1-3`; empty for anything else."""
    text = folded(inside).strip()
    match = _BARE.match(text)
    if match is None:
        return ()
    pages = {int(match["number"]): None}
    position = match.end()
    while (following := _BARE_NEXT.match(text, position)) is not None:
        number, last = int(following["number"]), next(reversed(pages))
        pages.update(dict.fromkeys(range(last, number + 1) if following["sign"] == "-" else (number,)))
        position = following.end()
    return tuple(pages) if position == len(text) else ()


def folded(inside: str) -> str:
    """Return a tag's text in lower case, with plain dashes and single blanks."""
    text = safe_nfkc(inside[:MAX_TAG_CHARS])[: 2 * MAX_TAG_CHARS]
    return " ".join(text.translate(DASHES).lower().split())


def folded_with_ends(text: str) -> tuple[str, list[int]]:
    """Return a text folded character by character, with each character's end in the original."""
    folded: list[str] = []
    ends: list[int] = []
    for place, char in enumerate(text):
        one = safe_nfkc(char).translate(DASHES).lower()[:4]
        if one.isspace():
            one = " "
        if one == " " and folded[-1:] == [" "]:
            ends[-1] = place + 1
            continue
        folded += one
        ends += [place + 1] * len(one)
    return "".join(folded), ends


def page_of(digits: str) -> int:
    """Return the page number of digits; `MAX_PAGE` for too many."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= 9 else MAX_PAGE
