"""The grammar of citation tags in one line of an answer. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import re2

from judge.text.normal import plain_form, without_lone_surrogates
from judge.text.words import any_of

MAX_PAGE: Final = 999_999_999
"""Value of longer numbers: no such page."""
MAX_TAG_CHARS: Final = 300
MAX_RANGE_PAGES: Final = 1000
MAX_ANSWER_PAGES: Final = 20_000
"""Limit of pages over all ranges of one answer; beyond it each range counts as its first page."""
MAX_NAME_CHARS: Final = 200
MAX_PATTERN_CHARS: Final = 500
_MAX_UNREAD_CHARS = 40
_PAGE, SOURCE = any_of("pages"), any_of("sources")
SEE, AND, _TO = any_of("leads"), any_of("lists"), any_of("ranges")
GAP = r"[^\S\n]{0,3}"
_PAGE_WORD = rf"{_PAGE}\.?{GAP}[-:#]?{GAP}(?:no\.?{GAP})?"
_WORD = rf"(?:{SOURCE}{GAP}[-:#_]?{GAP}(?:no\.?{GAP})?(?:{_PAGE_WORD})?|{_PAGE_WORD})"
_END = r"(?:(?=\u9875)|(?![^\W_]))"
# A page or a range, with or without a word before it.
_ITEM = re.compile(
    rf"{GAP}(?P<word>{_WORD})?[\^#]?(?P<low>\d++){_END}\^?"
    rf"(?:{GAP}(?:-|{_TO}\b){GAP}(?:{_WORD})?(?P<high>\d++){_END})?",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(rf"{GAP}(?:[,;/&+]|{AND}\b){GAP}(?:(?:{AND}\b|&){GAP})?", re.IGNORECASE)
_WITH_WORD = re.compile(rf"(?<![^\W_])(?={_PAGE_WORD}\d)", re.IGNORECASE)
_BEFORE_ITEM = re.compile(rf"{GAP}(?:(?:{SEE})\.?[ :=]{GAP}|\d+:(?=\d+\u2020))?", re.IGNORECASE)
_SOURCE_LEAD = re.compile(rf"{GAP}{SOURCE}{GAP}[:=]", re.IGNORECASE)
_DAGGER = re.compile(r"\s?(?:\d+:)?(?P<number>\d+)\u2020(?P<name>.*)")
_PARTS = re.compile(r"[,;|]")
_NUMBERS_ONLY = re.compile(r"[\s\d^#,;-]*")
_LONG_NUMBER = re.compile(r"\d{4,}")
TAG: Final = re.compile(
    r"\[(?P<square>[^\[\]\n]*)\](?P<address>\([^()\s]{1,500}\))?"
    r"|\((?P<round>[^()\[\]\n]{1,300})\)"
    r"|<(?P<element>sup|cite|ref|citation|source)\b[^<>\n]{0,100}>(?P<inside>[^<>\n]{1,100})</(?P=element)>"
    r"|(?<=[.,;:!?)\"'\u201d\u3002])(?P<digits>[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{1,3})",
    re.IGNORECASE,
)
# "Source: Page 2": the text after a colon, if the words before it are a source.
_AFTER_COLON = re.compile(r":[*_]{0,2}[ \t]{0,9}(?=(?P<rest>[^\s\[\]()][^\n\[\]()]{0,299}))")
_LEAD = re.compile(rf"(?<![^\W_])[*_]{{0,2}}{SOURCE}[*_]{{0,2}}{GAP}\Z", re.IGNORECASE)
_LEAD_CHARS = 30
_NAME_BLANKS = re.compile(r"[\s_-]+")


@dataclass(frozen=True)
class Citing:
    """Citation syntax beyond the usual forms."""

    names: tuple[tuple[str, int], ...] = ()
    """`normal_name` of each of the context's documents, with its number."""
    pattern: str | None = None
    """A regular expression whose first group, or whole match, is a page's number or a document's name."""


USUAL: Final = Citing()


@lru_cache(maxsize=64)
def compile_pattern(pattern: str, name: str = "citation_pattern", most: int = MAX_PATTERN_CHARS) -> Any:
    """Compile a user's pattern with RE2, so that its time is linear; else raise ValueError."""
    if len(pattern) > most:
        raise ValueError(f"{name} must be at most {most} characters, got {len(pattern)}; shorten it")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 23
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        told = error.args[0] if error.args else error
        told = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
        raise ValueError(
            f"{name} must be a regular expression of RE2, without look-around and back-references: {told}; "
            "correct it"
        ) from error


def normal_name(name: str) -> str:
    """Lower case, hyphens for blanks and underscores."""
    folded = plain_form(unicodedata.normalize("NFKC", name[:MAX_NAME_CHARS])).casefold().strip()
    return _NAME_BLANKS.sub("-", folded[:MAX_NAME_CHARS])


@dataclass(slots=True)
class Stretch:
    """A tag, or a possible claim; its pages are a dictionary for order and fast lookup."""

    start: int
    end: int
    pages: dict[int, None] = field(default_factory=dict)


