"""Number the pages of an event's context. Pure.

Names such as `Page-7`, `page 7` or `7` give the number. Other names (`doc-3`, `handbook.pdf`) keep a final
number if it is free; else they are numbered in order, so that `[2]` is the second of a list. In a task such a
page is named `Page-2 (handbook.pdf)`, which keeps number and name even if other pages are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from judge.text.citations.citing import MAX_NAME_CHARS, Citing, normal_name
from judge.text.citations.pages import MAX_PAGE
from judge.text.tags import cited_pages, page_key, page_number

MAX_SOURCES = 10_000
"""Limit of pages of one event."""
BEYOND_PAGES = 1_000_000
"""First number of names without a number, in a context with numbered pages."""
_NAMED = re.compile(r"Page-(?P<number>\d{1,9}) \((?P<name>.{1,200})\)", re.DOTALL)
_LAST_NUMBER = re.compile(r"[^\W\d_]+[\s_#.:-]*(\d{1,9})")
_EXTENSION = re.compile(r"\.(?:pdf|md|txt|html?|docx?|json|csv)\Z")


@dataclass(frozen=True, slots=True)
class Sources:
    """Numbered pages.

    Args:
        texts: Text by number.
        names: The name of each page that is not named by its number.
        citing: Citation syntax of answers.
    """

    texts: Mapping[int, str]
    names: Mapping[int, str]
    citing: Citing

    def key(self, page: int) -> str:
        """Return a page's name in a task and in prompts."""
        name = self.names.get(page)
        return page_key(page) if name is None else f"{page_key(page)} ({name[:MAX_NAME_CHARS]})"

    def cited(self, answer: str) -> dict[int, str]:
        """Return the existing cited pages, in order of mention."""
        return {page: self.texts[page] for page in cited_pages(answer, self.citing) if page in self.texts}

    def missing(self, answer: str) -> list[int]:
        """Return the missing cited pages, in order of mention."""
        return [page for page in cited_pages(answer, self.citing) if page not in self.texts]


def read_sources(context: Mapping[str, str], *, pattern: str | None = None) -> Sources:
    """Number the pages of a context.

    Args:
        context: Text by name, from an event or task.
        pattern: A custom citation pattern.
    """
    texts: dict[int, str] = {}
    names: dict[int, str] = {}
    others: list[tuple[int, str, str]] = []
    for position, (key, text) in enumerate(list(context.items())[:MAX_SOURCES], 1):
        named = _NAMED.fullmatch(key)
        number = page_number(key) if named is None else int(named["number"])
        if number is None:
            others.append((position, key, text))
        elif named is not None:
            texts.setdefault(number, text)
            names.setdefault(number, named["name"])
        elif key == page_key(number):
            texts[number] = text  # the canonical name takes precedence
        else:
            texts.setdefault(number, text)
    # Avoid the range of numbered pages.
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
    """Return the citation syntax for the page names in a prompt; see `told_names`."""
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
