"""Find citations in an answer, and the claims that they end. Pure.

Recognised are page tags in brackets or parentheses with a word for page or source in several languages
(`[Page 7]`, `(p. 7)`, `[Seite 7]`, `[source 3]`), the same after "Evidence:" without brackets,
`\u30107\u2020source\u3011`, names of the context's documents (`[doc-3]`, `(source: handbook.pdf)`), and a
custom
pattern. If an answer has none of these, bare numbers are recognised: `[1]`, `[^1]`, `[1, 2]`, `[1](address)`,
`<sup>1</sup>`, a superscript number after a sentence. Beside page tags, a number in brackets is a footnote.

A line is first written in plain characters of the same length (full-width forms, dashes, brackets), so
that one
grammar reads it and every offset is one of the answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Final

import re2

from judge.text.languages import any_of
from judge.text.normal import PLAIN_FORMS

MAX_PAGE: Final = 999_999_999
"""Value of longer numbers: no such page."""
MAX_TAG_CHARS: Final = 300
MAX_RANGE_PAGES: Final = 1000
MAX_ANSWER_PAGES: Final = 20_000
"""Limit of pages over all ranges of one answer; beyond it each range counts as its first page."""
MAX_NAME_CHARS: Final = 200
MAX_PATTERN_CHARS: Final = 500
MAX_UNREAD: Final = 20
_MAX_UNREAD_CHARS = 40
_MAX_HEADING_CHARS = 60
_LEAD_IN_CHARS = 24

_PAGE, _SOURCE = any_of("pages"), any_of("sources")
_SEE, _AND, _TO = any_of("leads"), any_of("lists"), any_of("ranges")
_GAP = r"[^\S\n]{0,3}"
_PAGE_WORD = rf"{_PAGE}\.?{_GAP}[-:#]?{_GAP}(?:no\.?{_GAP})?"
_WORD = rf"(?:{_SOURCE}{_GAP}[-:#_]?{_GAP}(?:no\.?{_GAP})?(?:{_PAGE_WORD})?|{_PAGE_WORD})"
_END = r"(?:(?=\u9875)|(?![^\W_]))"
# A page or a range, with or without a word before it.
_ITEM = re.compile(
    rf"{_GAP}(?P<word>{_WORD})?[\^#]?(?P<low>\d++){_END}\^?"
    rf"(?:{_GAP}(?:-|{_TO}\b){_GAP}(?:{_WORD})?(?P<high>\d++){_END})?",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(rf"{_GAP}(?:[,;/&+]|{_AND}\b){_GAP}(?:(?:{_AND}\b|&){_GAP})?", re.IGNORECASE)
_WITH_WORD = re.compile(rf"(?<![^\W_])(?={_PAGE_WORD}\d)", re.IGNORECASE)
_BEFORE_ITEM = re.compile(rf"{_GAP}(?:(?:{_SEE})\.?[ :=]{_GAP}|\d+:(?=\d+\u2020))?", re.IGNORECASE)
_SOURCE_LEAD = re.compile(rf"{_GAP}{_SOURCE}{_GAP}[:=]", re.IGNORECASE)
_DAGGER = re.compile(r"\s?(?:\d+:)?(?P<number>\d+)\u2020(?P<name>.*)")
_PARTS = re.compile(r"[,;|]")
_NUMBERS_ONLY = re.compile(r"[\s\d^#,;-]*")
_LONG_NUMBER = re.compile(r"\d{4,}")
_TAG = re.compile(
    r"\[(?P<square>[^\[\]\n]*)\](?P<address>\([^()\s]{1,500}\))?"
    r"|\((?P<round>[^()\[\]\n]{1,300})\)"
    r"|<(?P<element>sup|cite|ref|citation|source)\b[^<>\n]{0,100}>(?P<inside>[^<>\n]{1,100})</(?P=element)>"
    r"|(?<=[.,;:!?)\"'\u201d\u3002])(?P<digits>[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{1,3})"
    rf"|(?<![^\W_])[*_]{{0,2}}{_SOURCE}[*_]{{0,2}}{_GAP}:[*_]{{0,2}}[ \t]{{0,9}}"
    r"(?=(?P<rest>[^\n\[\]()]{1,300}))",
    re.IGNORECASE,
)
# Characters allowed between tags of one group, and between a claim and its tags.
_BETWEEN = re.compile(rf"(?:[\s,;&.:(){{}}\u3001*_-]|\b{_AND}\b|\b{_SOURCE}\b)*", re.IGNORECASE)
# Without a colon a lead-in must be in brackets or its own sentence: "There is no evidence [Page 2]" is text.
_LEAD_IN = re.compile(
    rf"(?:[(*_]*\b{_SOURCE}\s?[*_]*:|(?:\(\s?|(?<=[.!?]\s)|(?<=\n)){_SOURCE}|\(\s?{_SEE}\.?)[*_\s]*\Z",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"(?:[-*+\u2022]|\d{1,2}[.)])\s+")
# The list of sources after an answer, and its footnotes, are neither claims nor citations.
_HEADING = re.compile(rf"[\W_]*(?:{_SOURCE}|{any_of('headings')})[\W_]*", re.IGNORECASE)
_FOOTNOTE = re.compile(r"[ \t]{0,8}(?:[-*+][ \t]{1,4})?\[\^?[\w-]{1,40}\][ \t]?:[ \t]")
_LISTED = re.compile(r"[ \t]{0,8}(?:[-*+\u2022]|\d{1,3}[.)]|[\[(]|https?://)")
_ALPHANUMERIC = re.compile(r"[^\W_]")
_KEY = re.compile(r"\W*(?:page|p|pg)?[\W_]*(\d+)(?:\W*| \(.*)", re.IGNORECASE | re.DOTALL)
_NAME_BLANKS = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of an answer, `answer[start:end]` without tags and list mark, and the pages that it cites."""

    text: str
    start: int
    end: int
    pages: tuple[int, ...]


