"""Comparing texts as people read them: normalised, yet with the way back to the original's offsets.

Two texts are alike when they differ only in Unicode form (NFKC), case, white space, curly or straight quotes, kinds
of dashes, and characters that nobody sees. Comparison is done on the decomposed form (NFKD), because two texts have the
same NFKC exactly where they have the same NFKD, and a decomposed character can be traced to its place.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x9f"
# Soft hyphen, joiners, zero-width spaces, marks and overrides of direction, byte order mark, variation selectors, tags:
# what a reader never sees, and what hidden instructions are written with.
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_SURROGATES = "\ud800-\udfff"
_UNCLEAN = re.compile(f"\r\n?|[\u2028\u2029]|[{_CONTROLS}\v\f]|[{_UNSEEN}]|[{_SURROGATES}]")
_UNSEEN_RUN = re.compile(f"[{_UNSEEN}]+")
_BLANK = re.compile(f"[\\s{_CONTROLS}{_UNSEEN}{_SURROGATES}\ufffd]*")

_FOLDS = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u02b9`\uff07", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63\uff0d", "-")
)
# What needs work: white space other than single blanks, controls, and everything beyond ASCII. The rest maps one to one.
_SPACE = f"[\\s{_CONTROLS}]"
_SPECIAL = re.compile(f"(?P<space> *[\\t-\\r{_CONTROLS}]{_SPACE}*|  {_SPACE}*)|[^\x00-\x7f]+ *")

# Written without spaces between words: Thai to Khmer, kana, Han. A word's edge cannot be seen there. Hangul has
# spaces, but its particles stick to their word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_NUMBER_POINTS = ".,"
_REMEMBERED_CHARS = 1000
"""Words of shorter texts are remembered for a while: the same few claims and quotations of an event are looked at again and
again. Longer ones would take memory."""
# Vowel signs and accents: letters of their word, though Python's \w does not count them.
_MARKS = "".join(chr(code) for code in range(0x300, 0x11FFF) if unicodedata.category(chr(code))[0] == "M")
_LETTER = rf"(?:[^\W_{_UNSPACED}]|[{_MARKS}])"
_BEGINNING = rf"[^\W\d_{_UNSPACED}]"
_WORD = re.compile(
    rf"\d+(?:[.,]\d+)*(?:{_BEGINNING}{_LETTER}*)?|[{_UNSPACED}][{_MARKS}]*|{_LETTER}+(?:'(?!s\b){_BEGINNING}+)?"
)

# The same for folded text in ASCII alone, several times as fast.
_ASCII_WORD = re.compile(
    r"[a-z][a-z0-9]*(?:'(?!s\b)[a-z]+)?|[0-9]+(?:[.,][0-9]+)*(?:[a-z][a-z0-9]*)?", re.ASCII
)
# Folded, an ASCII text differs from its normal form by runs of blanks alone: every word stands where it stood.
_ASCII_FOLDS = dict.fromkeys((*range(0x20), 0x7F), " ") | {
    ord("`"): "'",
    **{code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)},
}
_BLANKS = re.compile("  +")

_STOP_WORDS = """
    about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further had has have having he her here hers herself
    him himself his how i if in into is it its itself just let may me might more most must my myself nor of off on
    once only or other our ours ourselves out over own per quite rather same shall she should so some such than that
    the their theirs them themselves then there these they this those through thus to too under until up upon us very
    via was we were what when where whether which while who whom whose why will with would yet you your yours yourself
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that carry no content by themselves. Negations and "yes" are not among them: they turn a fact round."""


def neutralize(text: str) -> str:
    r"""Make a text fit for a prompt: what a reader does not see is not sent.

    Control characters become spaces, line ends of all kinds `\n`, characters that steer direction or have no width
    vanish, and lone surrogates become U+FFFD. A tab stays. Applying it twice changes nothing more.
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
    """Whether a text is missing or shows nothing: only white space, controls, unseen or broken characters."""
    return text is None or _BLANK.fullmatch(text) is not None


def normalise(text: str) -> str:
    """The form in which texts are compared; equal for texts that read alike. White space is trimmed."""
    return TextIndex(text).normal.strip(" ")


