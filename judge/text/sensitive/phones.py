"""Telephone numbers: with their country code, grouped as they are dialled, or after a word that says so.

Pure.

Bare digits elsewhere are amounts, years and ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A number within a row of numbers is none, but a plus begins one.
_BEFORE, _AFTER = r"(?<![\w.+-])(?:(?=\+)|(?<![\d][,/ ]))", r"(?![\w-]|[.,/]\d)"
_FORMS = (
    # +44 20 7946 0958, +1 (555) 010-0199, 0049 30 901820
    r"(?:\+|00(?=[1-9]\d{0,2}[ .-]))\d{1,3}[ .-]{0,2}(?:\(\d{1,4}\)[ .-]{0,2})?\d{1,4}(?:[ ./-]{0,2}\d{2,4}){1,4}",  # noqa: E501
    # (555) 123-4567, (030) 901820, 1 (800) 555-0199
    r"(?:1[ .-]?)?\(\d{2,5}\)[ ./-]?\d{2,4}(?:[ .-]?\d{2,4}){1,3}",
    # 555-123-4567, 1-800-555-0199, 1 800 555 0199
    r"(?:1[ .-])?[2-9]\d{2}([.-])\d{3}\1\d{4}|(?:1 )?[2-9]\d{2} [2-9]\d{2} \d{4}",
    # 020 7946 0958, 01 23 45 67 89, 030/901820, 0171-1234567
    r"0\d{1,5}[ /-]\d{2,8}(?:[ -]\d{2,4}){0,4}|0\d(?:\.\d{2}){4}|0[1-9]\d{8,9}(?=\D{1,3}(?:mobile|cell|home|work)\b)",  # noqa: E501
)
_PHONE = re.compile(_BEFORE + "(?:" + "|".join(_FORMS) + ")" + _AFTER)
_CALLED = re.compile(
    r"\b(?:tel(?:ephone|efon|\.)?|phone|fax|mobile|cell(?:phone)?|handy|whatsapp|hotline|helpline|landline|call(?:\sme)?|ring|sms|text\sme|dial|reach(?:ed|able)?)"
    r"(?:\s?(?:number|no\.?|us|him|her|me|them|at|on|is)){0,3}[ \t]{0,3}[:=.#]?[ \t]{0,3}"
    r"(?P<number>\+?\(?\d{1,5}\)?(?:[ ./-]{0,2}\d{1,8}){1,6})(?![\w-]|[.,/]\d)",
    re.IGNORECASE,
)
_DATE = re.compile(r"(?:0?[1-9]|[12]\d|3[01])[ ./-](?:0?[1-9]|[12]\d|3[01])[ ./-](?:1\d|20)\d\d")
_EMPTY_GROUPS = re.compile(r"0\d{0,2}(?: 0{3})+")


def find(text: str) -> Iterator[tuple[int, int]]:
    """Where telephone numbers stand."""
    found = {match.span() for match in _PHONE.finditer(text) if _is_number(match[0], least=8)}
    found |= {
        match.span("number") for match in _CALLED.finditer(text) if _is_number(match["number"], least=7)
    }
    end = 0
    for start, stop in sorted(found, key=lambda place: (place[0], -place[1])):
        if start >= end:
            yield start, stop
            end = stop


def _is_number(number: str, *, least: int) -> bool:
    digits = sum(char.isdecimal() for char in number)
    return least <= digits <= 15 and not _DATE.fullmatch(number) and not _EMPTY_GROUPS.fullmatch(number)
