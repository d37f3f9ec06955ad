"""Card and bank account numbers, recognised by their check digits. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from judge.text.sensitive import introduces

_BETWEEN: Final = " \t\n./_·|+*-"
_GAP: Final = 3
_S: Final = f"[{_BETWEEN}]{{1,{_GAP}}}"
# Groups as printed on cards or read aloud. Single digits or pairs are one number only if they end where a
# card's number ends.
_SHAPES: Final = (
    r"\d{13,19}",
    rf"\d{{4}}(?:[{_BETWEEN}]{{0,{_GAP}}}\d{{4}}){{2}}[{_BETWEEN}]{{0,{_GAP}}}\d{{1,4}}(?:{_S}\d{{1,3}})?",
    rf"\d{{4}}{_S}\d{{6}}{_S}\d{{4,5}}",
    rf"\d{{3}}{_S}\d{{6}}{_S}\d{{6}}",
    rf"\d{{6}}{_S}\d{{7,13}}",
    r"(?<!\d[ .-])\d\d([ .-])\d\d(?:\1\d\d){5,6}(?!\1?\d)",
    r"(?<!\d[ .-])\d([ .-])\d(?:\2\d){11,17}(?!\2?\d)",
)
_CARD: Final = re.compile(rf"(?<![\w+-])(?<!\d\.)(?=[2-6])(?:{'|'.join(_SHAPES)})(?![\w-]|\.\d)", re.ASCII)
# ISO/IEC 7812: prefixes and lengths of issuers' numbers.
_ISSUERS: Final = (
    (re.compile(r"4"), {13, 16, 19}),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720|220[0-4]"), {16}),
    (re.compile(r"3[47]"), {15}),
    (re.compile(r"30[0-5]|3095|3[689]"), {14, 16}),
    (re.compile(r"35(?:2[89]|[3-8])"), {16, 17, 18, 19}),
    (re.compile(r"50|5[6-8]|6"), {13, 14, 15, 16, 17, 18, 19}),
)
_LAST_GROUP: Final = re.compile(r"\D{1,3}\d{1,4}$")
_IBAN: Final = re.compile(
    rf"(?<![A-Za-z0-9])[A-Za-z] ?[A-Za-z][{_BETWEEN}]{{0,2}}\d ?\d(?=[{_BETWEEN}]{{0,{_GAP}}}[A-Za-z0-9])"
)
# ISO 13616: length of an account number, country and check digits included.
_IBAN_CHARS: Final = {
    name: size
    for size, names in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for name in names.split()
}  # fmt: skip


_LEAST_DIGITS: Final = 0.4
"""Minimum share of digits in an account number; otherwise words after "at 10" would match."""


def find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of payment card numbers: an issuer's length and a valid check digit (ISO/IEC 7812)."""
    for match in _CARD.finditer(text):
        number = match[0]
        # A date or another number may follow: 4111 1111 1111 1111/12/27.
        for part in (number, _LAST_GROUP.sub("", number)):
            if _is_card(part) and not introduces.a_reference(text, match.start()):
                yield match.start(), match.start() + len(part)
                break


def find_ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of IBANs: their country's length and valid check digits (ISO 13616)."""
    end = 0
    for match in _IBAN.finditer(text):
        size = _IBAN_CHARS.get(match[0].replace(" ", "")[:2].upper())
        if size is None or match.start() < end:
            continue
        found = _account(text, match.start(), size)
        if found is not None and _passes_mod_97(found[0]):
            end = found[1]
            yield match.start(), end


def _account(text: str, start: int, size: int) -> tuple[str, int] | None:
    """Return `size` letters and digits and their end, at most three separators apart; else None."""
    place, found = start, ""
    while len(found) < size:
        for _ in range(_GAP if found else 0):
            char = text[place : place + 1]
            place += char != "" and char in _BETWEEN
        char = text[place : place + 1]
        if not (char.isascii() and char.isalnum()):
            return None
        place += 1
        found += char
    if text[place : place + 1].isascii() and text[place : place + 1].isalnum():
        return None
    return found, place


def _passes_mod_97(account: str) -> bool:
    if sum(map(str.isdecimal, account)) < _LEAST_DIGITS * len(account):
        return False
    return int("".join(str(int(char, 36)) for char in account[4:] + account[:4])) % 97 == 1


def _is_card(number: str) -> bool:
    digits = "".join(filter(str.isdecimal, number))
    return _passes_luhn(digits) and any(
        begins.match(digits) and len(digits) in sizes for begins, sizes in _ISSUERS
    )


def _passes_luhn(digits: str) -> bool:
    """Return whether a card number's check digit is valid."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        digit = int(char) * (1 + place % 2)
        total += digit - 9 if digit > 9 else digit
    return total % 10 == 0
