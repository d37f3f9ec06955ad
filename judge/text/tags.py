"""Evidence tags: which claims an answer makes, and which pages it names for each.

Read are `[Page 7]`, `[Page-7]`, `[Page 2] [Page 3]`, `[Pages 2, 3]`, `[Pages 2-4]`, `[Page 2, Page 3]`, `[Page 2 and 3]`
and their like, in any case, with any dash, with half- or full-width brackets, with `Evidence:` before them or not.

What a hostile answer could blow up is bounded: a range names at most its first 1,000 pages, a number of more than nine
digits is read as 999,999,999 (no such page), and an answer's ranges together name at most 20,000 pages; beyond that
each range is read as its first page alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from judge.text.index import safe_nfkc

MAX_RANGE_PAGES = 1000
"""A wider range is cut to its first pages."""
MAX_ANSWER_PAGES = 20_000
"""Pages that all ranges of one answer may name together."""
MAX_PAGE = 999_999_999
"""What a longer number is read as."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A stretch of an answer and the pages it cites.

    `text` is `answer[start:end]`, without its tags and list mark. `pages` is in order of mention, without repetition;
    empty where nothing is cited.
    """

    text: str
    start: int
    end: int
    pages: tuple[int, ...]


_OPEN, _CLOSE = "[\uff3b\u3010", "]\uff3d\u3011"
_BRACKETED = re.compile(rf"[{re.escape(_OPEN)}]([^{re.escape(_OPEN + _CLOSE)}\n]*)[{re.escape(_CLOSE)}]")
_PAGE = r"pages?\.?[ ]?[-:#]?[ ]?"
_FIRST = re.compile(rf"[ ]?{_PAGE}(?:no\.?[ ]?)?(?P<number>\d+)\b")
_RANGE_END = re.compile(rf"[ ]?(?:-|to\b|until\b|through\b)[ ]?(?:{_PAGE})?(?P<number>\d+)\b")
_NEXT = re.compile(rf"[ ]?(?:[,;/&+]|and\b|or\b)[ ]?(?:(?:and\b|&)[ ]?)?(?:{_PAGE})?(?P<number>\d+)\b")
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))
# What may stand between tags of one group, and between a claim and its tags, without being a text of its own.
_BETWEEN = re.compile(
    r"(?:[\s,;&.:(){}\u3001\uff0c\uff1a*_-]|\band\b|\bevidence\b|\bsources?\b)*", re.IGNORECASE
)
# Without a colon it is a lead-in only in brackets or as a sentence of its own: "There is no evidence [Page 2]" is text.
_LEAD_IN = re.compile(
    r"(?:[(*_]*\b(?:evidence|sources?)\s?[*_]*[:\uff1a]|(?:\(\s?|(?<=[.!?]\s)|(?<=\n))(?:evidence|sources?))[*_\s]*\Z",
    re.IGNORECASE,
)
_TAGGED = re.compile(
    rf"(?:\b(?:evidence|sources?)\s?[*_]{{0,2}}[:\uff1a]?[*_\s]{{0,4}})?[{re.escape(_OPEN)}](?P<inside>[^{re.escape(_OPEN + _CLOSE)}\n]*)"
    rf"[{re.escape(_CLOSE)}]",
    re.IGNORECASE,
)
_LEAD_IN_CHARS = 24
_KEY_CHARS = 64
_LIST_MARK = re.compile(r"(?:[-*+\u2022\u2013\u2014]|\d{1,2}[.)])\s+")
_LEFT_OVER = _CLOSE + ")}.,;:!?\u3002\uff0c"
_OPENING = _OPEN + "({"
_ALPHANUMERIC = re.compile(r"[^\W_]")
# How nearly all of them are written; the rest is read with more care.
_PLAIN_TAG = re.compile(r"[Pp]age[ -]([0-9]{1,9})")
_KEY = re.compile(r"\W*(?:page|p|pg)?[\W_]*(\d+)\W*", re.IGNORECASE)


def page_key(page: int) -> str:
    """The canonical name of a page: `Page-7`."""
    return f"Page-{page}"


def page_number(key: str) -> int | None:
    """The number in a page's name as producers write it: `Page-7`, `page 7`, `Page_7`, `p. 7`, `7`.

    Returns:
        The number, or None where the name is not a page's. More than nine digits are no page's.
    """
    return _page_number(key.strip()[:_KEY_CHARS])


@lru_cache(maxsize=1024)
def _page_number(key: str) -> int | None:
    """Remembered, for documents have the same few names."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    number = _number(match[1])
    return None if number == MAX_PAGE else number


