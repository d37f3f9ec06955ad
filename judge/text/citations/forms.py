"""Find citations in an answer, in the forms that people and products write. Pure.

Recognised are page tags in brackets or parentheses with a word for page in several languages (`[Page 7]`,
`(p. 7)`, `[Seite 7]`), the same after "Evidence:" or "Source:" without brackets, `【7†source】`, names of the
context's documents (`[doc-3]`, `(source: handbook.pdf)`), and a custom pattern. If an answer has none of
these, bare numbers are recognised: `[1]`, `[^1]`, `[1, 2]`, `[1](address)`, `<sup>1</sup>`, a superscript
number after a sentence. Beside page tags, a number in brackets is a footnote.

Limits against hostile answers: 300 characters per tag, the first 1,000 pages of a range, numbers of more than
nine digits count as 999,999,999 (no such page), 20,000 pages over all ranges of an answer; beyond that each
range counts as its first page.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from judge.text.citations.citing import USUAL, Citation, Citing, normal_name
from judge.text.citations.pages import (
    ANYWHERE,
    DAGGER,
    FIRST,
    MAX_PAGE,
    MAX_TAG_CHARS,
    SOURCE_WORDS,
    bare_pages,
    folded,
    folded_with_ends,
    page_of,
    ranges_of,
)
from judge.text.index import safe_nfkc

MAX_RANGE_PAGES = 1000
"""Limit of pages in one range."""
MAX_ANSWER_PAGES = 20_000
"""Limit of pages over all ranges of one answer."""
MAX_UNREAD_CHARS = 40
"""A longer text in brackets is plain text, not an unrecognised citation."""
MAX_PATTERN_CHARS = 5000
"""Characters of a line that a custom pattern searches."""

OPEN, CLOSE = "[\uff3b\u3010", "]\uff3d\u3011"
_BRACKETED = re.compile(
    rf"[{re.escape(OPEN)}](?P<inside>[^{re.escape(OPEN + CLOSE)}\n]*)"
    rf"[{re.escape(CLOSE)}](?P<address>\([^()\s]{{1,500}}\))?"
)
_ROUND = re.compile(r"[(\uff08](?P<inside>[^()\uff08\uff09\n]{1,300})[)\uff09]")
_RAISED = re.compile(
    r"<(?P<name>sup|cite|ref|citation|source)\b[^<>\n]{0,100}>(?P<inside>[^<>\n]{1,100})</(?P=name)>|"
    r"(?<=[.,;:!?)\"'\u201d\u3002])(?P<digits>[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{1,3})"
)
_LEADS = (
    r"(?:see(?: also)?|cf\.?|according to|from|via|siehe|vgl\.?|laut|voir|selon|ver|v\u00e9ase|seg\u00fan"
    r"|bkz\.?|\u0627\u0646\u0638\u0631)"
)
_LEAD = re.compile(rf"[ ]?(?:(?:{SOURCE_WORDS}|{_LEADS})[ ]?[:=\uff1a]?[ ]?)", re.IGNORECASE)
_SOURCE_LEAD = re.compile(rf"[ ]?{SOURCE_WORDS}[ ]?[:=\uff1a]", re.IGNORECASE)
_UNBRACKETED = re.compile(
    rf"(?<![^\W_])[*_]{{0,2}}(?P<word>{SOURCE_WORDS})[*_]{{0,2}}"
    rf"[ \t]?[:\uff1a][*_]{{0,2}}[ \t]*+(?P<rest>[^\n\[\]()\u3010]{{1,300}})",
    re.IGNORECASE,
)
_PARTS = re.compile(r"[,;|\u060c]")
# The most common form; others are parsed more carefully.
_PLAIN_TAG = re.compile(r"[Pp]age[ -]([0-9]{1,9})")


class CitationReader:
    """Parses the citations of one answer line by line, within the limit of pages.

    Args:
        citing: Citation syntax.
    """

    def __init__(self, citing: Citing = USUAL) -> None:
        self._citing = citing
        self._budget = MAX_ANSWER_PAGES

    def explicit(self, line: str) -> list[Citation]:
        """Return the explicit citations of a line, in order."""
        found = [
            *self._bracketed(line),
            *self._round(line),
            *self._unbracketed(line),
            *self._of_pattern(line),
        ]
        return _apart(found)

    def bare(self, line: str) -> list[Citation]:
        """Return the bare numbers of a line, which are citations if an answer has no others."""
        found = []
        for match in _BRACKETED.finditer(line):
            pages = bare_pages(match["inside"][:MAX_TAG_CHARS])
            if pages:
                found.append(Citation(match.start(), match.end(), pages))
        for match in _RAISED.finditer(line):
            inside = match["inside"] if match["digits"] is None else safe_nfkc(match["digits"])
            pages = bare_pages(inside)
            if pages:
                found.append(Citation(match.start(), match.end(), pages))
        return _apart(found)

    def unread(self, line: str, taken: Sequence[Citation]) -> Iterator[str]:
        """Yield unrecognised citations of a line.

        Args:
            line: The line.
            taken: The recognised citations.
        """
        ends = [one.end for one in taken]
        for pattern in (_BRACKETED, _ROUND):
            for match in pattern.finditer(line):
                following = bisect_right(ends, match.start())
                if following < len(taken) and taken[following].start < match.end():
                    continue
                inside = match["inside"][:MAX_TAG_CHARS]
                numbered = (
                    pattern is _BRACKETED
                    and match["address"] is None
                    and 0 < len(inside) <= MAX_UNREAD_CHARS
                    and any(map(str.isdigit, inside))
                    and not line[match.end() : match.end() + 1].isalnum()
                    and not bare_pages(inside)
                )
                if numbered or _SOURCE_LEAD.match(inside):
                    yield match[0][:MAX_TAG_CHARS]

    def _bracketed(self, line: str) -> Iterator[Citation]:
        for match in _BRACKETED.finditer(line):
            inside = match["inside"]
            pages = self._pages(inside[:MAX_TAG_CHARS], anywhere=len(inside) <= MAX_TAG_CHARS // 4)
            if pages:
                end = match.end() if match["address"] is None else match.end("address")
                yield Citation(match.start(), end, pages)

    def _round(self, line: str) -> Iterator[Citation]:
        for match in _ROUND.finditer(line):
            inside = match["inside"]
            pages = self._whole(inside)
            if pages:
                yield Citation(match.start(), match.end(), pages)
        for match in _RAISED.finditer(line):
            if match["inside"] is not None:
                pages = self._pages(match["inside"], anywhere=False)
                if pages:
                    yield Citation(match.start(), match.end(), pages)

    def _unbracketed(self, line: str) -> Iterator[Citation]:
        for match in _UNBRACKETED.finditer(line):
            rest = match["rest"]
            text, ends = folded_with_ends(rest)
            pages, end = self._listed(text, pages_only=True)
            if pages:
                yield Citation(match.start(), match.start("rest") + ends[end - 1], pages)
                continue
            named: dict[int, None] = {}
            position = 0
            for part in _PARTS.split(rest):
                number = self._citing.numbers.get(normal_name(part.strip(" \t.*_\"'`")))
                if number is None:
                    break
                named[number] = None
                position += len(part) + 1
            if named:
                yield Citation(match.start(), match.start("rest") + min(position, len(rest)), tuple(named))

    def _of_pattern(self, line: str) -> Iterator[Citation]:
        pattern = self._citing.compiled
        if pattern is None:
            return
        for match in pattern.finditer(line[:MAX_PATTERN_CHARS]):
            said = next((group for group in match.groups() if group), match[0])
            pages = self._pages(said[:MAX_TAG_CHARS], anywhere=True) or bare_pages(said[:MAX_TAG_CHARS])
            if pages and match.end() > match.start():
                yield Citation(match.start(), match.end(), pages)

    def _pages(self, inside: str, *, anywhere: bool) -> tuple[int, ...]:
        """Return the pages in a bracketed text; empty if it is no tag."""
        plain = _PLAIN_TAG.fullmatch(inside)
        if plain is not None:
            return (int(plain[1]),)
        named = self._named(inside)
        if named:
            return named
        text = folded(inside)
        dagger = DAGGER.match(text)
        if dagger is not None:
            named = self._named(text[dagger.end() :])
            return named or (page_of(dagger["number"]),)
        lead = _LEAD.match(text)
        begin = lead.end() if lead is not None and FIRST.match(text, lead.end()) else 0
        pages, _ = self._listed(text, begin=begin)
        if not pages and lead is not None:
            pages = bare_pages(text[lead.end() :])
        if not pages and anywhere:
            match = ANYWHERE.search(text)
            pages = () if match is None else (page_of(match["number"]),)
        return pages

    def _whole(self, inside: str) -> tuple[int, ...]:
        """Return the pages of a parenthesised text, which must be only a citation."""
        named = self._named(inside)
        if named:
            return named
        text = folded(inside)
        lead = _LEAD.match(text)
        begin = lead.end() if lead is not None and FIRST.match(text, lead.end()) else 0
        pages, end = self._listed(text, begin=begin)
        if pages and (text[end:].strip() == "" or text[end:].lstrip()[0] in ",:;"):
            return pages
        if lead is not None and _SOURCE_LEAD.match(text):
            return bare_pages(text[lead.end() :])
        return ()

    def _named(self, inside: str) -> tuple[int, ...]:
        """Return the documents that a tag names, with or without "source:"."""
        if not self._citing.numbers:
            return ()
        whole = self._citing.numbers.get(normal_name(inside))
        if whole is not None:
            return (whole,)
        lead = _SOURCE_LEAD.match(inside)
        rest = inside if lead is None else inside[lead.end() :]
        names = (normal_name(part.strip(" \t\"'`<>#*")) for part in _PARTS.split(rest))
        return tuple(
            dict.fromkeys(self._citing.numbers[name] for name in names if name in self._citing.numbers)
        )

    def _listed(self, text: str, *, pages_only: bool = False, begin: int = 0) -> tuple[tuple[int, ...], int]:
        """Return the pages of a list at an offset, and its end."""
        ranges, position = ranges_of(text, pages_only, begin)
        pages: dict[int, None] = {}
        for low, high in ranges:
            width = max(1, min(high - low + 1, MAX_RANGE_PAGES, self._budget - len(pages)))
            pages.update(dict.fromkeys(range(low, min(low + width, MAX_PAGE + 1))))
        self._budget -= max(len(pages) - 1, 0)
        return tuple(pages), position


def _apart(found: list[Citation]) -> list[Citation]:
    """Return citations in order; of overlapping ones the first, with equal starts the longest."""
    kept: list[Citation] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
        elif one.end > kept[-1].end and not kept[-1].pages:
            kept[-1] = one
    return kept