@dataclass(frozen=True)
class Citing:
    """Citation syntax beyond the usual forms.

    Args:
        names: Normalised names of the context's documents (`normal_name`) with their numbers.
        pattern: A regular expression whose first group, or whole match, is a page's number or a document's
        name.
    """

    names: tuple[tuple[str, int], ...] = ()
    pattern: str | None = None

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Page numbers by document name."""
        return dict(self.names)

    @cached_property
    def compiled(self) -> Any:
        """The compiled pattern, which matches in linear time."""
        return None if self.pattern is None else compile_pattern(self.pattern)


USUAL: Final = Citing()
"""Only the usual forms."""


def compile_pattern(pattern: str) -> Any:
    """Compile a custom citation pattern, with RE2, so that its time is linear in the answer.

    Raises:
        ValueError: It is longer than 500 characters, or no expression that RE2 supports.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(
            f"citation_pattern must be at most {MAX_PATTERN_CHARS} characters, got {len(pattern)}; shorten it"
        )
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(
            f"citation_pattern is not a regular expression of RE2: {error}; correct it"
        ) from error


def normal_name(name: str) -> str:
    """Return a document's name normalised for comparison: lower case, hyphens for blanks and underscores."""
    folded = unicodedata.normalize("NFKC", name[:MAX_NAME_CHARS]).translate(PLAIN_FORMS).casefold().strip()
    return _NAME_BLANKS.sub("-", folded[:MAX_NAME_CHARS])


def page_key(page: int) -> str:
    """Return the canonical name of a page: `Page-7`."""
    return f"Page-{page}"


@lru_cache(maxsize=1024)
def page_number(key: str) -> int | None:
    """Return the number in a page's name (`Page-7`, `page 7`, `p. 7`, `7`); None if it is no page's name."""
    match = _KEY.fullmatch(key.strip()[:64])
    number = MAX_PAGE if match is None else _page(match[1])
    return number if number < MAX_PAGE else None


def tagged_claims(answer: str, citing: Citing = USUAL) -> tuple[Claim, ...]:
    """Return the claims of an answer that end with a citation, in order.

    A tag ends the claim before it, so a line may have several claims. A line with only a tag belongs to the
    text line before it, and so does a tag at the start of a line with further tags; a single tag at the start
    belongs to its line. A tag without text is dropped.
    """
    return tuple(claim for claim in _read(answer, citing).segments if claim.pages)


