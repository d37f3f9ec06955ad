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
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from judge.text.languages import any_of
from judge.text.normal import PLAIN_FORMS
from judge.text.tags import (
    AND,
    MAX_PAGE,
    MAX_TAG_CHARS,
    SEE,
    SOURCE,
    USUAL,
    Citing,
    Stretch,
    TagReader,
    page_value,
    unread_spans,
)

MAX_UNREAD: Final = 20
_MAX_HEADING_CHARS = 60
_LEAD_IN_CHARS = 24

# Characters allowed between tags of one group, and between a claim and its tags.
_BETWEEN = re.compile(rf"(?:[\s,;&.:(){{}}\u3001*_-]|\b{AND}\b|\b{SOURCE}\b)*", re.IGNORECASE)
# Without a colon a lead-in must be in brackets or its own sentence: "There is no evidence [Page 2]" is text.
_LEAD_IN = re.compile(
    rf"(?:[(*_]*\b{SOURCE}\s?[*_]*:|(?:\(\s?|(?<=[.!?]\s)|(?<=\n)){SOURCE}|\(\s?{SEE}\.?)[*_\s]*\Z",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"(?:[-*+\u2022]|\d{1,2}[.)])\s+")
# The list of sources after an answer, and its footnotes, are neither claims nor citations.
_HEADING = re.compile(rf"[\W_]*(?:{SOURCE}|{any_of('headings')})[\W_]*", re.IGNORECASE)
_FOOTNOTE = re.compile(r"[ \t]{0,8}(?:[-*+][ \t]{1,4})?\[\^?[\w-]{1,40}\][ \t]?:[ \t]")
_LISTED = re.compile(r"[ \t]{0,8}(?:[-*+\u2022]|\d{1,3}[.)]|[\[(]|https?://)")
_ALPHANUMERIC = re.compile(r"[^\W_]")
_KEY = re.compile(r"\W*(?:page|p|pg)?[\W_]*(\d+)(?:\W*| \(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of an answer, `answer[start:end]` without tags and list mark, and the pages that it cites."""

    text: str
    start: int
    end: int
    pages: tuple[int, ...]


def page_key(page: int) -> str:
    """Return the canonical name of a page: `Page-7`."""
    return f"Page-{page}"


@lru_cache(maxsize=1024)
def page_number(key: str) -> int | None:
    """Return the number in a page's name (`Page-7`, `page 7`, `p. 7`, `7`); None if it is no page's name."""
    match = _KEY.fullmatch(key.strip()[:64])
    number = MAX_PAGE if match is None else page_value(match[1])
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


@dataclass(frozen=True, slots=True)
class _Reading:
    segments: tuple[Claim, ...]
    tags: tuple[tuple[int, int], ...]
    unread: tuple[str, ...]


@lru_cache(maxsize=8)
def _read(answer: str, citing: Citing) -> _Reading:
    """Parse an answer; cached, because the same answer is parsed several times in a row."""
    reader = TagReader(citing)
    plain = answer.translate(PLAIN_FORMS)
    lines, listed = _lines(plain)
    tags = [reader.tags(line, bare=False) for _, line in lines]
    if not any(tags):
        tags = [reader.tags(line, bare=True) for _, line in lines]
    found: list[Stretch] = []
    places: list[tuple[int, int]] = []
    for (offset, line), taken in zip(lines, tags, strict=True):
        groups: list[Stretch] = []
        for tag in taken:
            places.append(_with_lead_in(plain, offset, tag))
            if groups and _BETWEEN.fullmatch(line, groups[-1].end, tag.start):
                groups[-1].end = tag.end
                groups[-1].pages.update(tag.pages)
            else:
                groups.append(Stretch(tag.start, tag.end, dict(tag.pages)))
        _read_line(found, plain, offset, line, groups)
    if found and not any(tags):
        # Only the list at the end names the sources.
        for line in listed:
            for tag in reader.tags(line, bare=False) or reader.tags(line, bare=True):
                found[-1].pages.update(tag.pages)
    unread = (
        answer[offset + start : offset + min(end, start + MAX_TAG_CHARS)]
        for (offset, line), taken in zip(lines, tags, strict=True)
        for start, end in unread_spans(line, taken)
    )
    return _Reading(
        tuple(Claim(answer[one.start : one.end], one.start, one.end, tuple(one.pages)) for one in found),
        tuple(places),
        tuple(dict.fromkeys(islice(unread, MAX_UNREAD))),
    )


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


def _with_lead_in(answer: str, offset: int, tag: Stretch) -> tuple[int, int]:
    """Return the span of a tag with its lead-in ("Evidence:")."""
    start = offset + tag.start
    lead_in = _LEAD_IN.search(answer, max(start - _LEAD_IN_CHARS, offset - 1, 0), start)
    return (start if lead_in is None else lead_in.start()), offset + tag.end


def _read_line(found: list[Stretch], answer: str, offset: int, line: str, tags: list[Stretch]) -> None:
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


def _claim(answer: str, start: int, end: int, pages: dict[int, None]) -> Stretch | None:
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
    return Stretch(start, end, pages)
