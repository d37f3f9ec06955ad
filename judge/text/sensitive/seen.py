"""The visible text in plain characters, with a mapping to the original offsets. Pure."""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from html.entities import html5
from typing import Final

from judge.text.index import neutralize

MIDDLE_DOT: Final = "\u00b7"
_ALIKE: Final = {
    **dict.fromkeys(
        "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\u05be\u1806\u30fc\uff70\ufe58\ufe63\uff0d", "-"
    ),
    **dict.fromkeys("\u3002\uff61\u2024\u06d4\u0701\u0702\ua4f8", "."),
    **dict.fromkeys("\u0387\u2022\u2027\u2219\u22c5\u30fb\uff65\u16eb\u25cf\u25e6", MIDDLE_DOT),
    **dict.fromkeys("\u02d0\u0589\u05c3\u2236\ua789", ":"),
    **dict.fromkeys("\u2044\u2215\u29f8", "/"),
    "\u2800": " ",
    # Letters that look like Latin ones, in the order of the Latin ones below.
    **dict(
        zip(
            "авеорсухіјѕԁһԛԝкмтѵАВЕКМНОРСТХУІЈЅԚԜοανρυικτχεΑΒΕΖΗΙΚΜΝΟΡΤΥΧɑɡı",
            "abeopcyxijsdhqwkmtvABEKMHOPCTXYIJSQWoavpuiktxeABEZHIKMNOPTYXagi",
            strict=True,
        )
    ),
}


def _ranges(codes: list[int]) -> str:
    """Return a regular expression's character class for sorted code points."""
    edges = [
        (code, next_code)
        for place, (code, next_code) in enumerate(zip(codes, [*codes[1:], 0], strict=True))
        if not place or codes[place - 1] != code - 1 or next_code != code + 1
    ]
    return "".join(f"{chr(code)}-" if next_code == code + 1 else chr(code) for code, next_code in edges)


# Combining marks, including vowel signs of some scripts, which no pattern needs.
_MARKS: Final = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in {"Mn", "Me"}]
_MARK: Final = re.compile(f"[{_ranges(_MARKS)}]")
# Escapes of a character: HTML, URL (UTF-8, also double), JSON, and manual obfuscation.
_HEX: Final = "[0-9A-Fa-f]"
_PERCENT: Final = "%(?:25){0,3}"
_NEXT_BYTE: Final = f"{_PERCENT}[89abAB]{_HEX}"
_UNPLAIN: Final = re.compile(
    f"(?P<mark>{_MARK.pattern}+)"
    f"|&(?:amp;){{0,3}}(?P<entity>\\#\\d{{1,7}}(?!\\d)|\\#[xX]{_HEX}{{1,6}}(?!{_HEX})|[A-Za-z]{{2,8}}(?=;));?"
    f"|(?P<bytes>{_PERCENT}(?:[0-7]{_HEX}|[cdCD]{_HEX}{_NEXT_BYTE}|[eE]{_HEX}(?:{_NEXT_BYTE}){{2}}"
    f"|[fF][0-4](?:{_NEXT_BYTE}){{3}}))"
    f"|\\\\{{1,4}}(?:[ux](?P<code>(?<=u){_HEX}{{4}}|(?<=x){_HEX}{{2}})|u\\{{(?P<braced>{_HEX}{{1,6}})\\}}"
    "|(?P<sign>[nrt/\"']))"
    r"|[\[({<](?P<bracketed>[.:@])[\])}>]|(?P<dot>[\[({<]\s?(?:dot|punkt)\s?[\])}>]|(?<=\d) dot (?=\d))"
)
_BYTE: Final = re.compile(f"{_PERCENT}({_HEX}{{2}})")
_BACKSLASHED: Final = {"n": "\n", "r": "\n", "t": "\t"}
_MAX_CODE: Final = 0x10FFFF


class Seen:
    r"""A text without combining marks, each character in its plain form.

    Args:
        text: The text.
        decoded: Whether escapes (`&#64;`, `%40`, `\u0040`, `[.]`) are decoded.
    """

    def __init__(self, text: str, *, decoded: bool = False) -> None:
        self.text = text
        """The visible text."""
        self.is_decoded = False
        """Whether an escape was decoded."""
        # For each invisible run: the number of visible characters before its end, and of invisible ones up to
        # there.
        self._ends = array("q")
        self._unseen = array("q", [0])
        if decoded or not text.isascii():
            parts = self._parts(text, _UNPLAIN if decoded else _MARK)
            self.text = "".join(parts).translate(_PLAIN)

    def _parts(self, text: str, expression: re.Pattern[str]) -> Iterator[str]:
        size = end = unseen = 0
        for match in expression.finditer(text):
            char = _stands_for(match) if match.re is _UNPLAIN else ""
            if char is None:
                continue
            self.is_decoded |= match.re is _UNPLAIN and match["mark"] is None
            yield text[end : match.start()]
            yield char
            size += match.start() - end + len(char)
            end = match.end()
            unseen += end - match.start() - len(char)
            self._ends.append(size)
            self._unseen.append(unseen)
        yield text[end:]

    def place(self, start: int, stop: int) -> tuple[int, int]:
        """Return the original start and end (exclusive) of visible characters, with their marks."""
        if not self._ends:
            return start, stop
        return self._original(start), self._original(stop)

    def _original(self, position: int) -> int:
        return position + self._unseen[bisect_right(self._ends, position)]


def _stands_for(match: re.Match[str]) -> str | None:
    """Return the character of an escape; empty if invisible, None if invalid."""
    char = "." if match["dot"] else match["sign"] or match["bracketed"]
    if char is not None:
        return _BACKSLASHED.get(char, char)
    if match["bytes"] is not None:
        char = bytes.fromhex("".join(_BYTE.findall(match["bytes"]))).decode(errors="replace")
    elif match["entity"] is not None and not match["entity"].startswith("#"):
        char = html5.get(f"{match['entity']};", "")
    elif match["mark"] is not None:
        return ""
    else:
        code = _code(match)
        char = chr(code) if code <= _MAX_CODE else ""
    if len(char) != 1:
        return None
    return _MARK.sub("", neutralize(char))


def _code(match: re.Match[str]) -> int:
    entity = match["entity"]
    if entity is None:
        return int(match["code"] or match["braced"], 16)
    return int(f"0{entity[1:]}" if entity[1] in "xX" else entity[1:].lstrip("0") or "0", 0)


class _Plain(dict[int, str]):
    """Plain forms of characters; computed on first use."""

    def __missing__(self, code: int) -> str:
        char = _plain_char(chr(code))
        if len(self) < 10_000:
            self[code] = char
        return char


_PLAIN: Final = _Plain()


@lru_cache(maxsize=1024)
def _plain_char(char: str) -> str:
    """Return the character's plain form, one character."""
    known = _ALIKE.get(char)
    if known is not None:
        return known
    if char.isspace():
        return char if char in "\t\n" else " "
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    folded = _MARK.sub("", unicodedata.normalize("NFKD", char))
    folded = _ALIKE.get(folded, folded)
    return folded if len(folded) == 1 and folded.isascii() else char