class TextIndex:
    """A text prepared for finding spans in it, whatever their case, white space, quotes and dashes.

    Building takes time and memory linear in the text's size; a search is about as fast as `str.find`.
    """

    __slots__ = ("_offsets", "_starts", "normal", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        # _starts[i] is where the i-th stretch begins in `normal`, _offsets[i] what it stands for: a stretch of
        # characters one to one, from the offset on, or (negative: -1 - offset) characters that all stand for one.
        self._starts: list[int] = []
        self._offsets: list[int] = []
        if not text.isascii():
            self.normal = self._map()
            return
        folded = text.translate(_ASCII_FOLDS)
        if "  " in folded:
            self.normal = _BLANKS.sub(" ", folded)  # its offsets are worked out when one is asked for
        else:
            self.normal = folded
            self._starts.append(0)
            self._offsets.append(0)

    def _map(self) -> str:
        """Work out the stretches; gives the normal form."""
        text = self.text
        parts: list[str] = []
        size = 0
        last = ""
        end = 0
        for match in _SPECIAL.finditer(text):
            if match.start() > end:
                size = self._plain(parts, size, end, match.start())
                last = parts[-1][-1]
            end = match.end()
            pieces = (
                [(" ", match.start())]
                if match["space"] is not None
                else list(_decomposed(match[0], match.start()))
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
        if end < len(text):
            self._plain(parts, size, end, len(text))
        return "".join(parts)

    def _plain(self, parts: list[str], size: int, start: int, end: int) -> int:
        parts.append(self.text[start:end].lower().replace("`", "'"))
        self._starts.append(size)
        self._offsets.append(start)
        return size + end - start

    def original(self, position: int) -> int:
        """The offset in the text of the character that a position in `normal` stands for."""
        if position >= len(self.normal):
            return len(self.text)
        if not self._starts:
            self._map()
        stretch = bisect_right(self._starts, position) - 1
        offset = self._offsets[stretch]
        return -1 - offset if offset < 0 else offset + position - self._starts[stretch]

    def originals(self, positions: Iterable[int]) -> Iterator[int]:
        """The offsets of many positions, which must not fall; see `original`."""
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
        """Find the first place where a span stands.

        Args:
            span: The words to find. Within a longer word or number they do not count ("art" in "party", "1.8" in
                "1.85"); in scripts without spaces between words any place counts.

        Returns:
            Start and end (exclusive) in the original text, or None. A blank span stands nowhere.
        """
        return next(self.find_all(span), None)

    def find_all(self, span: str) -> Iterator[tuple[int, int]]:
        """All places where a span stands, in order, not overlapping; see `find`."""
        wanted = normalise(span)
        if is_blank(wanted):
            return
        start = self.normal.find(wanted)
        while start >= 0:
            end = start + len(wanted)
            if self._inside(start):
                # On to the next edge: every position is passed once, so hostile repetition costs no more.
                start += 1
                while start < len(self.normal) and self._inside(start):
                    start += 1
            elif self._inside(end):
                start += 1
            else:
                yield self.original(start), self.original(end - 1) + self._width(end - 1)
                start = end
            start = self.normal.find(wanted, start)

    def _inside(self, position: int) -> bool:
        """Whether the place between two characters of `normal` is within a character, a word or a number."""
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
        """How many characters of the text belong to the one that a position stands for."""
        start = self.original(position)
        following = self.original(position + 1)
        if self.normal[position] == " " or following <= start:
            return 1
        # Marks that belong to the character, which sorting may have put elsewhere, and nothing else after it.
        end = start + 1
        while end < following and unicodedata.combining(self.text[end]):
            end += 1
        return end - start


def _decomposed(run: str, offset: int) -> Iterator[tuple[str, int]]:
    """Each character of the run's folded and decomposed form, with the offset it comes from."""
    marks: list[tuple[int, str, int]] = []
    for place, original in enumerate(run, offset):
        for char in _folded(original):
            order = unicodedata.combining(char)
            if order:
                marks.append((order, char, place))
                continue
            if marks:
                yield from _in_order(marks)
                marks = []
            yield char, place
    if marks:
        yield from _in_order(marks)


def _in_order(marks: list[tuple[int, str, int]]) -> Iterator[tuple[str, int]]:
    """Canonical order of combining marks, so that the order they were typed in does not matter."""
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
    """Whether a word may end between two letters, because their script puts no space there."""
    if "\u1100" <= before <= "\u11ff" and "\u1100" <= after <= "\u11ff":
        return after <= "\u115f"  # A Hangul syllable, decomposed, begins with one of these and only there.
    return bool(_IS_UNSPACED.match(before) or _IS_UNSPACED.match(after))


class Word(
    NamedTuple
):  # a frozen dataclass takes three times as long to make, and every verdict takes hundreds
    """A normalised word and where it stands in the original text."""

    text: str
    start: int
    end: int


def words(text: str | TextIndex) -> Sequence[Word]:
    """All words of a text, normalised, with their places.

    Numbers are words and keep their decimals; a possessive 's is not part of a word; scripts without spaces between
    words count each character as one.
    """
    if isinstance(text, str):
        return _remembered_words(text) if len(text) <= _REMEMBERED_CHARS else _words(text)
    return _words(text.text) if text.text.isascii() else _indexed_words(text)


def _words(text: str) -> list[Word]:
    if not text.isascii():
        return _indexed_words(TextIndex(text))
    return [
        _new_word(Word, (match.group(), match.start(), match.end()))
        for match in _ASCII_WORD.finditer(text.translate(_ASCII_FOLDS))
    ]


_new_word = tuple.__new__  # a third faster than the constructor, which ends there, too


def _indexed_words(index: TextIndex) -> list[Word]:
    normal = index.normal
    is_ascii = normal.isascii()
    spans = [match.span() for match in (_ASCII_WORD if is_ascii else _WORD).finditer(normal)]
    offsets = index.originals([position for span in spans for position in span])
    if is_ascii:
        return [Word(normal[start:end], next(offsets), next(offsets)) for start, end in spans]
    return [
        Word(unicodedata.normalize("NFC", normal[start:end]), next(offsets), next(offsets))
        for start, end in spans
    ]


@lru_cache(maxsize=256)
def _remembered_words(text: str) -> tuple[Word, ...]:
    return tuple(_words(text))


def word_texts(text: str) -> Sequence[str]:
    """All words of a text, normalised, without their places; see `words`."""
    return _remembered_texts(text) if len(text) <= _REMEMBERED_CHARS else _texts(text)


def _texts(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.translate(_ASCII_FOLDS))
    normal = TextIndex(text).normal
    if normal.isascii():
        return _ASCII_WORD.findall(normal)
    return [unicodedata.normalize("NFC", word) for word in _WORD.findall(normal)]


@lru_cache(maxsize=256)
def _remembered_texts(text: str) -> tuple[str, ...]:
    return tuple(_texts(text))


def is_content(word: str) -> bool:
    """Whether a normalised word says something: not a stop word, not a single letter of an alphabet."""
    if word in STOP_WORDS:
        return False
    return len(word) > 1 or not word.isalpha() or _IS_UNSPACED.match(word) is not None


def content_words(text: str | TextIndex) -> Sequence[Word]:
    """The words of a text that say something, numbers included; see `words` and `is_content`."""
    if isinstance(text, str):
        return _remembered_content(text) if len(text) <= _REMEMBERED_CHARS else _content(text)
    return _content(text.text) if text.text.isascii() else list(filter(_is_content, words(text)))


def _content(text: str) -> list[Word]:
    if not text.isascii():
        return list(filter(_is_content, words(text)))
    return [
        _new_word(Word, (word, match.start(), match.end()))
        for match in _ASCII_WORD.finditer(text.translate(_ASCII_FOLDS))
        if (word := match.group()) not in STOP_WORDS and (len(word) > 1 or not word.isalpha())
    ]


def _is_content(word: Word) -> bool:
    return is_content(word.text)


@lru_cache(maxsize=256)
def _remembered_content(text: str) -> tuple[Word, ...]:
    return tuple(_content(text))


def share_stem(one: str, other: str) -> bool:
    """Whether two normalised words are equal or look like forms of one word.

    That is: a common beginning of at least four letters, and at most five letters of either beyond it
    ("completed", "completion", but not "internet", "international").
    """
    if one == other:
        return True
    common = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        common += 1
    return common >= 4 and one[:4].isalpha() and max(len(one), len(other)) - common <= 5


_TITLES_AND_SUCH = """
    approx bros ca cf dept dr e.g eg etc ft gen gov i.e ie inc jr lt ltd mr mrs ms mt prof rev sen sgt sr st viz vs
"""
_ABBREVIATIONS = frozenset(_TITLES_AND_SUCH.split())
_NUMBERED = "art ch col eq fig figs no nos op p pp sec vol"
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())
_STOPS, _AFTER_STOPS = ".!?\u2026", "\"'\u2019\u201d)\\]\u00bb"
_WIDE_STOPS, _AFTER_WIDE_STOPS = "\u3002\uff01\uff1f\uff61", "\"'\u2019\u201d\u300d\u300f\uff09"
_LINE_ENDS = "\r\n\u2028\u2029"
# One set of characters to begin with lets the search run over all others at the speed of C. Group 1 is that of stops.
_END = re.compile(
    f"[{_STOPS}{_WIDE_STOPS}{_LINE_ENDS}](?:"
    f"(?<=[{_STOPS}])([{_STOPS}]*[{_AFTER_STOPS}]*)(?=\\s|$)"
    f"|(?<=[{_WIDE_STOPS}])([{_WIDE_STOPS}]*[{_AFTER_WIDE_STOPS}]*)"
    f"|(?<=[{_LINE_ENDS}])([{_LINE_ENDS}]*))"
)
_LAST_WORD = re.compile(r"[^\W\d_][\w.]*$")
_LIST_MARK = re.compile(r"(?:[-*+\u2022\u2013\u2014]|\(?(?:\d{1,3}|[A-Za-z])[.)])$")


_ALPHANUMERIC = re.compile(r"[^\W_]")


def sentences(text: str) -> list[tuple[int, int]]:
    """Split a text into sentences; simple, and the same each time.

    A sentence ends at a line end, at `.`, `!`, `?` or an ellipsis before white space (not after a common abbreviation,
    an initial or a list mark, and not where the next word begins with a small letter), or at a full-width stop.

    Returns:
        Start and end (exclusive) of each in the text, trimmed of white space; those without a letter or digit are left
        out.
    """
    return list(each_sentence(text))


def each_sentence(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of a text one after the other, no more of it read than asked for; see `sentences`."""
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        if match.lastindex != 1 or _ends_sentence(text, start, match.start(), end):
            yield from _trimmed(text, start, end)
            start = end
    yield from _trimmed(text, start, len(text))


def _ends_sentence(text: str, start: int, stop: int, end: int) -> bool:
    """Whether the stops from one place to another end the sentence that began at `start`."""
    following = text[end : end + 3].lstrip()[:1]
    if following.islower():
        return False
    if end - stop > 1 or text[stop] != ".":
        return True
    if end - start < 10 and _LIST_MARK.match(text[start:end].strip()):
        return False
    # A bounded look back is enough: no abbreviation is longer.
    word = _last_word(text[max(start, stop - 20) : stop])
    if word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I"):
        return False
    return not (following.isdigit() and word.lower() in _BEFORE_NUMBERS)


def _last_word(before: str) -> str:
    """The word that a stop follows at once, with stops inside it; empty where none does."""
    last = before.rsplit(None, 1)[-1:]
    if not last or not before.endswith(last[0]):
        return ""
    if last[0].isalpha():
        return last[0]
    found = _LAST_WORD.search(last[0])
    return "" if found is None else found[0]


def _trimmed(text: str, start: int, end: int) -> tuple[tuple[int, int]] | tuple[()]:
    """The place without the white space around it; nothing where it says nothing."""
    piece = text[start:end].rstrip()
    end = start + len(piece)
    piece = piece.lstrip()
    if piece[:1].isalnum() or _ALPHANUMERIC.search(piece) is not None:
        return ((end - len(piece), end),)
    return ()
