"""Telephone numbers: with country code, grouped as dialled, or after a word such as "phone". Pure.

Other bare digits are amounts, years and ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from judge.text.sensitive import introduces

_S: Final = r"[ \t./·_-]"
# Not inside a sequence of numbers, unless it starts with a plus.
_BEFORE, _AFTER = (
    r"(?<![\w.+-])(?:(?=\+)|(?<![\d][,/ ]))",
    r"(?:\s?(?:x|ext\.?)\s?\d{1,5})?(?![\w-]|[.,/:]\d)",
)
_FORMS: Final = (
    # +44 20 7946 0958, +1 (555) 010-0199, +49 (0)89 / 123 45 67, 0049 30 901820
    r"(?:\+|00(?=\(?[1-9]\d{0,2}\)?[ ./-]))\(?\d{1,3}(?:[ \t./·_()-]{0,3}\d){6,13}",
    # the same, across lines
    r"\+\d{1,3}(?:[ \t\n./·_()-]{0,3}\d){7,13}",
    # (555) 123-4567, (030) 901820, 1 (800) 555-0199, 8 (800) 555-35-35
    rf"(?:[18]{_S}?)?\((?!1[5-9]\d\d\)|20\d\d\))\d{{2,5}}\){_S}{{0,3}}\d{{1,5}}(?:{_S}{{0,2}}\d{{2,4}}){{1,3}}",
    # 03(1234)5678
    r"0\d{1,3}\(\d{2,4}\)\d{3,4}",
    # 555-123-4567, 1-800-555-0199, 1 800 555 0199
    r"(?:1[ .-])?[2-9]\d{2}(?P<sign>[./·_-])\d{3}(?P=sign)\d{4}",
    r"(?:1 )?[2-9]\d{2}[ \t\n]{1,2}[2-9]\d{2}[ \t\n]{1,2}\d{4}",
    # 020 7946 0958, 01 23 45 67 89, 030/901820, 0171-1234567, 098200-12345
    r"0\d{1,5}[ \t\n/·_-]{1,3}\d{2,8}(?:[ \t\n/·_-]{1,3}\d{2,5}){0,4}",
    r"0\d(?:\.\d{2}){4}|0\d{1,4}(?:\.\d{3,4}){2}",
    # 07700900123, 0612345678: mobile numbers, by length
    r"0[1-9]\d{9}|0[67]\d{8}|\d{9,11}(?=\D{1,8}(?:(?:mobile|cell|home|work|call|whatsapp)\b|\u624b\u673a))",
    # 1300 975 707, 8 800 555 35 35, 612 34 56 78, 11 91234-5678, 98200 12345, 138 0013 8000
    r"1[38]00[ -]\d{3}[ -]\d{3,4}|8[ -]\d{3}[ -]\d{3}[ -]\d{2}[ -]\d{2}|[67]\d{2}(?: \d{2}){3}",
    r"[1-9]\d[ -]9\d{4}-\d{4}|[6-9]\d{4}[ -]\d{5}|1[3-9]\d[ -]\d{4}[ -]\d{4}",
)
_PHONE: Final = re.compile(_BEFORE + "(?:" + "|".join(_FORMS) + ")" + _AFTER, re.ASCII)
_CALLED: Final = re.compile(
    r"(?:(?<![\w./])(?:tel(?:ephone|efon|efono|efone|\.)?|phone|fax|mobil[e]?|mob|cell(?:phone|ular)?|handy|rufnummer|whatsapp|zap|hotline"
    r"|helpline|landline|call(?:\sme)?|ring|ruf\san|sms|text\sme|dial|reach(?:ed|able)?|portable|movil|celular)"
    r"|\u96fb\u8a71(?:\u756a\u53f7)?|\u643a\u5e2f|\u7535\u8bdd|\u624b\u673a|\uc804\ud654|\u0442\u0435\u043b(?:\u0435\u0444\u043e\u043d)?|te\u043b(?:e\u0444o\u043d)?)"
    r"(?:\s?(?:number|no\.?|us|him|her|me|them|at|on|is)){0,3}[ \t]{0,3}[:=.#]?[ \t]{0,3}"
    r"(?P<number>\+?\(?\d{1,5}\)?(?:[ ./·_-]{0,2}\d{1,8}){1,6})(?![\w-]|[.,/:]\d)",
    re.IGNORECASE | re.ASCII,
)
_DATE: Final = re.compile(r"(?:0?[1-9]|[12]\d|3[01])[ ./-](?:0?[1-9]|[12]\d|3[01])[ ./-](?:1\d|20)\d\d(?!\d)")
# "Boston, MA 02110-1301"
_ZIP: Final = re.compile(r"\d{5}-\d{4}")
_STATE: Final = re.compile(r"[A-Z]{2}\s{1,2}$")
_EMPTY_GROUPS: Final = re.compile(r"0\d{0,2}(?: 0{3})+")
_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}([ .])\d{3}(?:\1\d{3})*")
_PAIRS: Final = re.compile(r"0\d(?:[ \t\n/·_-]{1,3}\d\d)*")
_PAIRS_OF_NUMBER: Final = 5


def find(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of telephone numbers."""
    found = {
        match.span()
        for match in _PHONE.finditer(text)
        if _is_number(match[0], least=8)
        and (match[0].startswith("+") or not introduces.a_reference(text, match.start()))
        and not (_ZIP.fullmatch(match[0]) and _STATE.search(text[max(match.start() - 4, 0) : match.start()]))
    }
    found |= {
        match.span("number")
        for match in _CALLED.finditer(text)
        if _is_number(match["number"], least=7) and not _THOUSANDS.fullmatch(match["number"])
    }
    end = 0
    for start, stop in sorted(found, key=lambda place: (place[0], -place[1])):
        if start >= end:
            yield start, stop
            end = stop


def _is_number(number: str, *, least: int) -> bool:
    digits = [char for char in number if char.isdecimal()]
    if not least <= len(digits) <= 15 or _DATE.match(number) or _EMPTY_GROUPS.fullmatch(number):
        return False
    # Consecutive small numbers such as months and days look like pairs, too.
    return _PAIRS.fullmatch(number) is None or len(digits) == 2 * _PAIRS_OF_NUMBER
