"""Read the quantities of a sentence: numbers with magnitude and unit, and dates. Pure.

A quantity keeps every plausible reading (1.200, "5 m", "3 pounds"): two quantities differ only if no
readings agree, because a wrong accusation costs an honest verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, NamedTuple

from judge.text.normal import UNSPACED
from judge.text.words import fold, folded_words, read_data

MAX_CHARS: Final = 2000
_YEAR = re.compile("1[0-9]{3}|20[0-9]{2}|2100")
"""Years, unless a unit follows."""
ABOUT, LIMIT = 0.25, 1e12
"""Tolerances of rounded numbers and of limits, as a share of the number: a limit agrees with any number."""
_MAX_DIGITS = 15

Kind = Literal["word", "number", "date", "time", "sign"]
Difference = Literal["number", "unit", "date"]
Comparison = Literal["same", "unknown"] | Difference


class Token(NamedTuple):
    """A folded word, number or sign; `glued` if no blank precedes it."""

    kind: Kind
    text: str
    glued: bool


# Ignored: footnotes, evidence tags, emphasis, list numbers.
_ASIDE = re.compile(
    r"\[\^?[\d,; -]{1,20}\]|\u3010[^\u3010\u3011]{1,60}\u3011|[*_`]{1,3}"
    r"|^\s{0,9}(?:[-*+\u2022]|\d{1,2}[.)])\s"
)
_LETTER = rf"[^\W\d_{UNSPACED}]"
_TOKEN = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2}(?!\d)|\d{1,2}(?P<point>[./])\d{1,2}(?P=point)(?:\d{4}|\d{2})(?!\d))"
    r"|(?P<time>\d{1,2}:\d{2}(?!\d))"
    r"|(?P<number>\d{1,3}(?:[\u00a0' ]\d{3})+(?!\d)|\d+(?:[.,]\d+)*)"
    rf"|(?P<word>km/h\b|m/s\b|{_LETTER}+(?:-?\d\w*|(?:'{_LETTER}+)*[\u00b2\u00b3]?)|[{UNSPACED}])"
    r"|(?P<sign>[^\w\s])"
)

_POINT, _GROUPING = re.compile("[.,]"), re.compile("[\u00a0' ]")


def _units() -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for dimension, factors in read_data("units.toml").items():
        for factor, names in factors.items() if dimension != "magnitudes" else ():
            for name in names.split():
                found.setdefault(fold(name), []).append((dimension, float(Fraction(factor))))
    return found


_UNITS: Final = _units()
_MAGNITUDES: Final[Mapping[str, float]] = {
    fold(name): float(factor)
    for factor, names in read_data("units.toml")["magnitudes"].items()
    for name in names.split()
}
_AFTER: Final = "|".join(
    re.escape(name).replace("_", r"\W{1,3}")
    for name in sorted({*_UNITS, *_MAGNITUDES, "de"}, key=len, reverse=True)
)
NUMBERED: Final = re.compile(rf"(?:minus\s)?[^\w\s]?\d[\w.,:/]*(?:\W{{0,3}}(?:{_AFTER})(?!{_LETTER})){{0,3}}")
"""A number with the sign before it, and the magnitudes and units after it: equal ones agree."""
_UNSURE: Final = frozenset({"m", "mm", "b", "t"})
_SIGNS: Final = frozenset("$\u20ac\u00a3\u00a5\u20b9\u20ba")
MONTHS: Final = {
    fold(name): number
    for language in read_data("languages.toml").values()
    for number, names in enumerate(language["months"], 1)
    for name in names.split()
}
_WITH_DIGITS: Final = frozenset({"number", "date"})
_IN_DATES: Final = frozenset(
    {"of", "de", "del", "du", ",", ".", "the", "le", "el", "st", "nd", "rd", "th", "er", "º"}
)
_ABOUT: Final = folded_words("about")
_LIMITS: Final = folded_words("bounds")
_RANGES: Final = folded_words("ranges")


@dataclass(frozen=True, slots=True)
class Date:
    """A full or partial date; an ambiguous numeric one (03/12/2019) counts as its year."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def differs(self, other: Date) -> bool:
        mine, its = self.year, other.year
        if mine is not None and its is not None and min(mine, its) < 100:
            mine, its = mine % 100, its % 100  # two digits may be of any century
        parts = (mine, its), (self.month, other.month), (self.day, other.day)
        return any(one is not None and two is not None and one != two for one, two in parts)