def tagged_claims(answer: str) -> tuple[Claim, ...]:
    """The claims of an answer that end with an evidence tag, in order.

    A tag ends the claim before it, so that a line may hold several claims. A line that is only a tag belongs to the text
    line before it, and so does a tag that begins a line in which another tag follows; where none follows, a
    tag at the beginning belongs to its line. A tag with no text to belong to is left out.
    """
    return _read(answer).tagged


def untagged_segments(answer: str) -> tuple[Claim, ...]:
    """The stretches of an answer without a tag, line by line; whether they claim anything is not said here."""
    return tuple(claim for claim in _read(answer).segments if not claim.pages)


def cited_pages(answer: str) -> tuple[int, ...]:
    """All pages that the answer's claims cite, in order of mention, without repetition."""
    return _read(answer).cited


def without_tags(answer: str) -> str:
    """The answer with blanks in place of its tags and of the word before them ("Evidence:"); each place stays where it is."""
    return _TAGGED.sub(
        lambda match: " " * len(match[0]) if _names_page(match["inside"]) else match[0], answer
    )


def _names_page(inside: str) -> bool:
    return bool(_pages(inside, 1))


@dataclass(slots=True)
class _Stretch:
    """A tag, or a claim to be."""

    start: int
    end: int
    pages: dict[int, None]
    """A dictionary for its order and its look-up: many tags that join one another cost no more than their number."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What an answer claims and cites."""

    segments: tuple[Claim, ...]
    tagged: tuple[Claim, ...]
    cited: tuple[int, ...]


@lru_cache(maxsize=4)
def _read(answer: str) -> _Reading:
    """Read an answer; kept for the last few, because one answer is looked at several times in a row."""
    segments = _segments(answer)
    tagged = tuple(claim for claim in segments if claim.pages)
    return _Reading(segments, tagged, tuple(dict.fromkeys(page for claim in tagged for page in claim.pages)))


def _segments(answer: str) -> tuple[Claim, ...]:
    """All stretches of an answer, with a tag or without."""
    found: list[_Stretch] = []
    budget = MAX_ANSWER_PAGES
    offset = 0
    for line in answer.split("\n"):
        tags: list[_Stretch] = []
        for match in _BRACKETED.finditer(line):
            pages = _pages(match[1], budget)
            if pages:
                budget -= len(pages) - 1
                _append_tag(tags, line, _Stretch(match.start(), match.end(), pages))
        _read_line(found, answer, offset, line, tags)
        offset += len(line) + 1
    return tuple(Claim(answer[one.start : one.end], one.start, one.end, tuple(one.pages)) for one in found)


def _append_tag(tags: list[_Stretch], line: str, tag: _Stretch) -> None:
    """Add a tag; one that follows another at once joins it."""
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
    """The text between two offsets without white space, list mark and the tag's lead-in; None where no word is left."""
    # The search begins a character early, for the line end that a lead-in may follow.
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
    """Past white space and what is left over from the tag before: its closing brackets and stops."""
    while start < end and (answer[start].isspace() or answer[start] in _LEFT_OVER):
        start += 1
    return start


def _pages(inside: str, budget: int) -> dict[int, None]:
    """The pages that the text between two brackets names; none where it is not a tag."""
    plain = _PLAIN_TAG.fullmatch(inside)
    if plain is not None:
        return {int(plain[1]): None}
    text = " ".join(safe_nfkc(inside).translate(_DASHES).lower().split())
    match = _FIRST.match(text)
    pages: dict[int, None] = {}
    while match is not None:
        first = last = _number(match["number"])
        end = _RANGE_END.match(text, match.end())
        if end is not None:
            first, last = sorted((first, _number(end["number"])))
            match = end
        width = max(1, min(last - first + 1, MAX_RANGE_PAGES, budget - len(pages)))
        pages.update(dict.fromkeys(range(first, min(first + width, MAX_PAGE + 1))))
        match = _NEXT.match(text, match.end())
    return pages


def _number(digits: str) -> int:
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= 9 else MAX_PAGE
