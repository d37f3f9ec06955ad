"""Compare texts in normalised form, with a mapping to the original's offsets.

Texts are equal if they differ only in Unicode form (NFKC), case, white space, quotes, dashes and invisible
characters. The comparison uses the decomposed form (NFKD): it is equal exactly if NFKC is, and a decomposed
character can be traced to its place.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x9f"
# Invisible characters, which may hide instructions: soft hyphen, joiners, zero-width spaces, direction marks
# and overrides, byte order mark, variation selectors, tags.
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_ASCII = re.compile("[\x00-\x7f]+")
_SURROGATES = "\ud800-\udfff"
_UNCLEAN = re.compile(f"\r\n?|[\u2028\u2029]|[{_CONTROLS}\v\f]|[{_UNSEEN}]|[{_SURROGATES}]")
_UNSEEN_RUN = re.compile(f"[{_UNSEEN}]+")
_BLANK = re.compile(f"[\\s{_CONTROLS}{_UNSEEN}{_SURROGATES}\ufffd]*")

_FOLDS = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u02b9`\uff07", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63\uff0d", "-")
)
# Characters to normalise: white space other than single blanks, controls, non-ASCII. The rest maps one to
# one.
_SPACE = f"[\\s{_CONTROLS}]"
_SPECIAL = re.compile(f"(?P<space> *[\\t-\\r{_CONTROLS}]{_SPACE}*|  {_SPACE}*)|[^\x00-\x7f]+ *")

# Scripts without visible word boundaries: Thai to Khmer, kana, Han. Hangul has spaces, but particles are
# attached to words.
MAX_MARKS = 30
"""Limit of consecutive combining marks, as in Unicode's stream-safe format (UAX #15); further ones are
dropped."""
_MARKS = "".join(
    char for code in range(0x300, 0x1FFFF) if unicodedata.combining(char := chr(code)) or code == 0x344
)
_MANY_MARKS = re.compile(f"([{_MARKS}]{{{MAX_MARKS}}})[{_MARKS}]+")
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
"""For a character class of a regular expression."""
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_NUMBER_POINTS = ".,"
_PART_CHARS = 4096
_SEARCH_FACTOR = 16
# A folded ASCII text differs from its normal form only by runs of blanks.
ASCII_FOLDS = dict.fromkeys((*range(0x20), 0x7F), " ") | {
    ord("`"): "'",
    **{code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)},
}
_BLANKS = re.compile("  +")


def neutralize(text: str) -> str:
    r"""Return a text fit for a prompt, without invisible characters.

    Control characters become spaces, all line ends `\n`, direction marks and zero-width characters are
    removed, and lone surrogates become U+FFFD. Tabs stay. The function is idempotent.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNCLEAN.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] in "\r\u2028\u2029":
        return "\n"
    if "\ud800" <= found <= "\udfff":
        return "\ufffd"
    return " " if found < "\xa0" else ""


def is_blank(text: str | None) -> bool:
    """Return whether a text is missing or has only white space, controls, invisible or broken characters."""
    return text is None or _BLANK.fullmatch(text) is not None


def safe_nfkc(text: str) -> str:
    """Return the NFKC form in linear time; consecutive combining marks beyond 30 are dropped.

    `unicodedata.normalize` sorts marks by insertion, which is quadratic.
    """
    return text if text.isascii() else unicodedata.normalize("NFKC", _MANY_MARKS.sub(r"\1", text))


def compared_chars(text: str) -> int:
    """Return the length of a text's normalised form; U+FDFA becomes eighteen characters."""
    if text.isascii():
        return len(text)
    # An ASCII character stays one character, so only the others are looked up, if they are the smaller part.
    ascii_chars = len(text.encode("ascii", "ignore"))
    looked_up = _ASCII.sub("", text) if 2 * ascii_chars > len(text) else text
    rest = sum(count * len(_folded(char)) for char, count in Counter(looked_up).items())
    return len(text) - len(looked_up) + rest


def normalise(text: str) -> str:
    """Return the normalised form for comparison, trimmed; equal for texts that read alike."""
    return TextIndex(text).normal.strip(" ")


