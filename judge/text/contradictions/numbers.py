# ruff: noqa: RUF001 - words of several languages, some of whose letters look alike
"""Values of numbers in digits and in words. Pure."""

from __future__ import annotations

import re
from fractions import Fraction

from judge.text.contradictions.reading import fold

_SMALL = """
    zero|null|sıfır one|صفر two|zwei|deux|dos|iki|اثنان|اثنين three|drei|trois|tres|üç|ثلاثة|ثلاث
    four|vier|quatre|cuatro|dört|أربعة|أربع
    five|fünf|cinq|cinco|beş|خمسة|خمس six|sechs|seis|altı|ستة|ست seven|sieben|sept|siete|yedi|سبعة|سبع
    eight|acht|huit|ocho|sekiz|ثمانية|ثماني nine|neun|neuf|nueve|dokuz|تسعة|تسع ten|zehn|dix|diez|on|عشرة|عشر
    eleven|elf|onze|once twelve|zwölf|douze|doce thirteen fourteen fifteen sixteen seventeen eighteen nineteen
    twenty
"""
SPELLED = {fold(name): number for number, names in enumerate(_SMALL.split()) for name in names.split("|")} | {
    name: ten * 10
    for ten, name in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2
    )
}
# Excluded: words with another meaning in another language ("on" is ten in Turkish, "once" eleven in Spanish,
# "elf" and "dos" are English words).
for _name in ("on", "once", "elf", "sept", "seis", "null", fold("صفر")):
    SPELLED.pop(_name, None)
"""Small numbers by folded word."""

_POINTS = re.compile(r"[.,]")


def written_values(text: str) -> list[tuple[Fraction, Fraction]]:
    """Return the possible values of a written number, each with its last decimal place.

    A point or comma before exactly three digits may be decimal or group thousands; three or more trailing
    zeros may be rounding.
    """
    digits = text.replace("\u00a0", "").replace(" ", "").replace("'", "")
    if len(digits) > 30:
        return [(Fraction(int(_POINTS.sub("", digits)[:30])), Fraction(1))]
    parts = _POINTS.split(digits)
    signs = _POINTS.findall(digits)
    whole = int("".join(parts))
    grouped = all(len(part) == 3 for part in parts[1:]) and len(parts[0]) <= 3
    if not signs:
        return [_integer(whole)]
    found = []
    if len(set(signs)) == 1 and grouped:
        found.append(_integer(whole))
        if len(signs) == 1:
            found.append(_decimal(parts[0], parts[1]))
    elif len(signs) == 1:
        found.append(_decimal(parts[0], parts[1]))
    elif len(set(signs[:-1])) == 1 and signs[-1] != signs[0]:
        found.append(_decimal("".join(parts[:-1]), parts[-1]))
    elif signs == ["," for _ in signs]:
        found.append(_integer(whole))  # 1,00,000
    return found or [(Fraction(whole), Fraction(1))]


def _integer(value: int) -> tuple[Fraction, Fraction]:
    text = str(value)
    zeros = len(text) - len(text.rstrip("0")) if value else 0
    return Fraction(value), Fraction(10**zeros if zeros >= 3 else 1)


def _decimal(whole: str, decimals: str) -> tuple[Fraction, Fraction]:
    places = Fraction(1, 10 ** len(decimals))
    return Fraction(int(whole + decimals)) * places, places
