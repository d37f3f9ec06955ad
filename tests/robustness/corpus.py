"""Texts, by name and size, on which careless code takes quadratic time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

_REPEATED: Final = {
    "blanks": " ", "line ends": "\n", "carriage returns": "\r", "dots": ".", "dots and quotes": '."',
    "stops": "?!.", "wide stops": "\u3002", "colons": ":", "letters": "a", "capitals": "A", "digits": "7",
    "wide digits": "\u0667", "letters and blanks": "a ", "digits and blanks": "1 ", "digits and dots": "1.",
    "digits and commas": "1,", "digits and hyphens": "1-", "hex and colons": "a:", "letters and dots": "a.",
    "letters and hyphens": "a-", "letters and underscores": "a_", "underscores": "_", "hyphens": "-",
    "slashes": "/", "backslashes": "\\", "stars": "*", "pluses": "+", "percent": "%41", "quotes": '"',
    "single quotes": "'", "back ticks": "`", "signs and quotes": "a'", "at signs": "@",
    "letters and at signs": "a@", "opened": "[", "closed": "]", "opened and closed": "[]", "round": "(",
    "braces": "{", "brace and name": '{"a":', "angles": "<", "pipes": "| ", "table cells": "| Ab 1 ",
    "tables": "Name Alpha Beta 12 | ", "tags": "[Page 1]", "tags and text": "Rain [Page 2] ",
    "open tags": "[Page 1", "pages": "Page ", "page numbers": "page 1,", "ranges": "[Pages 1-999999999] ",
    "page lists": "1,2-3 and ", "evidence": "Evidence: ", "evidence, opened": "(evidence ",
    "sentences": "Rain fell. ", "abbreviations": "Mr. ", "list marks": "1. ", "initials": "A. ",
    "lines": "- a\n", "list of claims": "- Rain fell on 3 days. Evidence: [Page 1]\n", "-eyJ": "-eyJ",
    "web tokens": "eyJhbGciOi", "web tokens with dots": "eyJhbGciOi.",
    "web tokens, two parts": "eyJaaaaaaaa.eyJ", "key blocks": "-----BEGIN PRIVATE KEY-----",
    "key names": "password", "assignments": "password=", "assignments, spaced": "token : ",
    "bearers": "Bearer ", "basics": "Authorization: Basic ", "addresses": "http://a:", "schemes": "://",
    "phones": "+1 ", "phone groups": "(12) 34-", "long groups": "020 7946 ",
    "account numbers": "GB82 WEST ", "cards": "4111 1111 ", "addresses v6": "::", "key prefixes": "sk-",
    "fences": "<<<", "code fences": "```\n", "grown by NFKC": "\ufdfa", "grown and blank": "\ufdfa ",
    "Korean": "\ud55c\uad6d\uc5b4 ", "Korean, unspaced": "\ud55c\uad6d", "Thai": "\u0e01\u0e33",
    "Han": "\u6c49", "marks": "\u0301", "marks out of order": "\u0301\u0316",
    "letter and marks": "e\u0301\u0316", "joiners": "\u200b", "letter and joiner": "a\u200b",
    "soft hyphens": "a\u00ad", "overrides": "\u202e", "sharp s": "\u00df", "dotted capital": "\u0130",
    "ligatures": "\ufb03", "lone surrogates": "\ud800", "nulls": "\x00",
    "emoji": "\U0001f468\u200d\U0001f469", "tabs": "\t", "wide forms": "\uff21\uff10\uff0e",
    "curly": "\u201c\u2019", "long dashes": "\u2014 ", "questions": "Who was it? ", "refusals": "I cannot ",
    "counts": "Fact: 2 of 3 ", "fact": "fact", "numbers spelled": "twenty ", "ordinals": "1st ",
    "thousands": "1,000,",
}  # fmt: skip


_SYLLABLE: Final = ("bdfgklmnprst", "aeiou")


def _joined(*letters: str, repeat: int) -> Iterator[str]:
    return map("".join, itertools.product(*letters, repeat=repeat))


def _filled(words: Iterable[str], size: int) -> str:
    parts: list[str] = []
    length = 0
    for word in itertools.cycle(words):
        parts.append(word)
        length += len(word) + 1
        if length >= size:
            break
    return " ".join(parts)[:size]


def _repeated(unit: str) -> Callable[[int], str]:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def _after(beginning: str, unit: str, end: str = "") -> Callable[[int], str]:
    return lambda size: (
        f"{beginning}{(unit * (size // len(unit) + 1))[: max(size - len(beginning) - len(end), 0)]}{end}"
    )


TEXTS: Final[Mapping[str, Callable[[int], str]]] = {
    **{name: _repeated(unit) for name, unit in _REPEATED.items()},
    "one stem": lambda size: _filled(("stem" + one for one in _joined("abcdefghij", repeat=5)), size),
    "different words": lambda size: _filled(_joined(*_SYLLABLE, repeat=3), size),
    "different sentences": lambda size: _filled(
        (f"The {one.title()} of {n} is {n * 7}." for n, one in enumerate(_joined(*_SYLLABLE, repeat=3))), size
    ),
    "different Korean": lambda size: "".join(chr(0xAC00 + place % 3000) for place in range(size)),
    "different signs": lambda size: "".join(chr(0xA1 + place * 7 % 0x1000) for place in range(size)),
    "different tags": lambda size: _filled(
        (f"Rain {number} fell [Page {number}]." for number in itertools.count()), size
    ),
    "pages of one claim": lambda size: _filled(
        ("Rain fell", *(f"[Page {number}]" for number in range(size))), size
    ),
    "nested JSON": lambda size: '{"a":' * (size // 5),
    "nested lists": lambda size: '{"score": ' + "[" * (size - 10),
    "deep JSON": lambda size: '{"a":' * (size // 6) + "1" + "}" * (size // 6),
    "objects": lambda size: '{"a": {"b": 1}, "c" ' * (size // 20),
    "braces in a string": lambda size: '{"' + "{" * size,
    "digits in JSON": lambda size: '{"score": ' + "9" * size + "}",
    "an address that does not end": _after("http://", "a"),
    "a user that does not end": _after("http://user:", "a"),
    "an e-mail that does not end": _after("a@", "a."),
    "a long local part": _after("", "a", "@example.com"),
    "a tag that does not end": _after("[Page ", "1"),
    "a tag of blanks": _after("[", " ", "]"),
    "a tag grown by NFKC": _after("Rain [Page ", "\ufdfa", "]"),
    "a lead-in of stars": _after("Rain. Evidence: ", "*", "[Page 1]"),
    "stops without an end": _after("Rain", ".", "x"),
    "a key that does not end": _after("-----BEGIN PRIVATE KEY-----", "A"),
    "a long secret": _after("password: ", "x"),
    "a letter and its marks": _after("e", "\u0301"),
}
"""Makes a text of about this many characters."""


PLAIN: Final = (
    "blanks", "letters", "digits", "underscores", "at signs", "opened", "quotes", "line ends", "slashes",
    "different signs",
)  # fmt: skip
"""Rows of one character: what most expressions stumble over, if any."""


@lru_cache(maxsize=32)
def text(name: str, size: int) -> str:
    return TEXTS[name](size)


def as_json_text(value: str) -> bytes:
    return json.dumps(value).encode()
