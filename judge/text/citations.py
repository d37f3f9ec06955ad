"""Find citations in an answer, and the claims that they end. Pure.

Recognised are page tags in brackets or parentheses with a word for page or source in several languages
(`[Page 7]`, `(p. 7)`, `[Seite 7]`, `[source 3]`), the same after "Evidence:" without brackets,
`\u30107\u2020source\u3011`, names of the context's documents (`[doc-3]`, `(source: handbook.pdf)`), and a
custom pattern. If an answer has none of these, bare numbers are recognised: `[1]`, `[^1]`, `[1, 2]`,
`[1](address)`, `<sup>1</sup>`, a superscript number after a sentence. Beside page tags, a number in brackets
is a footnote.

Pages are numbered by their names: `Page-7`, `page 7` or `7` give the number; other names (`doc-3`,
`handbook.pdf`) keep a final number if it is free, else they are numbered in order. In a task such a page is
named `Page-2 (handbook.pdf)`, which keeps number and name even if other pages are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from judge.text.normal import plain_form
from judge.text.tags import (
    AND,
    MAX_NAME_CHARS,
    MAX_PAGE,
    MAX_TAG_CHARS,
    SEE,
    SOURCE,
    TAG,
    USUAL,
    Citing,
    Stretch,
    TagReader,
    normal_name,
    page_value,
    unread_spans,
)
from judge.text.words import any_of

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
    return f"Page-{page}"


@lru_cache(maxsize=1024)
def page_number(key: str) -> int | None:
    """Return the number in a page's name (`Page-7`, `p. 7`, `7`); None if it is no page's name."""
    match = _KEY.fullmatch(key.strip()[:64])
    number = MAX_PAGE if match is None else page_value(match[1])
    return number if number < MAX_PAGE else None


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """What an answer claims and cites, in order."""

    claims: tuple[Claim, ...]
    """Those that end with a citation. A tag ends the claim before it, so a line may have several; a line with
    only a tag belongs to the text before it, as does a tag at the start of a line with others."""
    untagged: tuple[Claim, ...]
    """The parts without a tag, line by line, whether or not they make a claim."""
    pages: tuple[int, ...]
    unread: tuple[str, ...]
    """The first few brackets that look like citations and are none."""
    text: str
    """The answer with its tags and their lead-in ("Evidence:") blanked out; offsets stay the same."""


@lru_cache(maxsize=128)
def read_citations(answer: str, citing: Citing = USUAL) -> CitedAnswer:
    """Parse an answer; cached, because it is read before its call and again after it."""
    reader = TagReader(citing)
    plain = plain_form(answer)
    lines, listed = _lines(plain)
    marks = [[*TAG.finditer(line)] for _, line in lines]
    tags = [reader.tags(line, found, bare=False) for (_, line), found in zip(lines, marks, strict=True)]
    if not any(tags):
        tags = [reader.tags(line, found, bare=True) for (_, line), found in zip(lines, marks, strict=True)]
    found: list[Stretch] = []
    places: list[tuple[int, int]] = []
    for (offset, line), taken in zip(lines, tags, strict=True):
        groups: list[Stretch] = []
        for tag in taken:
            start = _lead_in(plain, offset + (groups[-1].end if groups else -1), offset + tag.start)
            places.append((start, offset + tag.end))
            if groups and _BETWEEN.fullmatch(line, groups[-1].end, tag.start):
                groups[-1].end = tag.end
                groups[-1].pages.update(tag.pages)
            else:
                groups.append(Stretch(start - offset, tag.end, dict(tag.pages)))
        _read_line(found, plain, offset, line, groups)
    if found and not any(tags):
        # Only the list at the end names the sources.
        for line in listed:
            named = [*TAG.finditer(line)]
            for tag in reader.tags(line, named, bare=False) or reader.tags(line, named, bare=True):
                found[-1].pages.update(tag.pages)
    unread = (
        answer[offset + start : offset + min(end, start + MAX_TAG_CHARS)]
        for (offset, line), likely, taken in zip(lines, marks, tags, strict=True)
        for start, end in unread_spans(line, likely, taken)
    )
    segments = [Claim(answer[one.start : one.end], one.start, one.end, tuple(one.pages)) for one in found]
    parts: list[str] = []
    end = 0
    for start, stop in places:
        parts += [answer[end:start], " " * (stop - start)]
        end = max(end, stop)
    return CitedAnswer(
        tuple(claim for claim in segments if claim.pages),
        tuple(claim for claim in segments if not claim.pages),
        tuple(dict.fromkeys(page for one in found for page in one.pages)),
        tuple(dict.fromkeys(islice(unread, MAX_UNREAD))),
        "".join((*parts, answer[end:])),
    )


def _lines(answer: str) -> tuple[list[tuple[int, str]], list[str]]:
    """Return the lines with their offsets, and separately the footnotes and the list of sources."""
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
        elif line and not line.isspace():
            own.append((offset, line))
        offset += len(line) + 1
    return own, listed


def _lead_in(answer: str, earliest: int, end: int) -> int:
    lead_in = _LEAD_IN.search(answer, max(end - _LEAD_IN_CHARS, earliest, 0), end)
    return end if lead_in is None else lead_in.start()


def _read_line(found: list[Stretch], answer: str, offset: int, line: str, tags: list[Stretch]) -> None:
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


# The pages of a context

MAX_SOURCES = 10_000
BEYOND_PAGES = 1_000_000
"""First number of names without a number, in a context with numbered pages."""
_NAMED = re.compile(r"Page-(?P<number>\d{1,9}) \((?P<name>.{1,200})\)", re.DOTALL)
_LAST_NUMBER = re.compile(r"[^\W\d_]+[\s_#.:-]*(\d{1,9})")
_EXTENSION = re.compile(r"\.(?:pdf|md|txt|html?|docx?|json|csv)\Z")


@dataclass(frozen=True, slots=True)
class Sources:
    """Texts by page number, the names of pages that are not named by their number, and how answers cite."""

    texts: Mapping[int, str]
    names: Mapping[int, str]
    citing: Citing

    def key(self, page: int) -> str:
        name = self.names.get(page)
        return page_key(page) if name is None else f"{page_key(page)} ({name[:MAX_NAME_CHARS]})"


class Cited:
    """What an answer cites of its sources: the pages that exist, and the numbers of those that do not."""

    def __init__(self, answer: str, sources: Sources) -> None:
        self.answer, self.sources = answer, sources
        self.read = read_citations(answer, sources.citing)
        texts = sources.texts
        self.pages = {page: texts[page] for page in self.read.pages if page in texts}
        self.missing = [page for page in self.read.pages if page not in texts]

    @property
    def named(self) -> dict[str, str]:
        return {self.sources.key(page): text for page, text in self.pages.items()}


def read_sources(context: Mapping[str, str], *, pattern: str | None = None) -> Sources:
    texts: dict[int, str] = {}
    names: dict[int, str] = {}
    others: list[tuple[int, str, str]] = []
    for position, (key, text) in enumerate(list(context.items())[:MAX_SOURCES], 1):
        named = _NAMED.fullmatch(key)
        number = page_number(key) if named is None else int(named["number"])
        if number is None:
            others.append((position, key, text))
        elif key == page_key(number):
            texts[number] = text  # the canonical name takes precedence
        else:
            texts.setdefault(number, text)
            if named is not None:
                names.setdefault(number, named["name"])
    base = BEYOND_PAGES if texts else 0
    for position, key, text in others:
        number = base + position if base else _free_number(key, position, texts)
        texts[number] = text
        names[number] = key
    return Sources(texts, names, Citing(_told(names), pattern))


def told_names(sources: Sources, pages: Iterable[int]) -> str:
    """Return the names of pages for a prompt, one per line; empty if all are named by number."""
    return "\n".join(f"{page_key(page)}: {sources.names[page]}" for page in pages if page in sources.names)


def citing_of_names(told: str) -> Citing:
    """The inverse of `told_names`."""
    lines = (line.partition(": ") for line in told.splitlines())
    names = {page_number(key): name for key, _, name in lines}
    return Citing(_told({number: name for number, name in names.items() if number is not None and name}))


def _free_number(key: str, position: int, taken: Mapping[int, str]) -> int:
    ends = _LAST_NUMBER.fullmatch(key.strip()[:MAX_NAME_CHARS])
    for number in (int(ends[1]) if ends is not None else 0, position):
        if 0 < number < MAX_PAGE and number not in taken:
            return number
    return max(taken) + 1


def _told(names: Mapping[int, str]) -> tuple[tuple[str, int], ...]:
    """Return names with their numbers, also without file extension if that is unique."""
    numbers: dict[str, int] = {}
    short: dict[str, set[int]] = {}
    for number, name in names.items():
        normal = normal_name(name)
        numbers.setdefault(normal, number)
        short.setdefault(_EXTENSION.sub("", normal), set()).add(number)
    for normal, found in short.items():
        if len(found) == 1 and normal:
            numbers.setdefault(normal, next(iter(found)))
    return tuple(numbers.items())
