"""Check whether a text supports a statement: enough common words, and the numbers.

A judge's quotation may be correct and prove nothing. Common words do not prove that a text states something,
but texts without a common word, name or number do not state the same. Words of the question do not count,
because any answer may repeat them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from judge.text.index import TextIndex
from judge.text.sentences import each_sentence
from judge.text.words import STOP_WORDS, Word, content_words, share_stem, word_texts, words

MIN_SHARE = 8
"""At least one in this many of a statement's words must be shared. About 1 in 20 of the claims that experts
rate "completely supported" (ExpertQA) share less with any sentences of their pages; 1 in 27 accepted human
answers (NQ) share no word with their reference."""
LONG_STATEMENT = 3
"""From this many own words, one common word does not suffice for a sentence."""

_NOT_SIGNIFICANT = re.compile(r"\D")
_STEM_CHARS = 4
_USUAL_ENDINGS = """
    s es ed d ing er ers or ors ion ions tion tions ation ations ment ments al als ally ly ity ities e y ie
    ies ied ier iest ic ics ical
    ically ist ists ism ive ively ful fully ness less able ible n en t r rs st est th ance ence ant ent ants
    ents ary ory ous sis ses tic
    tical ure ures age ages ian ians an ans ia ish ize ized izes izing ise ised ises ising izer iser ify ifies
    ified ate ates ated ating
    m em te ten tet ung ungen lich liche er ere eren erem ste sten a o as os i ar ando ado ada ados adas aire
    ais ait ons ez iques ique
    amente mente zione zioni cion ciones ement ements eur eurs euse
"""
_ENDINGS = frozenset({"", *_USUAL_ENDINGS.split()})
_POLARITY = frozenset(
    {"yes", "no", "not", "true", "false", "correct", "incorrect", "right", "wrong", "indeed"}
)
_LITTLE_ENGLISH, _MUCH_ENGLISH = 0.08, 0.25
_MIN_LANGUAGE_WORDS = 15
_LANGUAGE_CHARS = 1000
_UP_TO_TWENTY = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen
    eighteen nineteen twenty
"""
_SPELLED = {word: str(number) for number, word in enumerate(_UP_TO_TWENTY.split())}
_SCRIPTS = (
    ("latin", 0x0000, 0x024F),
    ("latin", 0x1E00, 0x1EFF),
    ("greek", 0x0370, 0x03FF),
    ("cyrillic", 0x0400, 0x052F),
    ("hebrew", 0x0590, 0x05FF),
    ("arabic", 0x0600, 0x077F),
    ("devanagari", 0x0900, 0x097F),
    ("bengali", 0x0980, 0x09FF),
    ("thai", 0x0E00, 0x0E7F),
    ("korean", 0x1100, 0x11FF),
    ("korean", 0xAC00, 0xD7A3),
    # Japanese mixes kana and Han, so both count as one script.
    ("han", 0x3040, 0x30FF),
    ("han", 0x3400, 0x9FFF),
    ("han", 0x20000, 0x3FFFF),
)


class Vocabulary:
    """A set of words for lookup in any inflection.

    Args:
        given: Normalised words.
    """

    __slots__ = ("_alike", "_numbers", "_stems", "_words")

    def __init__(self, given: Iterable[str]) -> None:
        self._words = frozenset(given)
        self._alike: Mapping[str, list[str]] | None = None
        self._stems: dict[str, Mapping[str, set[str]]] = {}
        self._numbers: frozenset[str] | None = None

    @property
    def numbers(self) -> frozenset[str]:
        """The significant digits of its numbers."""
        if self._numbers is None:
            self._numbers = frozenset(
                number for number in map(significant, self._words) if number is not None
            )
        return self._numbers

    def __contains__(self, word: str) -> bool:
        """Return whether it contains this word, an inflection of it, or this number."""
        if word in self._words:
            return True
        number = significant(word)
        if number is not None:
            return number in self.numbers
        beginning = word[:_STEM_CHARS]
        if self._alike is None:
            self._alike = _by_beginning(self._words)
        if beginning not in self._alike or not beginning.isalpha():
            return False
        # Most words share their beginning with no other; only the stems of those that do are worked out.
        if beginning not in self._stems:
            self._stems[beginning] = _by_stem(self._alike[beginning])
        stems = self._stems[beginning]
        # A form of the word differs from it after the stem.
        return any(
            letters is not None and bool(letters - {word[end : end + 1]})
            for end in _stem_ends(word)
            for letters in (stems.get(word[:end]),)
        )


