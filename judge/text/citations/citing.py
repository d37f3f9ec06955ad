"""Citations and the accepted citation syntax. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from judge.text.citations.pages import DASHES
from judge.text.index import safe_nfkc

MAX_NAME_CHARS = 200

_SEPARATORS = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation tag and its pages, in order of mention."""

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
    def compiled(self) -> re.Pattern[str] | None:
        """The compiled pattern."""
        return None if self.pattern is None else re.compile(self.pattern)


USUAL = Citing()
"""Only the usual forms."""


def normal_name(name: str) -> str:
    """Return a document's name normalised for comparison: lower case, hyphens for blanks and underscores."""
    folded = safe_nfkc(name[:MAX_NAME_CHARS]).translate(DASHES).casefold().strip()
    return _SEPARATORS.sub("-", folded[:MAX_NAME_CHARS])