class TextIndex:
    """A text indexed for finding spans regardless of case, white space, quotes and dashes.

    Building is linear in time and memory; a search is about as fast as `str.find`.
    """

    __slots__ = ("_offsets", "_starts", "normal", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        # _starts[i] is the start of the i-th run in `normal`. _offsets[i] is the original offset of a run
        # that maps one to one, or, if negative (-1 - offset), the one character from which the whole run
        # comes. Arrays, because a list of numbers takes nine times the memory of the text.
        self._starts = array("q")
        self._offsets = array("q")
        if not text.isascii():
            self.normal = self._map()
            return
        folded = text.translate(ASCII_FOLDS)
        if "  " in folded:
            self.normal = _BLANKS.sub(" ", folded)  # offsets are computed on first use
        else:
            self.normal = folded
            self._starts.append(0)
            self._offsets.append(0)

    def _map(self) -> str:
        """Compute the runs, and return the normal form."""
        text = self.text
        whole: list[str] = []
        parts: list[str] = []
        size = 0
        last = ""
        end = 0
        for match in _SPECIAL.finditer(text):
            if match.start() > end:
                size = self._plain(parts, size, end, match.start())
                last = parts[-1][-1]
            end = match.end()
            pieces: Iterable[tuple[str, int]] = (
                [(" ", match.start())]
                if match["space"] is not None
                else _decomposed(text, match.start(), match.end())
            )
            for char, offset in pieces:
                if char == " " == last:
                    continue
                if not self._offsets or self._offsets[-1] != -1 - offset:
                    self._starts.append(size)
                    self._offsets.append(-1 - offset)
                parts.append(char)
                size += 1
                last = char
                if len(parts) >= _PART_CHARS:
                    # No list of characters, which takes forty times the text's memory.
                    whole.append("".join(parts))
                    parts.clear()
        if end < len(text):
            self._plain(parts, size, end, len(text))
        return "".join((*whole, *parts))

    def _plain(self, parts: list[str], size: int, start: int, end: int) -> int:
        parts.append(self.text[start:end].lower().replace("`", "'"))
        self._starts.append(size)
        self._offsets.append(start)
        return size + end - start

    def original(self, position: int) -> int:
        """Return the offset in the text of a position in `normal`."""
        if position >= len(self.normal):
            return len(self.text)
        if not self._starts:
            self._map()
        stretch = bisect_right(self._starts, position) - 1
        offset = self._offsets[stretch]
        return -1 - offset if offset < 0 else offset + position - self._starts[stretch]

    def originals(self, positions: Iterable[int]) -> Iterator[int]:
        """Yield the offsets of ascending positions; see `original`."""
        if not self._starts:
            self._map()
        starts, offsets, size = self._starts, self._offsets, len(self.normal)
        stretch, last = 0, len(starts) - 1
        for position in positions:
            if position >= size:
                yield len(self.text)
                continue
            while stretch < last and starts[stretch + 1] <= position:
                stretch += 1
            offset = offsets[stretch]
            yield -1 - offset if offset < 0 else offset + position - starts[stretch]

    def find(self, span: str) -> tuple[int, int] | None:
        """Return the first occurrence of a span.

        Args:
            span: The words to find. Matches within a longer word or number do not count ("art" in "party",
                "1.8" in "1.85"), except in scripts without word boundaries.

        Returns:
            Start and end (exclusive) in the original text, or None. A blank span is never found.
        """
        return next(self.find_all(span), None)

    def find_all(self, span: str) -> Iterator[tuple[int, int]]:
        """Yield all occurrences of a span, in order, not overlapping; see `find`."""
        wanted = normalise(span)
        if is_blank(wanted):
            return
        # A search costs the span's length at every match, even a rejected one.
        misses = 1 + _SEARCH_FACTOR * len(self.normal) // len(wanted)
        start = self.normal.find(wanted)
        while start >= 0 and misses:
            end = start + len(wanted)
            if self._inside(start):
                # Continue at the next word boundary; each position is visited once, even in hostile
                # repetition.
                start += 1
                misses -= 1
                while start < len(self.normal) and self._inside(start):
                    start += 1
            elif self._inside(end):
                start += 1
                misses -= 1
            else:
                yield self.place(start, end)
                start = end
            start = self.normal.find(wanted, start)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end (exclusive) in the text of a range of `normal`."""
        return self.original(start), self.original(end - 1) + self._width(end - 1)

    def _inside(self, position: int) -> bool:
        """Return whether a position of `normal` is inside a character, a word or a number."""
        normal = self.normal
        if position <= 0 or position >= len(normal):
            return False
        before, after = normal[position - 1], normal[position]
        if not after.isascii() and unicodedata.combining(after):
            return True
        if not self.text.isascii() and self.original(position - 1) == self.original(position):
            return True
        if after in _NUMBER_POINTS:
            return before.isdecimal() and normal[position + 1 : position + 2].isdecimal()
        if before in _NUMBER_POINTS:
            return after.isdecimal() and position > 1 and normal[position - 2].isdecimal()
        return _in_word(before) and _in_word(after) and not _word_may_end(before, after)

    def _width(self, position: int) -> int:
        """Return the length in the text of the character at a position."""
        start = self.original(position)
        following = self.original(position + 1)
        if self.normal[position] == " " or following <= start:
            return 1
        # Only marks of this character, which sorting may have moved.
        end = start + 1
        while end < following and unicodedata.combining(self.text[end]):
            end += 1
        return end - start


def _decomposed(text: str, start: int, end: int) -> Iterator[tuple[str, int]]:
    """Yield each character of the folded, decomposed form of a slice, with its original offset."""
    marks: list[tuple[int, str, int]] = []
    for place in range(start, end):
        for char in _folded(text[place]):
            order = unicodedata.combining(char)
            if order:
                if len(marks) < MAX_MARKS:
                    marks.append((order, char, place))
                continue
            if marks:
                yield from _in_order(marks)
                marks = []
            yield char, place
    if marks:
        yield from _in_order(marks)


def _in_order(marks: list[tuple[int, str, int]]) -> Iterator[tuple[str, int]]:
    """Sort combining marks canonically."""
    if len(marks) > 1:
        marks.sort(key=lambda mark: mark[0])
    for _, char, place in marks:
        yield char, place


@lru_cache(maxsize=8192)
def _folded(char: str) -> str:
    if _UNSEEN_RUN.match(char):
        return ""
    if "\ud800" <= char <= "\udfff":
        return "\ufffd"
    if unicodedata.category(char) == "Cc":
        return " "
    folded = char.translate(_FOLDS)
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", folded).casefold())
    return "".join(" " if part.isspace() else part for part in folded.translate(_FOLDS))


def _in_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char)[0] == "M"


def _word_may_end(before: str, after: str) -> bool:
    """Return whether a word may end between two letters, because their script has no spaces."""
    if "\u1100" <= before <= "\u11ff" and "\u1100" <= after <= "\u11ff":
        return after <= "\u115f"  # Leading consonants, with which each decomposed Hangul syllable starts.
    return is_unspaced(before) or is_unspaced(after)


def is_unspaced(text: str) -> bool:
    """Return whether a text starts with a letter of a script without word boundaries."""
    return _IS_UNSPACED.match(text) is not None
