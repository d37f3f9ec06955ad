"""Where an answer names its sources, in the forms that people and products write. Pure.

Read are page tags with brackets or round brackets and a word for page in several languages (`[Page 7]`,
`(p. 7)`, `[Seite 7]`), the same after "Evidence:" or "Source:" without brackets, `【7†source】`, names of the
context's documents (`[doc-3]`, `(source: handbook.pdf)`), and a pattern of your own. Where an answer has
none of these, bare numbers are read: `[1]`, `[^1]`, `[1, 2]`, `[1](address)`, `<sup>1</sup>`, a raised number
after a sentence. A number in brackets beside page tags is a footnote of something else.

What a hostile answer could blow up is bounded: of a tag 300 characters are read, a range names at most its
first 1,000 pages, a number of more than nine digits is read as 999,999,999 (no such page), and an answer's
ranges together name at most 20,000 pages; beyond that each range is read as its first page alone.
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
"""A wider range is cut to its first pages."""
MAX_ANSWER_PAGES = 20_000
"""Pages that all ranges of one answer may name together."""
MAX_UNREAD_CHARS = 40
"""A longer text in brackets is not a citation that could not be read, but a text."""
MAX_PATTERN_CHARS = 5000
"""Of a line, so much is searched with a pattern of your own."""

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
    rf"[ \t]?[:\uff1a][*_]{{0,2}}[ \t]*(?P<rest>[^\n\[\]()\u3010]{{1,300}})",
    re.IGNORECASE,
)
_PARTS = re.compile(r"[,;|\u060c]")
# How nearly all of them are written; the rest is read with more care.
_PLAIN_TAG = re.compile(r"[Pp]age[ -]([0-9]{1,9})")


class CitationReader:
    """Reads one answer, line by line, and sees to it that it names no more pages than it may.

    Args:
        citing: How it may cite.
    """

    def __init__(self, citing: Citing = USUAL) -> None:
        self._citing = citing
        self._budget = MAX_ANSWER_PAGES

    def explicit(self, line: str) -> list[Citation]:
        """The citations of a line that say what they are, in order."""
        found = [
            *self._bracketed(line),
            *self._round(line),
            *self._unbracketed(line),
            *self._of_pattern(line),
        ]
        return _apart(found)

    def bare(self, line: str) -> list[Citation]:
        """The bare numbers of a line that are citations where an answer has no others."""
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
        """What looks like a citation in a line and is none that is understood.

        Args:
            line: The line.
            taken: What is understood there.
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
        """The pages that the text between two brackets names; none where it is not a tag."""
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
        """The pages of a text in round brackets, which must be a citation and nothing else."""
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
        """The documents that a tag names, after "source:" or not."""
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
        """The pages of a list that begins at a place, and where it ends."""
        ranges, position = ranges_of(text, pages_only, begin)
        pages: dict[int, None] = {}
        for low, high in ranges:
            width = max(1, min(high - low + 1, MAX_RANGE_PAGES, self._budget - len(pages)))
            pages.update(dict.fromkeys(range(low, min(low + width, MAX_PAGE + 1))))
        self._budget -= max(len(pages) - 1, 0)
        return tuple(pages), position


def _apart(found: list[Citation]) -> list[Citation]:
    """Citations in order; of those that overlap the first, and of those that begin together the longest."""
    kept: list[Citation] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
        elif one.end > kept[-1].end and not kept[-1].pages:
            kept[-1] = one
    return kept