def untagged_segments(answer: str, citing: Citing = USUAL) -> tuple[Claim, ...]:
    """Return the parts of an answer without a tag, line by line, whether or not they make a claim."""
    return tuple(claim for claim in _read(answer, citing).segments if not claim.pages)


def cited_pages(answer: str, citing: Citing = USUAL) -> tuple[int, ...]:
    """Return all pages that the answer's claims cite, in order of mention, without duplicates."""
    return tuple(dict.fromkeys(page for claim in _read(answer, citing).segments for page in claim.pages))


def unread_citations(answer: str, citing: Citing = USUAL) -> tuple[str, ...]:
    """Return the first few unrecognised citations."""
    return _read(answer, citing).unread


def without_tags(answer: str, citing: Citing = USUAL) -> str:
    """Return the answer with its tags and their lead-in ("Evidence:") blanked out; offsets stay the same."""
    parts: list[str] = []
    end = 0
    for start, stop in _read(answer, citing).tags:
        parts += [answer[end:start], " " * (stop - start)]
        end = max(end, stop)
    return "".join((*parts, answer[end:]))


@dataclass(slots=True)
class _Stretch:
    """A tag, or a possible claim; its pages are a dictionary for order and fast lookup."""

    start: int
    end: int
    pages: dict[int, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reading:
    segments: tuple[Claim, ...]
    tags: tuple[tuple[int, int], ...]
    unread: tuple[str, ...]


@lru_cache(maxsize=8)
def _read(answer: str, citing: Citing) -> _Reading:
    """Parse an answer; cached, because the same answer is parsed several times in a row."""
    reader = _TagReader(citing)
    plain = answer.translate(PLAIN_FORMS)
    lines, listed = _lines(plain)
    tags = [reader.tags(line, bare=False) for _, line in lines]
    if not any(tags):
        tags = [reader.tags(line, bare=True) for _, line in lines]
    found: list[_Stretch] = []
    places: list[tuple[int, int]] = []
    for (offset, line), taken in zip(lines, tags, strict=True):
        groups: list[_Stretch] = []
        for tag in taken:
            places.append(_with_lead_in(plain, offset, tag))
            if groups and _BETWEEN.fullmatch(line, groups[-1].end, tag.start):
                groups[-1].end = tag.end
                groups[-1].pages.update(tag.pages)
            else:
                groups.append(_Stretch(tag.start, tag.end, dict(tag.pages)))
        _read_line(found, plain, offset, line, groups)
    if found and not any(tags):
        # Only the list at the end names the sources.
        for line in listed:
            for tag in reader.tags(line, bare=False) or reader.tags(line, bare=True):
                found[-1].pages.update(tag.pages)
    unread = (
        answer[offset + start : offset + min(end, start + MAX_TAG_CHARS)]
        for (offset, line), taken in zip(lines, tags, strict=True)
        for start, end in _unread(line, taken)
    )
    return _Reading(
        tuple(Claim(answer[one.start : one.end], one.start, one.end, tuple(one.pages)) for one in found),
        tuple(places),
        tuple(dict.fromkeys(islice(unread, MAX_UNREAD))),
    )


class _TagReader:
    """Reads the tags of one answer's lines, within the limit of pages."""

    def __init__(self, citing: Citing) -> None:
        self._citing = citing
        self._budget = MAX_ANSWER_PAGES

    def tags(self, line: str, *, bare: bool) -> list[_Stretch]:
        """Return the tags of a plain line in order: explicit ones, or bare numbers."""
        found = [] if bare else self._of_pattern(line)
        for match in _TAG.finditer(line):
            tag = self._bare(match) if bare else self._explicit(match)
            if tag is not None and tag.pages:
                found.append(tag)
        found.sort(key=lambda tag: (tag.start, -tag.end))
        kept: list[_Stretch] = []
        for tag in found:
            if not kept or tag.start >= kept[-1].end:
                kept.append(tag)
        return kept

    def _bare(self, match: re.Match[str]) -> _Stretch | None:
        inside = match["square"] or match["inside"] or unicodedata.normalize("NFKC", match["digits"] or "")
        ranges, _, end = _ranges(inside[:MAX_TAG_CHARS], 0)
        is_number = inside[end:].strip() == "" and all(high <= 999 for _, high in ranges)
        return _Stretch(*match.span(), self._numbers(ranges)) if is_number else None

    def _explicit(self, match: re.Match[str]) -> _Stretch | None:
        if match["digits"] is not None:
            return None
        if match["rest"] is not None:
            return self._after_lead(match)
        inside = next(match[name] for name in ("square", "round", "inside") if match[name] is not None)
        end = (
            match.end("square") + 1
            if match["address"] is None and match["square"] is not None
            else match.end()
        )
        whole = match["round"] is not None
        return _Stretch(match.start(), end, self._pages(inside[:MAX_TAG_CHARS], whole=whole))

    def _pages(self, inside: str, *, whole: bool) -> dict[int, None]:
        """Return the pages of a text in brackets.

        Args:
            inside: The text.
            whole: Whether it must be only a citation, as in parentheses.
        """
        named = self._named(inside)
        dagger = _DAGGER.match(inside)
        if named or dagger is not None:
            return (
                named
                or self._named(dagger["name"] if dagger else "")
                or {_page(dagger["number"] if dagger else "0"): None}
            )
        before = _BEFORE_ITEM.match(inside)
        ranges, has_word, end = _ranges(inside, before.end() if before else 0)
        if whole:
            rest = inside[end:].lstrip()
            return self._numbers(ranges) if has_word and rest[:1] in ("", ",", ":", ";") else {}
        if not has_word and len(inside) <= MAX_TAG_CHARS // 4:
            word = _WITH_WORD.search(inside)
            ranges, has_word, _ = _ranges(inside, word.start()) if word else ([], False, 0)
        return self._numbers(ranges) if has_word else {}

    def _after_lead(self, match: re.Match[str]) -> _Stretch | None:
        """Read "Source: Page 2, Page 3" and "Source: handbook.pdf"."""
        rest = match["rest"]
        ranges, has_word, end = _ranges(rest, 0)
        if has_word:
            return _Stretch(match.start(), match.end() + end, self._numbers(ranges))
        named: dict[int, None] = {}
        position = 0
        for part in _PARTS.split(rest):
            number = self._citing.numbers.get(normal_name(part.strip(" \t.*_\"'`")))
            if number is None:
                break
            named[number] = None
            position += len(part) + 1
        return _Stretch(match.start(), match.end() + min(position, len(rest)), named)

    def _of_pattern(self, line: str) -> list[_Stretch]:
        found = []
        for match in [] if self._citing.compiled is None else self._citing.compiled.finditer(line):
            text = next((group for group in match.groups() if group), match[0])[:MAX_TAG_CHARS]
            pages = self._pages(text, whole=False) or self._numbers(_ranges(text, 0)[0])
            if pages and match.end() > match.start():
                found.append(_Stretch(match.start(), match.end(), pages))
        return found

    def _named(self, inside: str) -> dict[int, None]:
        """Return the documents that a tag names, with or without "source:"."""
        numbers = self._citing.numbers
        if not numbers:
            return {}
        lead = _SOURCE_LEAD.match(inside)
        parts = _PARTS.split(inside if lead is None else inside[lead.end() :])
        names = [normal_name(inside), *(normal_name(part.strip(" \t\"'`<>#*")) for part in parts)]
        return {numbers[name]: None for name in names if name in numbers}

    def _numbers(self, ranges: list[tuple[int, int]]) -> dict[int, None]:
        pages: dict[int, None] = {}
        for low, high in ranges:
            width = max(1, min(high - low + 1, MAX_RANGE_PAGES, self._budget - len(pages)))
            pages.update(dict.fromkeys(range(low, min(low + width, MAX_PAGE + 1))))
        self._budget -= max(len(pages) - 1, 0)
        return pages


def _ranges(text: str, position: int) -> tuple[list[tuple[int, int]], bool, int]:
    """Return the ranges of a list at an offset, whether the first has a word, and the list's end."""
    found: list[tuple[int, int]] = []
    has_word = False
    end = position
    match = _ITEM.match(text, position)
    while match is not None:
        has_word = has_word or (not found and match["word"] is not None)
        low, high = sorted((_page(match["low"]), _page(match["high"] or match["low"])))
        found.append((low, high))
        end = match.end()
        separator = _SEPARATOR.match(text, end)
        match = None if separator is None else _ITEM.match(text, separator.end())
    return found, has_word, end


def _page(digits: str) -> int:
    digits = digits[:64].lstrip("0") or "0"
    return int(digits) if len(digits) <= 9 else MAX_PAGE


def _unread(line: str, taken: list[_Stretch]) -> Iterator[tuple[int, int]]:
    """Yield the spans of brackets that look like citations and are none of the tags."""
    starts = {tag.start for tag in taken}
    for match in _TAG.finditer(line):
        square, inside = match["square"], match["square"] or match["round"]
        if inside is None or match.start() in starts:
            continue
        numbered = (
            square is not None
            and match["address"] is None
            and len(square) <= _MAX_UNREAD_CHARS
            and any(map(str.isdigit, square))
            and not line[match.end() : match.end() + 1].isalnum()
            and not _NUMBERS_ONLY.fullmatch(square)
        )
        if numbered or (square and _LONG_NUMBER.fullmatch(square)) or _SOURCE_LEAD.match(inside):
            yield match.span()


def _lines(answer: str) -> tuple[list[tuple[int, str]], list[str]]:
    """Return the lines of an answer with their offsets, and separately its footnotes and list of sources."""
    own: list[tuple[int, str]] = []
    listed: list[str] = []
    offset = 0
    listing = False
    for line in answer.split("\n"):
        if listing and line.strip() and not _LISTED.match(line):
            listing = False
        listing = listing or (len(line) <= _MAX_HEADING_CHARS and _HEADING.fullmatch(line) is not None)
        if listing or _FOOTNOTE.match(line):
            listed.append(line)
        else:
            own.append((offset, line))
        offset += len(line) + 1
    return own, listed


def _with_lead_in(answer: str, offset: int, tag: _Stretch) -> tuple[int, int]:
    """Return the span of a tag with its lead-in ("Evidence:")."""
    start = offset + tag.start
    lead_in = _LEAD_IN.search(answer, max(start - _LEAD_IN_CHARS, offset - 1, 0), start)
    return (start if lead_in is None else lead_in.start()), offset + tag.end


def _read_line(found: list[_Stretch], answer: str, offset: int, line: str, tags: list[_Stretch]) -> None:
    """Append the claims of a line; see `tagged_claims`."""
    position = 0
    for tag in tags:
        claim = _claim(answer, offset + position, offset + tag.start, tag.pages)
        position = tag.end
        if claim is None and len(tags) == 1:
            claim = _claim(answer, offset + position, offset + len(line), tag.pages)
            position = len(line) if claim is not None else position
        if claim is not None:
            found.append(claim)
        elif found:
            found[-1].pages.update(tag.pages)
    rest = _claim(answer, offset + position, offset + len(line), {})
    if rest is not None:
        found.append(rest)


def _claim(answer: str, start: int, end: int, pages: dict[int, None]) -> _Stretch | None:
    """Return the text between two offsets without white space, list mark and lead-in; None without a word."""
    # Start one character early, for the line end before a lead-in.
    lead_in = _LEAD_IN.search(answer, max(start - 1, end - _LEAD_IN_CHARS, 0), end) if pages else None
    if lead_in is not None:
        end = lead_in.start()
    while start < end and (answer[start].isspace() or answer[start] in "])}.,;:!?\u3002"):
        start += 1
    mark = _LIST_MARK.match(answer, start, end)
    if mark is not None:
        start = mark.end()
    while end > start and (answer[end - 1].isspace() or answer[end - 1] in "[({"):
        end -= 1
    if _ALPHANUMERIC.search(answer, start, end) is None:
        return None
    return _Stretch(start, end, pages)
