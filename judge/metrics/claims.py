"""Which sentences of an answer make a claim, and which stretches of it are listed? Pure.

Greetings, headings, introductions, questions, offers and refusals make no claim. In doubt, a sentence with a
citation does, and one without does not. The words of each language are in `claims.yaml`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import yaml

from judge.text.citations import Claim
from judge.text.normal import is_unspaced
from judge.text.quantities import tokens
from judge.text.words import content_words, fold, has_words, sentences

MIN_CLAIM_WORDS = 3
"""Minimum content words of a claim without a citation."""
MIN_BARE_WORDS = 5
"""The same for a line without a full stop, which may be a heading."""
MIN_UNSPACED_CHARS = 8
"""Minimum letters of such a claim in a script without spaces."""
MAX_POLITE_WORDS = 8
"""A sentence to the reader with this many content words, or with a number, makes a claim."""
MAX_CHARS = 4000
"""Maximum characters of a sentence that are examined."""

_DATA: dict[str, Any] = yaml.safe_load(
    resources.files("judge").joinpath("metrics", "claims.yaml").read_text("utf-8")
)
_OPENING = re.compile(
    rf"\W*(?:{'|'.join(re.escape(fold(opening)) for opening in _DATA['openings'])})(?![^\W_])"
)
_SOURCES_SAY_NOTHING = re.compile(_DATA["sources_say_nothing"])
_PERSONS = frozenset(map(fold, _DATA["persons"]))
_PERSON_ENDINGS = tuple(_DATA["person_endings"])
_FIRST_WORD_ENDINGS = tuple(_DATA["first_word_endings"])
_FORMAL = re.compile(_DATA["formal_address"])
_STOPS = ".!\u3002\uff01\u061f\u06d4\u0964\u2026"
_NOT_CLAIMING_ENDS = frozenset({":", "\uff1a", "?", "\uff1f", "\u061f", ";"})
_CLOSING = "\"'\u201d\u2019\u00bb)]*_ "
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s{0,3}(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__):?\s*\Z")


def claiming_parts(text: str, *, surely: bool) -> Sequence[tuple[int, int]]:
    """Return the places of the sentences that make a claim: `surely`, or in doubt, too."""
    return [
        (start, end)
        for start, end in sentences(text)
        if (claims_surely(text[start:end]) if surely else not claims_nothing(text[start:end]))
    ]


def claims_nothing(sentence: str) -> bool:
    """Return whether a sentence certainly makes no claim."""
    text = sentence[:MAX_CHARS].strip()
    if not has_words(text) or _HEADING.match(text):
        return True
    if text.rstrip(_CLOSING)[-1:] in _NOT_CLAIMING_ENDS:
        return True
    folded = fold(text)
    if _SOURCES_SAY_NOTHING.search(folded) is not None:
        return True
    # "Sure, it opens at 9" is a claim.
    says_more = any(map(str.isdigit, folded)) or len(content_words(folded)) > 12
    return not says_more and _OPENING.match(folded) is not None


def claims_surely(sentence: str) -> bool:
    """Return whether a sentence without citation certainly makes a claim."""
    text = sentence[:MAX_CHARS].strip()
    if claims_nothing(text):
        return False
    content = content_words(text)
    is_short = len(content) < MAX_POLITE_WORDS and not any(map(str.isdigit, text))
    if is_short and _speaks_to_reader(text):
        return False
    has_stop = text.rstrip(_CLOSING)[-1:] in _STOPS
    if content and is_unspaced(content[0].text):
        return has_stop and len(content) >= MIN_UNSPACED_CHARS
    titled = sum(text[word.start].isupper() for word in content)
    if has_stop:
        # All words capitalised: a name or a title.
        return len(content) >= MIN_CLAIM_WORDS and titled < len(content)
    return len(content) >= MIN_BARE_WORDS and 2 * titled < len(content)


def _speaks_to_reader(text: str) -> bool:
    """Return whether a sentence is in the first or second person: courtesy as likely as a claim."""
    folded = [token.text for token in tokens(text) if token.kind == "word"]
    if not folded:
        return False
    return (
        not _PERSONS.isdisjoint(part for word in folded for part in word.split("'"))
        or any(word.endswith(_PERSON_ENDINGS) for word in folded)
        or folded[0].endswith(_FIRST_WORD_ENDINGS)
        or _FORMAL.search(text) is not None
    )


class Stretches:
    """Places in an answer, merged into disjoint intervals, to test what they cover."""

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(places):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def has_half(self, claim: Claim, parts: Iterable[tuple[int, int]]) -> bool:
        """Return whether at least half of the words of a claim's sentences are covered."""
        places = [
            (claim.start + start + word.start, claim.start + start + word.end)
            for start, end in parts
            for word in content_words(claim.text[start:end])
        ]
        if not places:
            return self.touches(claim.start, claim.end)
        return 2 * sum(self._covers(*place) for place in places) >= len(places)

    def touches(self, start: int, end: int) -> bool:
        return bisect_left(self._starts, end) > bisect_right(self._ends, start)

    def _covers(self, start: int, end: int) -> bool:
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._ends[number]
