# ruff: noqa: RUF001 - words of several languages, some of whose letters look alike
"""Parse dates in six languages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judge.text.contradictions.reading import Token, fold

FIRST_YEAR, LAST_YEAR = 1000, 2100
"""Four-digit numbers in this range are years."""

_MONTHS = """
    january jan januar jänner janvier enero ocak يناير
    february feb februar février fevrier febrero şubat subat فبراير
    march mar märz maerz mars marzo mart مارس
    april apr avril abril nisan أبريل ابريل
    may mai mayo mayıs مايو
    june jun juni juin junio haziran يونيو
    july jul juli juillet julio temmuz يوليو
    august aug août aout agosto ağustos أغسطس اغسطس
    september sep sept septembre septiembre eylül سبتمبر
    october oct oktober octobre octubre ekim أكتوبر اكتوبر
    november nov novembre noviembre kasım نوفمبر
    december dec dezember décembre diciembre aralık ديسمبر
"""
MONTHS: Mapping[str, int] = {
    fold(name): number for number, line in enumerate(_MONTHS.strip().splitlines(), 1) for name in line.split()
}
_AMBIGUOUS_MONTHS = frozenset({"may", "mar", "mart", "mars", "march", "jan", "sept", "mai", "ekim", "juli"})
"""Also other words or names: months only beside a number."""
_BETWEEN = frozenset({"of", "de", "del", "du", ",", ".", "the", "le", "el"})
_ORDINAL = frozenset({"st", "nd", "rd", "th", "er", "º", "o"})


@dataclass(frozen=True, slots=True)
class Date:
    """A full or partial date; ambiguous numeric dates have two readings."""

    year: int | None
    month: int | None
    day: int | None
    other: tuple[int, int] | None = None
    """Month and day in the other reading."""

    def differs(self, other: Date) -> bool:
        """Return whether a part that both have differs, in every reading."""
        if self.year is not None and other.year is not None and self.year % 100 != other.year % 100:
            return True
        if self.year is not None and other.year is not None and min(self.year, other.year) > 99:  # noqa: SIM102 - two digits may be of any century
            if self.year != other.year:
                return True
        return not any(
            (mine[0] is None or its[0] is None or mine[0] == its[0])
            and (mine[1] is None or its[1] is None or mine[1] == its[1])
            for mine in self._readings
            for its in other._readings
        )

    @property
    def _readings(self) -> Sequence[tuple[int | None, int | None]]:
        first = (self.month, self.day)
        return (first,) if self.other is None else (first, self.other)


def numeric_date(text: str) -> Date | None:
    """Parse 2019-03-12, 12.03.2019 or 03/12/2019; None if it is no date."""
    if "-" in text:
        year, month, day = map(int, text.split("-"))
        return Date(year, month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None
    one, two, year = map(int, text.replace("/", ".").split("."))
    if not (1 <= one <= 31 and 1 <= two <= 31):
        return None
    readings = [(month, day) for day, month in ((one, two), (two, one)) if month <= 12]
    if not readings:
        return None
    if "." in text and two <= 12:
        readings = readings[:1]  # with full stops the day always comes first
    return Date(year, *readings[0], readings[1] if len(readings) > 1 else None)


def date_at(row: Sequence[Token], place: int) -> tuple[Date, int] | None:
    """Parse a date with a month's name at a token.

    Returns:
        The date and the index of the token after it; None if there is no date.
    """
    if row[place].kind == "number":
        day = _small(row[place], 31)
        after = _past(row, place + 1, _ORDINAL, glued=True)
        after = _past(row, after, _BETWEEN)
        month = _month(row, after)
        if day is None or month is None:
            return None
        year, end = _year(row, after + 1)
        return Date(year, month, day), end
    month = _month(row, place)
    if month is None:
        return None
    after = _past(row, place + 1, {"the"})
    day = _small(row[after], 31) if after < len(row) else None
    if day is not None:
        end = _past(row, after + 1, _ORDINAL, glued=True)
        year, end = _year(row, end)
        return Date(year, month, day), end
    year, end = _year(row, place + 1)
    if year is None and row[place].text in _AMBIGUOUS_MONTHS:
        return None
    return Date(year, month, None), end


def _month(row: Sequence[Token], place: int) -> int | None:
    return MONTHS.get(row[place].text) if place < len(row) else None


def _small(token: Token, most: int) -> int | None:
    if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 2:
        return None
    return int(token.text) if 1 <= int(token.text) <= most else None


def _past(row: Sequence[Token], place: int, names: frozenset[str] | set[str], *, glued: bool = False) -> int:
    """Return the index after at most two consecutive tokens of the given names."""
    for _ in range(2):
        if place < len(row) and row[place].text in names and (row[place].glued or not glued):
            place += 1
    return place


def _year(row: Sequence[Token], place: int) -> tuple[int | None, int]:
    after = _past(row, place, _BETWEEN)
    if after < len(row) and is_year(row[after]):
        return int(row[after].text), after + 1
    return None, place


def is_year(token: Token) -> bool:
    """Return whether a number is written like a year."""
    return (
        token.kind == "number"
        and len(token.text) == 4
        and token.text.isdecimal()
        and FIRST_YEAR <= int(token.text) <= LAST_YEAR
    )
