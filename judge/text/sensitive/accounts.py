"""Numbers of cards and bank accounts, told by their check digits. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_CARD = re.compile(
    r"(?<![\w-])(?<!\d\.)(?:[2-6]\d{3}(?:[ .-]{0,2}\d{4}){3}(?:[ -]\d{3})?|3[47]\d{2}[ -]\d{6}[ -]\d{5}|[2-6]\d{11,18})(?![\w-]|\.\d)"  # noqa: E501
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[ -]?\d{2}(?=\s{0,2}[.-]?[A-Za-z0-9])")
_BETWEEN: Final = frozenset(" \t\n.-")
_GAP: Final = 2
# ISO 13616: characters of an account number, country and check digits included.
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


def find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Where payment card numbers stand: 12 to 19 digits with a right check digit (ISO/IEC 7812)."""
    for match in _CARD.finditer(text):
        if _passes_luhn(match[0]):
            yield match.span()


def find_ibans(text: str) -> Iterator[tuple[int, int]]:
    """Where IBANs stand: of their country's length and with right check digits (ISO 13616)."""
    end = 0
    for match in _IBAN.finditer(text):
        size = _IBAN_CHARS.get(match[0][:2].upper())
        if size is None or match.start() < end:
            continue
        stop = _stop(text, match.start(), size)
        if stop is not None and _passes_mod_97(text[match.start() : stop]):
            end = stop
            yield match.start(), stop


def _stop(text: str, start: int, size: int) -> int | None:
    """Where this many letters and digits end, with two blanks or signs between them at most.

    None where they do not.
    """
    place, left = start, size
    while left:
        for _ in range(_GAP if left < size else 0):
            place += text[place : place + 1] in _BETWEEN
        char = text[place : place + 1]
        if not (char.isascii() and char.isalnum()):
            return None
        place += 1
        left -= 1
    return None if text[place : place + 1].isalnum() else place


def _passes_mod_97(account: str) -> bool:
    chars = "".join(char for char in account.upper() if char not in _BETWEEN)
    return int("".join(str(int(char, 36)) for char in chars[4:] + chars[:4])) % 97 == 1


def _passes_luhn(digits: str) -> bool:
    """Whether the check digit of a card's number is right."""
    total = 0
    for place, char in enumerate(reversed([char for char in digits if char.isdecimal()])):
        digit = int(char) * (1 + place % 2)
        total += digit - 9 if digit > 9 else digit
    return total % 10 == 0