class TagReader:
    def __init__(self, citing: Citing) -> None:
        self._numbers_of_names = dict(citing.names)
        self._pattern = None if citing.pattern is None else compile_pattern(citing.pattern)
        self._budget = MAX_ANSWER_PAGES

    def tags(self, line: str, marks: Sequence[re.Match[str]], *, bare: bool) -> list[Stretch]:
        """Return the tags among the matches of `TAG` in a plain line: explicit ones, or bare numbers."""
        found = [] if bare else [*self._of_pattern(line), *self._after_leads(line)]
        for match in marks:
            pages = self._bare(match) if bare else self._explicit(match)
            if pages:
                found.append(Stretch(*match.span(), pages))
        found.sort(key=lambda tag: (tag.start, -tag.end))
        kept: list[Stretch] = []
        for tag in found:
            if not kept or tag.start >= kept[-1].end:
                kept.append(tag)
        return kept

    def _bare(self, match: re.Match[str]) -> dict[int, None]:
        inside = match["square"] or match["inside"] or unicodedata.normalize("NFKC", match["digits"] or "")
        ranges, _, end = _ranges(inside[:MAX_TAG_CHARS])
        is_number = inside[end:].strip() == "" and all(high <= 999 for _, high in ranges)
        return self._numbers(ranges) if is_number else {}

    def _explicit(self, match: re.Match[str]) -> dict[int, None]:
        inside = match["square"] or match["round"] or match["inside"] or ""
        return self._pages(inside[:MAX_TAG_CHARS], whole=match["round"] is not None)

    def _pages(self, inside: str, *, whole: bool) -> dict[int, None]:
        """Return the pages of a text in brackets; `whole`: it must be only a citation, as in parentheses."""
        if named := self._named(inside):
            return named
        if (dagger := _DAGGER.match(inside)) is not None:
            return self._named(dagger["name"]) or {page_value(dagger["number"]): None}
        ranges, has_word, end = _ranges(inside, led=True)
        if whole:
            rest = inside[end:].lstrip()
            return self._numbers(ranges) if has_word and rest[:1] in ("", ",", ":", ";") else {}
        if not has_word and len(inside) <= MAX_TAG_CHARS // 4:
            word = _WITH_WORD.search(inside)
            ranges, has_word, _ = _ranges(inside[word.start() :]) if word else ((), False, 0)
        return self._numbers(ranges) if has_word else {}

    def _after_leads(self, line: str) -> Iterator[Stretch]:
        """Yield "Source: Page 2, Page 3" and "Source: handbook.pdf"."""
        for match in _AFTER_COLON.finditer(line) if ":" in line else ():
            begin = max(match.start() - _LEAD_CHARS, 0)
            lead = _LEAD.search(line[begin : match.start()])
            if lead is None:
                continue
            rest = match["rest"]
            ranges, has_word, size = _ranges(rest)
            pages = self._numbers(ranges) if has_word else {}
            for part in () if has_word else _PARTS.split(rest):
                number = self._numbers_of_names.get(normal_name(part.strip(" \t.*_\"'`")))
                if number is None:
                    break
                pages[number] = None
                size += len(part) + 1
            if pages:
                yield Stretch(begin + lead.start(), match.end() + min(size, len(rest)), pages)

    def _of_pattern(self, line: str) -> list[Stretch]:
        found = []
        for match in () if self._pattern is None else self._pattern.finditer(without_lone_surrogates(line)):
            text = next((group for group in match.groups() if group), match[0])[:MAX_TAG_CHARS]
            pages = self._pages(text, whole=False) or self._numbers(_ranges(text)[0])
            if pages and match.end() > match.start():
                found.append(Stretch(match.start(), match.end(), pages))
        return found

    def _named(self, inside: str) -> dict[int, None]:
        numbers = self._numbers_of_names
        if not numbers:
            return {}
        lead = _SOURCE_LEAD.match(inside)
        parts = _PARTS.split(inside if lead is None else inside[lead.end() :])
        names = [normal_name(inside), *(normal_name(part.strip(" \t\"'`<>#*")) for part in parts)]
        return {numbers[name]: None for name in names if name in numbers}

    def _numbers(self, ranges: Sequence[tuple[int, int]]) -> dict[int, None]:
        pages: dict[int, None] = {}
        for low, high in ranges:
            width = max(1, min(high - low + 1, MAX_RANGE_PAGES, self._budget - len(pages)))
            pages.update(dict.fromkeys(range(low, min(low + width, MAX_PAGE + 1))))
        self._budget -= max(len(pages) - 1, 0)
        return pages


@lru_cache(maxsize=1024)  # the same few tags are in most answers
def _ranges(text: str, *, led: bool = False) -> tuple[Sequence[tuple[int, int]], bool, int]:
    """Return a list's ranges, whether the first has a word, and its end; `led`: "see" may precede it."""
    found: list[tuple[int, int]] = []
    has_word = False
    end = 0
    if led and (before := _BEFORE_ITEM.match(text)) is not None:
        end = before.end()
    match = _ITEM.match(text, end)
    while match is not None:
        has_word = has_word or (not found and match["word"] is not None)
        low, high = sorted((page_value(match["low"]), page_value(match["high"] or match["low"])))
        found.append((low, high))
        end = match.end()
        separator = _SEPARATOR.match(text, end)
        match = None if separator is None else _ITEM.match(text, separator.end())
    return found, has_word, end


def page_value(digits: str) -> int:
    """Return the page of a number; at most `MAX_PAGE`, which no context has."""
    digits = digits[:64].lstrip("0") or "0"
    return int(digits) if len(digits) <= 9 else MAX_PAGE


def unread_spans(
    line: str, marks: Sequence[re.Match[str]], taken: Sequence[Stretch]
) -> Iterator[tuple[int, int]]:
    starts = {tag.start for tag in taken}
    for match in marks:
        square, inside = match["square"] or "", match["square"] or match["round"]
        if inside is None or match.start() in starts:
            continue
        numbered = (
            match["address"] is None
            and len(square) <= _MAX_UNREAD_CHARS
            and any(map(str.isdigit, square))
            and not line[match.end() : match.end() + 1].isalnum()
            and not _NUMBERS_ONLY.fullmatch(square)
        )
        if numbered or _LONG_NUMBER.fullmatch(square) or _SOURCE_LEAD.match(inside):
            yield match.span()