def _by_beginning(words: Iterable[str]) -> Mapping[str, list[str]]:
    """Group words by their first letters, which all inflections of a word share."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        found[word[:_STEM_CHARS]].append(word)
    return found


def _by_stem(words: Iterable[str]) -> Mapping[str, set[str]]:
    """Map each possible stem of a word to the first letters of its endings.

    A lookup takes a few steps, however many words share a prefix.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for word in words:
        for end in _stem_ends(word):
            found[word[:end]].add(word[end : end + 1])
    return found


def _stem_ends(word: str) -> Iterator[int]:
    """Yield the possible ends of a word's stem: after four letters, before an ending of at most five."""
    for end in range(max(_STEM_CHARS, len(word) - 5), len(word) + 1):
        if _is_ending(word[end:]):
            yield end


def _is_ending(rest: str) -> bool:
    return rest in _ENDINGS or (not rest.isascii() and len(rest) <= 3)


@lru_cache(maxsize=8192)
def significant(word: str) -> str | None:
    """Return the significant digits of a number; None for other words.

    1.8 (million) and 1,800,000 agree. Numbers up to twenty may be English words.
    """
    spelled = _SPELLED.get(word)
    if spelled is None and not word[0].isdecimal():
        return None
    digits = _NOT_SIGNIFICANT.sub("", spelled or word)
    return digits.strip("0") or "0"


def own_words(text: str | TextIndex, known: Vocabulary) -> list[Word]:
    """Return the content words of a text that are not in `known`, without yes, no and footnote marks."""
    original = text if isinstance(text, str) else text.text
    return [
        word
        for word in content_words(text)
        if word.text not in known
        and word.text not in _POLARITY
        and not (word.text.isdecimal() and original[word.start - 1 : word.end + 1] == f"[{word.text}]")
    ]


class Surroundings:
    """A text split into sentences, to look up the context of a span.

    Args:
        index: The text.
        text: Text to read instead, with equal offsets, such as an answer with its tags blanked out.
    """

    __slots__ = ("_cache", "_ends", "_places", "_starts", "_text", "_unread", "index")

    def __init__(self, index: TextIndex, *, text: str | None = None) -> None:
        self.index = index
        self._text = index.text if text is None else text
        self._unread = each_sentence(index.text)
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._places: list[tuple[int, int]] | None = None
        self._cache: dict[tuple[int, int], Vocabulary] = {}

    @property
    def places(self) -> list[tuple[int, int]]:
        """Start and end (exclusive) of all sentences."""
        if self._places is None:
            self._read(len(self.index.text), 1)
            self._places = list(zip(self._starts, self._ends, strict=True))
        return self._places

    def _read(self, end: int, beyond: int) -> None:
        """Split sentences until this many start at `end` or later, or the text ends."""
        missing = beyond - (len(self._starts) - bisect_left(self._starts, end))
        while missing > 0:
            place = next(self._unread, None)
            if place is None:
                return
            self._starts.append(place[0])
            self._ends.append(place[1])
            missing -= place[0] >= end

    def bounds(self, place: tuple[int, int], *, neighbours: int = 0) -> tuple[int, int]:
        """Return a span widened to whole sentences, plus some before and after."""
        self._read(place[1], max(1, neighbours))
        first = bisect_right(self._ends, place[0]) - neighbours
        last = bisect_left(self._starts, place[1]) - 1 + neighbours
        first, last = max(first, 0), min(last, len(self._starts) - 1)
        if first > last:
            return place
        return min(place[0], self._starts[first]), max(place[1], self._ends[last])

    def told(self, place: tuple[int, int], *, neighbours: int = 0) -> str:
        """Return the sentences that overlap a span; see `bounds`."""
        start, end = self.bounds(place, neighbours=neighbours)
        return self._text[start:end]

    def said(self, place: tuple[int, int], *, neighbours: int = 0) -> Vocabulary:
        """Return all words of the sentences that overlap a span; see `bounds`."""
        start, end = self.bounds(place, neighbours=neighbours)
        if (start, end) not in self._cache:
            self._cache[start, end] = Vocabulary(word_texts(self._text[start:end]))
        return self._cache[start, end]


