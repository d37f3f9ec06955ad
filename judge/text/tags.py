"""Claims of an answer with the pages that they cite (`judge.text.citations`). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from judge.text.citations.citing import USUAL, Citation, Citing
from judge.text.citations.forms import CLOSE, OPEN, CitationReader
from judge.text.citations.pages import MAX_PAGE

MAX_HEADING_CHARS = 60
"""Longer lines are no heading of a list of sources."""
MAX_UNREAD = 20
"""Limit of reported unrecognised citations."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of an answer and the pages that it cites.

    `text` is `answer[start:end]`, without its tags and list mark. `pages` is in order of mention, without
    duplicates; empty if nothing is cited.
    """

    text: str
    start: int
    end: int
    pages: tuple[int, ...]


_LEADS = (
    r"(?:evidence|sources?|references?|refs?|quellen?|belege?|nachweise?|fuentes?|evidencias?|pruebas?|preuves?|r\u00e9f\u00e9rences?|fonti?"
    r"|kaynak(?:lar)?|kan\u0131t(?:lar)?|\u0627?\u0644?\u0645\u0635\u062f\u0631|\u0627?\u0644?\u0645\u0635\u0627\u062f\u0631|\u0627?\u0644?\u062f\u0644\u064a\u0644|\u0627?\u0644?\u0645\u0631\u062c\u0639)"
)
# Characters allowed between tags of one group, and between a claim and its tags.
_BETWEEN = re.compile(
    rf"(?:[\s,;&.:(){{}}\u3001\uff0c\uff1a\u060c*_-]|\b(?:and|und|et|y|ve)\b|\b{_LEADS}\b)*", re.IGNORECASE
)
# Without a colon a lead-in must be in brackets or its own sentence: "There is no evidence [Page 2]" is text.
_LEAD_IN = re.compile(
    rf"(?:[(*_]*\b{_LEADS}\s?[*_]*[:\uff1a]|(?:\(\s?|(?<=[.!?]\s)|(?<=\n)){_LEADS}"
    r"|\(\s?(?:see|cf|siehe|vgl|voir|ver|bkz)\.?)[*_\s]*\Z",
    re.IGNORECASE,
)
_LEAD_IN_CHARS = 24
_KEY_CHARS = 64
_LIST_MARK = re.compile(r"(?:[-*+\u2022\u2013\u2014]|\d{1,2}[.)])\s+")
_LEFT_OVER = CLOSE + ")}.,;:!?\u3002\uff0c"
_OPENING = OPEN + "({"
# The list of sources after an answer, and its footnotes, are neither claims nor citations.
_REFERENCES = re.compile(
    rf"[\W_]*(?:{_LEADS}|bibliograph(?:y|ie)|bibliograf\u00eda|kaynak\u00e7a|footnotes|citations|literatur|\u0627\u0644\u0645\u0631\u0627\u062c\u0639)[\W_]*",
    re.IGNORECASE,
)
_FOOTNOTE = re.compile(r"[ \t]{0,8}(?:[-*+][ \t]{1,4})?\[\^?[\w-]{1,40}\][ \t]?:[ \t]")
_LISTED = re.compile(r"[ \t]{0,8}(?:[-*+\u2022]|\d{1,3}[.)]|[\[\uff3b\u3010(]|https?://)")
_ALPHANUMERIC = re.compile(r"[^\W_]")
_KEY = re.compile(r"\W*(?:page|p|pg)?[\W_]*(\d+)(?:\W*| \(.*)", re.IGNORECASE | re.DOTALL)


def page_key(page: int) -> str:
    """Return the canonical name of a page: `Page-7`."""
    return f"Page-{page}"


def page_number(key: str) -> int | None:
    """Return the number in a page's name: `Page-7`, `page 7`, `Page_7`, `p. 7`, `7`.

    Returns:
        The number; None if it is no page's name or has more than nine digits.
    """
    return _page_number(key.strip()[:_KEY_CHARS])


@lru_cache(maxsize=1024)
def _page_number(key: str) -> int | None:
    """Cached, because names repeat."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    digits = match[1].lstrip("0") or "0"
    return int(digits) if len(digits) <= len(str(MAX_PAGE)) and int(digits) < MAX_PAGE else None


def tagged_claims(answer: str, citing: Citing = USUAL) -> tuple[Claim, ...]:
    """Return the claims of an answer that end with a citation, in order.

    A tag ends the claim before it, so a line may have several claims. A line with only a tag belongs to the
    text line before it, and so does a tag at the start of a line with further tags; a single tag at the start
    belongs to its line. A tag without text is dropped.
    """
    return _read(answer, citing).tagged


def untagged_segments(answer: str, citing: Citing = USUAL) -> tuple[Claim, ...]:
    """Return the parts of an answer without a tag, line by line, whether or not they make a claim."""
    return tuple(claim for claim in _read(answer, citing).segments if not claim.pages)