class Reading(NamedTuple):
    """One reading of a number, exact to half of `step`, in a unit of a dimension (empty: none)."""

    number: float
    step: float
    dimension: str = ""
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number or date: the tokens from `place` to `end` (exclusive)."""

    place: int
    end: int
    readings: tuple[Reading, ...] = ()
    date: Date | None = None
    tolerance: float = 0.0

    def difference(self, other: Quantity) -> Difference | None:
        """None: they may agree."""
        found = set(self._compared(other))
        differences: tuple[Difference, ...] = ("date", "unit", "number")
        return None if "same" in found else next((one for one in differences if one in found), None)

    def agrees(self, other: Quantity) -> bool:
        return "same" in self._compared(other)

    def _compared(self, other: Quantity) -> Iterator[Comparison]:
        if self.date is not None and other.date is not None:
            yield "date" if self.date.differs(other.date) else "same"
            return
        # Two limits are compared like plain numbers.
        both_limits = self.tolerance == other.tolerance == LIMIT
        tolerance = 0.0 if both_limits else max(self.tolerance, other.tolerance)
        for mine in self.readings:
            for its in other.readings:
                yield _compared(mine, its, tolerance)


def _compared(mine: Reading, its: Reading, tolerance: float) -> Comparison:
    equal = mine.number == its.number
    if mine.dimension != its.dimension:
        if mine.dimension and its.dimension:
            # Equal numbers differ by their unit (500 mg, 500 ml); others may be a paraphrase (2 km, 3 h).
            return "unit" if equal else "unknown"
        return "same" if _near(mine.number, its.number, max(mine.step, its.step), tolerance) else "unknown"
    step = max(mine.step * mine.factor, its.step * its.factor)
    if _near(mine.number * mine.factor, its.number * its.factor, step, tolerance):
        return "same"
    return "unit" if equal else "number"


def _near(one: float, other: float, step: float, tolerance: float) -> bool:
    size = max(abs(one), abs(other))
    return abs(one - other) <= max(step / 2, tolerance * size) + 1e-9 * size


def tokens(text: str) -> Iterator[Token]:
    if len(text) > MAX_CHARS:
        return
    last = 0
    for match in _TOKEN.finditer(_ASIDE.sub(" ", fold(text))):
        kind = match.lastgroup
        start, end = match.span()
        yield Token("date" if kind == "point" else kind, match[0], start == last)  # type: ignore[arg-type]
        last = end


def quantities(row: Sequence[Token]) -> list[Quantity]:
    found: list[Quantity] = []
    place = 0
    while place < len(row):
        kind, text, _ = row[place]
        quantity = _quantity(row, place) if kind in _WITH_DIGITS or text in MONTHS else None
        if quantity is None:
            place += 1
            continue
        place = quantity.end
        earlier = found[-1] if found else None
        if earlier and quantity.place - earlier.end == 1 and row[earlier.end].text in _RANGES:
            # The ends of a range ("2 to 4") are limits.
            found[-1] = replace(earlier, tolerance=LIMIT)
            quantity = replace(quantity, tolerance=LIMIT)
        found.append(quantity)
    return found


def _quantity(row: Sequence[Token], place: int) -> Quantity | None:
    token = row[place]
    if token.kind == "date":
        date = _numeric_date(token.text)
        return None if date is None else Quantity(place, place + 1, date=date)
    if token.kind == "number" or token.text in MONTHS:
        dated = _named_date(row, place)
        if dated is not None:
            return Quantity(place, dated[1], date=dated[0])
    return _number(row, place) if token.kind == "number" else None


def _numeric_date(text: str) -> Date | None:
    """Parse 2019-03-12, 12.03.2019 or 03/12/2019."""
    if "-" in text:
        year, month, day = map(int, text.split("-"))
    else:
        day, month, year = map(int, text.replace("/", ".").split("."))
        if "/" in text and day <= 12 and month <= 12:
            return Date(year)
        if month > 12:
            day, month = month, day
    return Date(year, month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _named_date(row: Sequence[Token], place: int) -> tuple[Date, int] | None:
    """Parse "12 March 2019" or "mayo de 1820", and return the end; a month alone may be another word."""
    day, after = _day(row, place)
    month = MONTHS.get(row[after].text) if after < len(row) else None
    if month is None:
        return None
    end = after + 1
    if day is None:
        day, after = _day(row, _past(row, end))
        end = after if day is not None else end
    place_of_year = _past(row, end)
    if place_of_year < len(row) and _is_year(row[place_of_year]):
        return Date(int(row[place_of_year].text), month, day), place_of_year + 1
    return None if day is None else (Date(None, month, day), end)


def _day(row: Sequence[Token], place: int) -> tuple[int | None, int]:
    """Return the day at a token, and the place after it and the words that follow days."""
    text = row[place].text if place < len(row) and row[place].kind == "number" else ""
    if text.isdecimal() and len(text) <= 2 and 1 <= int(text) <= 31:
        return int(text), _past(row, place + 1)
    return None, place


def _past(row: Sequence[Token], place: int) -> int:
    for _ in range(3):
        if place < len(row) and row[place].text in _IN_DATES:
            place += 1
    return place


def _is_year(token: Token) -> bool:
    return token.kind == "number" and _YEAR.fullmatch(token.text) is not None


def _number(row: Sequence[Token], place: int) -> Quantity | None:
    values = _written_values(row[place].text)
    if _is_negative(row, place):
        values = [(-number, step) for number, step in values]
    before = row[place - 1].text if place else ""
    currency = _UNITS[before] if before in _SIGNS else []
    end = place + 1
    follower = row[end] if end < len(row) else Token("sign", "", glued=False)
    names_unit = follower.text in _UNITS or follower.text in _MAGNITUDES or bool(currency)
    if _is_year(row[place]) and not names_unit:
        is_decade = follower.glued and follower.text == "s"
        year = None if is_decade else Date(int(row[place].text))
        return Quantity(
            place,
            end,
            (Reading(values[0][0], 1.0),),
            year,
            LIMIT if is_decade else _tolerance(row, place, end),
        )
    if follower.glued and follower.kind == "word" and not names_unit:
        return None  # 5G, 3D: a name
    while end < len(row) and row[end].text in _MAGNITUDES and row[end].text not in _UNSURE:
        size = _MAGNITUDES[row[end].text]
        values = [(number * size, step * size) for number, step in values]
        end += 1
        end += end < len(row) and row[end].text in {"de", "d'"}
    named, end, unsure = _unit(row, end, currency)
    sizes = [(1.0, named), *([] if unsure is None else [(unsure, currency)])]
    readings = tuple(
        Reading(number * size, step * size, *unit)
        for size, units in sizes
        for number, step in values
        for unit in units or [("", 1.0)]
    )
    return Quantity(place, end, readings, None, _tolerance(row, place, end))


def _unit(
    row: Sequence[Token], end: int, currency: list[tuple[str, float]]
) -> tuple[list[tuple[str, float]], int, float | None]:
    """Return the possible units at a token, the place after them, and the size of an unsure magnitude."""
    name = row[end].text if end < len(row) else ""
    size = _MAGNITUDES[name] if name in _UNSURE else None
    if currency:
        return currency, end + (size is not None), size
    phrase = f"{name}_{row[end + 1].text}" if end + 1 < len(row) else ""
    if phrase in _UNITS:
        return _UNITS[phrase], end + 2, None
    return (_UNITS[name], end + 1, size) if name in _UNITS else ([], end, size)


def _is_negative(row: Sequence[Token], place: int) -> bool:
    """A minus sign, not a hyphen or a subtraction."""
    sign = row[place - 1] if place else None
    if sign is None or sign.text not in {"-", "minus"} or (place > 1 and row[place - 2].kind == "number"):
        return False
    return sign.text == "minus" or (row[place].glued and (place == 1 or not sign.glued))


def _tolerance(row: Sequence[Token], place: int, end: int) -> float:
    before = {token.text for token in row[max(0, place - 3) : place]}
    after = [token.text for token in row[end : end + 2]]
    if before & _LIMITS or after[:1] == ["+"] or (len(after) == 2 and set(after) <= _LIMITS):
        return LIMIT
    return ABOUT if before & _ABOUT else 0.0


def _written_values(text: str) -> list[tuple[float, float]]:
    """Return the values that a number may have, each with its last place: "1.200" is 1.2 or 1200."""
    parts = _POINT.split(_GROUPING.sub("", text)[: 2 * _MAX_DIGITS])
    signs = _POINT.findall(text)[: len(parts) - 1]
    grouped = len(parts[0]) <= 3 and all(len(part) == 3 for part in parts[1:])
    found = []
    if not signs or (len(set(signs)) == 1 and grouped) or (len(signs) > 1 and set(signs) == {","}):
        found.append(_integer("".join(parts)))
    if len(signs) == 1 or (len(signs) > 1 and len(set(signs[:-1])) == 1 and signs[-1] != signs[0]):
        decimals = parts[-1]
        found.append((float(f"{''.join(parts[:-1])}.{decimals}"), 10.0 ** -len(decimals)))
    return found or [(float("".join(parts)), 1.0)]


def _integer(digits: str) -> tuple[float, float]:
    zeros = len(digits) - len(digits.rstrip("0"))
    return float(digits), 10.0**zeros if zeros >= 3 and digits.strip("0") else 1.0
