# ruff: noqa: RUF001 - words of several languages, some of whose letters look alike
"""Parse the quantities of a sentence: magnitudes, units and hedges. Pure.

Ambiguous quantities (1.200, "5 m", "3 pounds") have several readings; two quantities differ only if no
readings agree (precision over recall).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from judge.text.contradictions.dates import MONTHS, Date, date_at, is_year, numeric_date
from judge.text.contradictions.numbers import SPELLED, written_values
from judge.text.contradictions.reading import Token, fold
from judge.text.contradictions.units import AMBIGUOUS, CURRENCY_SIGNS, MAGNITUDES, UNITS, Unit

Difference = Literal["number", "unit", "date"]
_UNITS: Mapping[str, Unit] = {fold(name): unit for name, unit in UNITS.items()}
_MAGNITUDES: Mapping[str, int] = {fold(name): value for name, value in MAGNITUDES.items()}
_POUNDS = (UNITS["lb"], UNITS["£"])

_ABOUT = frozenset(map(fold, ["about", "around", "approximately", "approx", "roughly", "nearly", "almost",
    "circa", "ca", "some", "c", "estimated", "etwa", "rund", "ungefähr", "zirka", "knapp", "fast", "gegen",
    "environ", "près", "presque", "autour", "aproximadamente", "unos", "unas", "casi", "cerca", "alrededor",
    "yaklaşık", "neredeyse", "civarında", "حوالي", "تقريبا", "نحو", "قرابة", "~", "≈", "±"]))  # fmt: skip
_BOUNDS = frozenset(map(fold, ["more", "over", "above", "least", "minimum", "min", "most", "maximum", "max",
    "up", "less", "under", "below", "fewer", "than", "within", "exceeding", "exceeds", "exceed", "upwards",
    "mehr", "mindestens", "über", "höchstens", "weniger", "bis", "unter", "maximal", "minimal", "plus",
    "moins", "dépasse", "jusqu'à", "jusqu", "más", "mas", "menos", "hasta", "máximo", "mínimo", "fazla", "az",
    "en", "kadar", "أكثر", "اكثر", "أقل", "اقل", "على", "الأقل", ">", "<", "≥", "≤", "+"]))  # fmt: skip
_ORDINALS = frozenset({"st", "nd", "rd", "th", "eme", "ere", "er", "e", "º", "ª", "."})
_JOINS = frozenset({"-", "to", "bis", "a", "ile", "and", "und", "et", "y", "ve", "الى"})
_NUMERIC = frozenset({"number", "date"})
_NAMED = MONTHS.keys() | SPELLED.keys()
_HEDGE_WORDS = 3


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a quantity: from `low` to `high` of a unit, exact to half of `step`."""

    low: Fraction
    high: Fraction
    step: Fraction
    unit: Unit | None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number or a date of a sentence."""

    place: int
    """Index of its first token."""
    end: int
    readings: tuple[Reading, ...] = ()
    date: Date | None = None
    hedge: Literal["", "about", "bound"] = ""
    ordinal: bool = False

    @property
    def dimensions(self) -> frozenset[str | None]:
        """Its possible dimensions."""
        return frozenset(None if one.unit is None else one.unit.dimension for one in self.readings)


def quantities(row: Sequence[Token]) -> list[Quantity]:
    """Return all quantities of a sentence, in order."""
    found: list[Quantity] = []
    place = 0
    while place < len(row):
        token = row[place]
        quantity = _at(row, place) if token.kind in _NUMERIC or token.text in _NAMED else None
        if quantity is None:
            place += 1
            continue
        found.append(quantity)
        place = quantity.end
    return _with_ranges(row, found)


def difference(one: Quantity, other: Quantity) -> Difference | Literal["same", "unknown"]:
    """Return whether two quantities agree, certainly differ (and how), or cannot be compared."""
    if one.date is not None and other.date is not None:
        return "date" if one.date.differs(other.date) else "same"
    if not one.readings or not other.readings or one.ordinal != other.ordinal:
        return "unknown"
    found: set[Difference | Literal["same", "unknown"]] = {
        _compared(mine, its, one, other) for mine in one.readings for its in other.readings
    }
    for verdict in ("same", "unit", "number"):
        if verdict in found:
            return verdict
    return "unknown"


def _compared(
    mine: Reading, its: Reading, one: Quantity, other: Quantity
) -> Literal["number", "unit", "same", "unknown"]:
    if mine.unit is None or its.unit is None:
        return _of_unit_and_none(mine, its, one, other)
    raw_equal = mine.low == its.low and mine.high == its.high
    if mine.unit is its.unit and (raw_equal or not mine.unit.offset):  # agreement does not depend on a factor
        return "same" if raw_equal or _agree(mine, its, one, other) else "number"
    if mine.unit.dimension != its.unit.dimension:
        # Equal numbers differ by their unit (500 mg, 500 ml); others may be a paraphrase (2 km, 3 h).
        return "unit" if raw_equal else "unknown"
    if _agree(_in_base(mine), _in_base(its), one, other):
        return "same"
    return "unit" if raw_equal else "number"


def _of_unit_and_none(
    mine: Reading, its: Reading, one: Quantity, other: Quantity
) -> Literal["number", "same", "unknown"]:
    if _agree(mine, its, one, other):
        return "same"
    if mine.unit is its.unit:
        return "number"
    return "unknown"


def _in_base(reading: Reading) -> Reading:
    unit = reading.unit
    if unit is None:
        return reading
    low, high = (value * unit.factor + unit.offset for value in (reading.low, reading.high))
    return Reading(low, high, reading.step * unit.factor, unit)


def _agree(mine: Reading, its: Reading, one: Quantity, other: Quantity) -> bool:
    """Return whether two readings overlap after rounding to the coarser one, with tolerance for hedges."""
    slack = max(mine.step, its.step) / 2
    if "about" in {one.hedge, other.hedge}:
        slack = max(slack, max(abs(mine.high), abs(its.high)) / 4)
    if one.hedge != other.hedge and "bound" in {one.hedge, other.hedge}:
        return True
    return mine.low - slack <= its.high and its.low - slack <= mine.high


def _at(row: Sequence[Token], place: int) -> Quantity | None:
    token = row[place]
    if token.kind == "date":
        date = numeric_date(token.text)
        return Quantity(place, place + 1, date=date) if date is not None else None
    if token.kind in {"number", "word"}:
        dated = date_at(row, place)
        if dated is not None:
            return Quantity(place, dated[1], date=dated[0])
    if token.kind == "number":
        return _number_at(row, place)
    if token.kind == "word" and token.text in SPELLED:
        return _spelled_at(row, place)
    return None


def _number_at(row: Sequence[Token], place: int) -> Quantity | None:
    token = row[place]
    values = written_values(token.text)
    if _is_negative(row, place):
        values = [(-value, step) for value, step in values]
    end = place + 1
    follower = row[end] if end < len(row) else None
    if follower is not None and follower.glued and follower.text == "s" and is_year(token):
        first = Fraction(int(token.text))
        return Quantity(place, end + 1, (Reading(first, first + 9, Fraction(0), None),), hedge="about")
    if follower is not None and follower.glued and follower.text in _ORDINALS - {"."}:
        return Quantity(
            place, end + 1, tuple(Reading(v, v, Fraction(0), None) for v, _ in values), ordinal=True
        )
    if follower is not None and follower.text == "." and _follows_ordinal(row, end + 1):
        return Quantity(place, end, tuple(Reading(v, v, Fraction(0), None) for v, _ in values), ordinal=True)
    if is_year(token) and not _has_unit(row, place, end):
        year = int(token.text)
        date = Date(year, None, None)
        return Quantity(
            place,
            end,
            (Reading(Fraction(year), Fraction(year), Fraction(1), None),),
            date,
            _hedge(row, place, end),
        )
    return _completed(row, place, end, values)


def _is_negative(row: Sequence[Token], place: int) -> bool:
    """Return whether a number has a minus sign, not a hyphen or a subtraction."""
    if not place:
        return False
    sign = row[place - 1]
    if sign.text == "minus":
        return place == 1 or row[place - 2].kind != "number"
    return sign.text == "-" and row[place].glued and (place == 1 or not sign.glued)


def _follows_ordinal(row: Sequence[Token], place: int) -> bool:
    """Return whether a full stop marks an ordinal, as in "19. Jahrhundert" (recognised by a unit of time)."""
    unit = _UNITS.get(row[place].text) if place < len(row) else None
    return unit is not None and unit.dimension == "months"


def _spelled_at(row: Sequence[Token], place: int) -> Quantity | None:
    value = SPELLED[row[place].text]
    end = place + 1
    if value >= 20 and value % 10 == 0:
        after = end + 1 if end < len(row) and row[end].text == "-" else end
        digit = SPELLED.get(row[after].text) if after < len(row) else None
        if digit is not None and 1 <= digit <= 9:
            value, end = value + digit, after + 1
    if row[place].text == "one" and not _has_unit(row, place, end):
        return None  # "one of them"
    return _completed(row, place, end, [(Fraction(value), Fraction(1))])


def _has_unit(row: Sequence[Token], place: int, end: int) -> bool:
    after = row[end].text if end < len(row) else ""
    before = row[place - 1].text if place else ""
    return after in _UNITS or after in _MAGNITUDES or before in CURRENCY_SIGNS


def _completed(
    row: Sequence[Token], place: int, end: int, values: list[tuple[Fraction, Fraction]]
) -> Quantity | None:
    """Return the number with the magnitudes and unit after it, or the currency before it."""
    for _ in range(3):
        if end >= len(row) or row[end].text not in _MAGNITUDES:
            break
        # "cent" is a hundred in French and a coin in English; after a number it is the coin unless more
        # follows.
        if row[end].text == "cent":
            break
        size = _MAGNITUDES[row[end].text]
        values = [(value * size, step * size) for value, step in values]
        end += 1
        if end < len(row) and row[end].text in {"de", "d'"}:
            end += 1
    readings = [Reading(value, value, step, None) for value, step in values]
    currency = _UNITS.get(row[place - 1].text) if place and row[place - 1].text in CURRENCY_SIGNS else None
    follower = row[end] if end < len(row) else None
    if follower is None:
        named: Sequence[Unit | None] = (currency,)
    else:
        named, end = _units_at(row, end, currency)
        if follower.glued and named == (None,) and follower.kind == "word" and end == place + 1:
            return None  # 5G, 3D: a name
    readings = [Reading(one.low, one.high, one.step, unit) for one in readings for unit in named]
    if follower is not None and follower.text in AMBIGUOUS:
        readings += [
            Reading(value * size, value * size, step * size, currency)
            for value, step in values
            for size in AMBIGUOUS[follower.text]
        ]
    return Quantity(place, end, tuple(readings), hedge=_hedge(row, place, end))


_OF_WORDS = {
    ("per", "cent"): "percent",
    ("por", "ciento"): "percent",
    ("por", "cien"): "percent",
    ("pour", "cent"): "percent",
    ("percentage", "point"): "pp",
    ("percentage", "points"): "pp",
    ("degrees", "celsius"): "celsius",
    ("degrees", "fahrenheit"): "fahrenheit",
    ("°", "c"): "°c",
    ("°", "f"): "°f",
}


def _units_at(row: Sequence[Token], end: int, currency: Unit | None) -> tuple[Sequence[Unit | None], int]:
    """Return the possible units at a token, and the index of the next token."""
    if currency is not None:
        return (currency,), end
    name, *following = (token.text for token in row[end : end + 3])
    rate = f"{name}/{following[1]}" if following[:1] == ["/"] and len(following) > 1 else ""
    if rate in _UNITS:
        return (_UNITS[rate],), end + 3
    of_words = _OF_WORDS.get((name, following[0])) if following else None
    if of_words is not None:
        return (_UNITS[of_words],), end + 2
    if name in {"pound", "pounds", "livre", "livres"}:
        return _POUNDS, end + 1
    unit = _UNITS.get(name)
    return ((unit,), end + 1) if unit is not None else ((None,), end)


def _hedge(row: Sequence[Token], place: int, end: int) -> Literal["", "about", "bound"]:
    around = [token.text for token in (*row[max(0, place - _HEDGE_WORDS) : place], *row[end : end + 3])]
    if any(word in _BOUNDS for word in around[: min(place, _HEDGE_WORDS)]) or around[
        min(place, _HEDGE_WORDS) :
    ][:1] == ["+"]:
        return "bound"
    if any(word in {"or", "oder", "ou", "o"} for word in around[min(place, _HEDGE_WORDS) :][:1]) and any(
        word in _BOUNDS for word in around[min(place, _HEDGE_WORDS) :]
    ):
        return "bound"
    return "about" if any(word in _ABOUT for word in around[: min(place, _HEDGE_WORDS)]) else ""


def _with_ranges(row: Sequence[Token], found: list[Quantity]) -> list[Quantity]:
    """Merge two numbers with "to" or a dash between them into a range."""
    joined: list[Quantity] = []
    for quantity in found:
        earlier = joined[-1] if joined else None
        if (
            earlier is not None
            and quantity.place - earlier.end == 1
            and row[earlier.end].text in _JOINS
            and (row[earlier.end].text not in {"and", "und", "et", "y", "ve"} or _between(row, earlier.place))
            and earlier.readings
            and quantity.readings
        ):
            joined[-1] = _range(earlier, quantity)
        else:
            joined.append(quantity)
    return joined


def _between(row: Sequence[Token], place: int) -> bool:
    return place > 0 and row[place - 1].text in {"between", "zwischen", "entre", "بين"}


def _range(first: Quantity, last: Quantity) -> Quantity:
    readings = tuple(
        Reading(min(one.low, other.low), max(one.high, other.high), max(one.step, other.step), unit)
        for one in first.readings
        for other in last.readings
        for unit in [other.unit or one.unit]
    )
    return Quantity(first.place, last.end, readings, None, first.hedge or last.hedge)