def needed(count: int) -> int:
    """Return how many of a statement's distinct words another text must share to support it."""
    return max(1, -(-count // MIN_SHARE))


def shortfall(
    wanted: Sequence[Word], text: str, said: Vocabulary, told: str, *, of: Sequence[Word] = ()
) -> str | None:
    """Return why the common words are too few to support a statement; None if they suffice.

    Args:
        wanted: The statement's own words, of `text`.
        text: The text that contains them.
        said: The words of the supporting text.
        told: The supporting text.
        of: All own words of the statement's sentence, if that is longer.
    """
    different = {word.text: word for word in wanted}
    shared = [word for name, word in different.items() if name in said]
    enough = needed(len(different))
    if len(shared) < enough:
        return f"it shares {len(shared)} of {len(different)} words with it, at least {enough} are needed"
    sentence = {word.text for word in (*wanted, *of)}
    if len(sentence) < LONG_STATEMENT or sum(word in said for word in sentence) >= 2:
        return None
    if any(_is_strong(word, text, told) for word in shared):
        return None
    return f"the one word in common, {shared[0].text}, says too little of a sentence with {len(sentence)}"


def _is_strong(word: Word, text: str, told: str) -> bool:
    """Return whether one shared word is strong evidence: a number, or a name in both texts."""
    if word.text[0].isdecimal():
        return sum(char.isdecimal() for char in word.text) > 1  # one digit may be a list mark
    before = text[: word.start].rstrip(" \t\"'(\u201c\u2018*_")
    if not text[word.start].isupper() or before[-1:] in {"", "\n", ".", "!", "?", ":", "-", "\u2022"}:
        return False
    if told.islower():
        return True  # written without capitals
    stem = word.text[:_STEM_CHARS]
    return any(
        other.text.startswith(stem) and told[other.start].isupper() and share_stem(word.text, other.text)
        for other in words(told)
    )


def is_answering(said: Vocabulary) -> bool:
    """Return whether yes or no occurs."""
    return any(word in said for word in _POLARITY - {"not"})


def cannot_be_compared(text: str, answer: str, *, question: str) -> bool:
    """Return whether an answer is certainly in another language than a text.

    The question must also certainly be in the answer's language. Languages are distinguished by script, and
    English by its stop words; short texts, which may be names, only by script.
    """
    spoken, asked = _language(answer), _language(question)
    if spoken is None or asked is None or asked[0] != spoken[0]:
        return False
    if (asked[1] is None or asked[1] != spoken[1]) and spoken[0] == "latin" and text.isascii():
        return False  # the text is in this script, or has no words
    other = _language(text)
    if other is None:
        return False
    if other[0] != spoken[0]:
        return True
    return None not in {spoken[1], asked[1], other[1]} and asked[1] == spoken[1] != other[1]


@lru_cache(maxsize=64)
def _language(text: str) -> tuple[str, bool | None] | None:
    """Return the script, and for Latin whether it is English, if certain; None for a text without words."""
    read = [word for word in word_texts(text[:_LANGUAGE_CHARS]) if not word[0].isdecimal()]
    if not read:
        return None
    script = "latin" if text.isascii() else _most_usual_script(read)
    if script != "latin" or len(read) < _MIN_LANGUAGE_WORDS:
        return script, None
    share = sum(map(STOP_WORDS.__contains__, read)) / len(read)
    return script, True if share >= _MUCH_ENGLISH else False if share <= _LITTLE_ENGLISH else None


def _most_usual_script(read: Iterable[str]) -> str:
    # Cached by letter: few first letters occur.
    scripts: Counter[str] = Counter()
    for letter, count in Counter(word[0] for word in read).items():
        scripts[_script(letter)] += count
    return max(scripts, key=scripts.__getitem__)


def _script(letter: str) -> str:
    """Return the script of a letter; languages that share letters have one name."""
    code = ord(letter)
    for name, first, last in _SCRIPTS:
        if first <= code <= last:
            return name
    return "other"