def cited_pages(answer: str, citing: Citing = USUAL) -> tuple[int, ...]:
    """Return all pages that the answer's claims cite, in order of mention, without duplicates."""
    return _read(answer, citing).cited


def unread_citations(answer: str, citing: Citing = USUAL) -> tuple[str, ...]:
    """Return the first few unrecognised citations."""
    return _read(answer, citing).unread


def without_tags(answer: str, citing: Citing = USUAL) -> str:
    """Return the answer with its tags and their lead-in ("Evidence:") blanked out; offsets stay the same."""
    parts: list[str] = []
    end = 0
    for start, stop in _read(answer, citing).tags:
        parts += [answer[end:start], " " * (stop - start)]
        end = stop
    return "".join((*parts, answer[end:]))


@dataclass(slots=True)
class _Stretch:
    """A tag, or a possible claim."""

    start: int
    end: int
    pages: dict[int, None]
    """A dictionary for order and fast lookup: joining many tags stays linear."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Claims and citations of an answer."""

    segments: tuple[Claim, ...]
    tagged: tuple[Claim, ...]
    cited: tuple[int, ...]
    tags: tuple[tuple[int, int], ...]
    """Spans of its tags, with their lead-in."""
    unread: tuple[str, ...]


@lru_cache(maxsize=8)
def _read(answer: str, citing: Citing) -> _Reading:
    """Parse an answer; cached, because the same answer is parsed several times in a row."""
    reader = CitationReader(citing)
    lines, listed = _lines(answer)
    cited = [reader.explicit(line) for _, line in lines]
    if not any(cited):
        cited = [reader.bare(line) for _, line in lines]
    found: list[_Stretch] = []
    places: list[tuple[int, int]] = []
    for (offset, line), citations in zip(lines, cited, strict=True):
        tags: list[_Stretch] = []
        for one in citations:
            _append_tag(tags, line, _Stretch(one.start, one.end, dict.fromkeys(one.pages)))
            places.append(_with_lead_in(answer, offset, one))
        _read_line(found, answer, offset, line, tags)
    if found and not any(cited):
        # Only the list at the end names the sources.
        for line in listed:
            for one in reader.explicit(line) or reader.bare(line):
                found[-1].pages.update(dict.fromkeys(one.pages))
    segments = tuple(
        Claim(answer[one.start : one.end], one.start, one.end, tuple(one.pages)) for one in found
    )
    tagged = tuple(claim for claim in segments if claim.pages)
    named = tuple(dict.fromkeys(page for claim in tagged for page in claim.pages))
    unread = islice(
        (text for (_, line), taken in zip(lines, cited, strict=True) for text in reader.unread(line, taken)),
        MAX_UNREAD,
    )
    return _Reading(segments, tagged, named, tuple(places), tuple(dict.fromkeys(unread)))


def _lines(answer: str) -> tuple[list[tuple[int, str]], list[str]]:
    """Return the lines of an answer with their offsets, and separately its footnotes and list of sources."""
    own: list[tuple[int, str]] = []
    listed: list[str] = []
    offset = 0
    listing = False
    for line in answer.split("\n"):
        if listing and line.strip() and not _LISTED.match(line):
            listing = False
        heads = len(line) <= MAX_HEADING_CHARS and _REFERENCES.fullmatch(line) is not None
        listing = listing or heads
        if listing or _FOOTNOTE.match(line):
            listed.append(line)
        else:
            own.append((offset, line))
        offset += len(line) + 1
    return own, listed


def _with_lead_in(answer: str, offset: int, tag: Citation) -> tuple[int, int]:
    """Return the span of a tag with its lead-in ("Evidence:")."""
    start, end = offset + tag.start, offset + tag.end
    lead_in = _LEAD_IN.search(answer, max(start - _LEAD_IN_CHARS, offset - 1, 0), start)
    return (start if lead_in is None else lead_in.start()), end


def _append_tag(tags: list[_Stretch], line: str, tag: _Stretch) -> None:
    """Add a tag; adjacent tags are joined."""
    if tags and _BETWEEN.fullmatch(line, tags[-1].end, tag.start):
        tags[-1].end = tag.end
        tags[-1].pages.update(tag.pages)
    else:
        tags.append(tag)


def _read_line(found: list[_Stretch], answer: str, offset: int, line: str, tags: list[_Stretch]) -> None:
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
    start = _skip(answer, start, end)
    mark = _LIST_MARK.match(answer, start, end)
    if mark is not None:
        start = mark.end()
    while end > start and (answer[end - 1].isspace() or answer[end - 1] in _OPENING):
        end -= 1
    if _ALPHANUMERIC.search(answer, start, end) is None:
        return None
    return _Stretch(start, end, pages)


def _skip(answer: str, start: int, end: int) -> int:
    """Skip white space, and closing brackets and stops of the previous tag."""
    while start < end and (answer[start].isspace() or answer[start] in _LEFT_OVER):
        start += 1
    return start
