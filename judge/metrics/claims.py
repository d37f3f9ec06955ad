"""Which sentences of an answer make a claim, and which stretches of it are listed? Pure.

Greetings, headings, introductions, questions, offers and refusals make no claim; in doubt, a sentence with a
citation does. The words of each language are in `claims.yaml`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any

import yaml

from judge.text.citations import Claim
from judge.text.words import content_words, fold, has_words, sentences

Place = tuple[int, int]
"""Start and end (exclusive) in a text."""
MAX_CHARS = 4000
"""Maximum characters of a sentence that are examined."""

_DATA: dict[str, Any] = yaml.safe_load(
    resources.files("judge").joinpath("metrics", "claims.yaml").read_text("utf-8")
)
_OPENING = re.compile(
    rf"\W*(?:{'|'.join(re.escape(fold(opening)) for opening in _DATA['openings'])})(?![^\W_])"
)
_SOURCES_SAY_NOTHING = re.compile(_DATA["sources_say_nothing"])
_NOT_CLAIMING_ENDS = frozenset({":", "\uff1a", "?", "\uff1f", "\u061f", ";"})
_CLOSING = "\"'\u201d\u2019\u00bb)]*_ "
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s{0,3}(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__):?\s*\Z")


def claiming_parts(text: str) -> Sequence[Place]:
    """Return the places of the sentences that make a claim, or may."""
    return [(start, end) for start, end in sentences(text) if not claims_nothing(text[start:end])]


def uncited_numbers(segments: Iterable[Claim]) -> Iterator[Claim]:
    """Yield the claiming sentences with a number of parts of an answer without a citation."""
    for segment in segments:
        for start, end in claiming_parts(segment.text):
            sentence = segment.text[start:end]
            if any(map(str.isdigit, sentence)):
                yield Claim(sentence, segment.start + start, segment.start + end, ())


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


class Stretches:
    """Places in an answer, merged into disjoint intervals, to test what they cover."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(places):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def has_half(self, claim: Claim, parts: Iterable[Place]) -> bool:
        """Return whether at least half of the words of a claim's sentences are covered."""
        places = [
            (claim.start + start + word.start, claim.start + start + word.end)
            for start, end in parts
            for word in content_words(claim.text[start:end])
        ]
        if not places:
            return self.touches(claim.start, claim.end)
        return 2 * sum(self.covers(*place) for place in places) >= len(places)

    def covers(self, start: int, end: int) -> bool:
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._ends[number]

    def touches(self, start: int, end: int) -> bool:
        return bisect_left(self._starts, end) > bisect_right(self._ends, start)
