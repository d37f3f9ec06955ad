"""Finds the causes of a mean's fall: a label value, a change of the mix, or the whole traffic. Pure.

The fall of a weighted mean between two periods is split, for one label, into the changes *within* its values
and the effect of the values' shares (Kitagawa, "Components of a difference between two rates", JASA
1955; known as Oaxaca-Blinder):

    mean before - mean after = sum over v of s(v) (before(v) - after(v))
                               + sum over v of (share before - share after)(v) m(v)

s(v) and m(v) are averages of the two periods. A value that is new or gone has no change within.

In order: a changed mix is named and taken out of the answers since, by weights that restore the earlier
shares. Then the value that fell most clearly beyond the rest is named, or the part of it that explains its
fall, and its answers are removed; and so on. A product that replaced all others has nothing beside it to be
compared with: it is named only if no other label explains the fall, as "at the same time".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist, fmean
from typing import Final, Literal

from streams.store.views.parts import FEWEST, LEFT_OVER, JudgedAnswer, Part, Table, sums_of, variance_of

MAX_CAUSES: Final = 3
CHANCE: Final = 0.01
"""Significance level for naming a value, over all values tested."""
LEAST_REST: Final = 0.3
"""Minimum share of the whole fall for which the rest of the traffic is named, besides a named value."""
EXPLAINS: Final = 0.6
"""Share of a fall that a part must explain to be named in place of the whole."""
CROSSING: Final = " x "
_Z95: Final = NormalDist().inv_cdf(0.975)

Kind = Literal["within", "new", "mix", "all"]
"""within: the answers with this value got worse; new: the product's value is new or took over; mix: their
share grew and they did not get worse; all: no value stands out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of a part of a fall.

    Its contribution in points has a 95% interval. `before` and `after` are means, None of too few answers;
    shares are of the traffic, 0 to 1. The whole traffic has no name.
    """

    kind: Kind
    name: str = ""
    value: str = ""
    contribution: float
    low: float
    high: float
    before: float | None
    after: float | None
    share_before: float
    share_after: float
    where: tuple[tuple[str, str], ...] = ()
    """The label and value, or both of a crossing."""
    beside: bool = True
    """Whether other values run beside a new one; without them, it is new at the same time as the fall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A fall with its 95% interval, its causes, the largest first, and the points of each label's mix."""

    before: float | None
    after: float | None
    fall: float
    low: float
    high: float
    causes: tuple[Cause, ...]
    mix: Mapping[str, float]


def find_causes(
    before: Sequence[JudgedAnswer],
    after: Sequence[JudgedAnswer],
    *,
    scale: tuple[float, float],
    product_labels: Collection[str] = (),
) -> Fall:
    """Return the causes of the fall between two sets of answers."""
    width = scale[1] - scale[0]
    whole = Part(sums_of(before), sums_of(after), width)
    names = sorted({name for answer in (*before, *after) for name in answer.labels})
    tables = [Table(name, before, after, width) for name in names]
    causes: list[Cause] = []
    rest, left = list(after), whole
    while left.fall > LEFT_OVER * left.error and len(causes) < MAX_CAUSES:
        mixed = _mixed([Table(name, before, rest, width) for name in names], whole.fall, product_labels)
        if mixed is None or any(cause.name == mixed[1].name for cause in causes):
            break
        causes.append(mixed[1])
        rest = _restored(mixed[0], rest)
        left = Part(sums_of(before), sums_of(rest), width)
    if not causes or left.fall > LEFT_OVER * left.error:
        causes += _within(before, rest, names, left, product_labels)[: MAX_CAUSES - len(causes)]
    return Fall(
        before=whole.before.mean,
        after=whole.after.mean,
        fall=whole.fall,
        low=whole.fall - _Z95 * whole.error,
        high=whole.fall + _Z95 * whole.error,
        causes=tuple(causes),
        mix={table.name: table.mix for table in tables},
    )


def _mixed(
    tables: Iterable[Table], fall: float, product_labels: Collection[str]
) -> tuple[Table, Cause] | None:
    """Return the label whose values' changed shares explain most of the fall; None without a clear one."""
    found: list[tuple[float, Table, Cause]] = []
    for table in tables:
        if table.name in product_labels:
            continue  # changed shares of products are a change of the product
        mix, error = table.mix, table.mix_error
        grown = [value for value in table.values if table.shares(value)[1] > table.shares(value)[0]]
        if grown and mix > LEFT_OVER * error and mix > LEAST_REST * fall:
            value = max(grown, key=lambda value: (table.mixed(value), value))
            found.append((mix, table, _cause("mix", table, value, mix, error)))
    return max(found, key=lambda one: one[0])[1:] if found else None


def _restored(table: Table, after: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """Return the answers since, weighted so that each value has its share from before."""
    shares = {value: table.shares(value) for value in table.values}
    kept = []
    for answer in after:
        share_before, share_after = shares[answer.labels.get(table.name, "")]
        if share_before > 0:
            kept.append(replace(answer, probability=answer.probability * share_after / share_before))
    return kept


def _within(
    before: Sequence[JudgedAnswer],
    after: Sequence[JudgedAnswer],
    names: Sequence[str],
    whole: Part,
    product_labels: Collection[str],
) -> list[Cause]:
    """Return the causes other than the mix; a product without others beside it only if nothing else fits."""
    replaced = [
        (table, value)
        for name in names
        if name in product_labels
        for table in [Table(name, before, after, whole.width)]
        for value in table.values
        if table.rolled_out(value) and table.rest(value).after.effective_count < FEWEST
    ]
    labels = [name for name in names if name not in {table.name for table, _ in replaced}]
    causes = _greedy(before, after, labels, whole, product_labels)
    explained = sum(cause.contribution for cause in causes if cause.kind != "all")
    if not replaced or not whole.fall > LEFT_OVER * whole.error or explained > EXPLAINS * whole.fall:
        return causes
    return [replace(_rolled_out(table, value)[2], beside=False) for table, value in replaced]


def _greedy(
    before: Sequence[JudgedAnswer],
    after: Sequence[JudgedAnswer],
    names: Sequence[str],
    whole: Part,
    product_labels: Collection[str],
) -> list[Cause]:
    """Repeatedly pick the value that fell most significantly beyond the rest, and remove its answers."""
    causes: list[Cause] = []
    size = len(after)
    while len(causes) < MAX_CAUSES and len(after) >= size / 20:
        tables = [Table(name, before, after, whole.width) for name in names]
        cause = _clearest(tables, product_labels)
        if cause is None:
            rest = Part(sums_of(before), sums_of(after), whole.width)
            share = rest.after.weight / (whole.after.weight or 1.0)
            is_large = not causes or share * rest.fall > LEAST_REST * whole.fall
            if rest.known and rest.fall > LEFT_OVER * rest.error and is_large:
                causes.append(_all(rest, share))
            break
        cause = _crossed(cause, before, after, names, whole, product_labels)
        causes.append(cause)
        # Of a crossing the whole value goes: what is left of it has another mix than the rest.
        name, value = cause.where[0]
        before, after = (
            [one for one in side if one.labels.get(name, "") != value] for side in (before, after)
        )
    return causes


def _crossed(
    cause: Cause,
    before: Sequence[JudgedAnswer],
    after: Sequence[JudgedAnswer],
    names: Sequence[str],
    whole: Part,
    product_labels: Collection[str],
) -> Cause:
    """Return the crossing with another label's value that explains most of a value's fall, or the value."""
    inside = [one for one in after if _has(one, cause)]
    # A new value has no answers before: its parts are compared with those of the values that it replaces.
    usual = before if cause.kind == "new" else [one for one in before if _has(one, cause)]
    tables = [Table(name, usual, inside, whole.width) for name in names if name != cause.name]
    part = _clearest([table for table in tables if len(table.values) > 1], product_labels)
    fall = Part(sums_of(usual), sums_of(inside), whole.width).fall
    if part is None or part.kind != "within" or part.contribution <= EXPLAINS * fall:
        return cause
    name, value = f"{cause.name}{CROSSING}{part.name}", f"{cause.value}{CROSSING}{part.value}"
    share_before, share_after = cause.share_before * part.share_before, cause.share_after * part.share_after
    scale = cause.contribution / (fall or 1.0)
    return replace(
        part,
        kind=cause.kind,
        name=name,
        value=value,
        where=cause.where + part.where,
        contribution=part.contribution * scale,
        low=part.low * scale,
        high=part.high * scale,
        share_before=share_before,
        share_after=share_after,
    )


def _has(answer: JudgedAnswer, cause: Cause) -> bool:
    return all(answer.labels.get(name, "") == value for name, value in cause.where)


def _clearest(tables: Sequence[Table], product_labels: Collection[str]) -> Cause | None:
    """Return the value that fell furthest beyond the rest, in standard errors; new products come first."""
    tested = max(sum(len(table.values) for table in tables), 1)
    limit = NormalDist().inv_cdf(1 - CHANCE / tested)
    found = [
        candidate
        for table in tables
        for value in table.values
        if (candidate := _candidate(table, value, is_product=table.name in product_labels)) is not None
        and candidate[1] >= limit
    ]
    return max(found, key=lambda one: one[:2])[2] if found else None


def _candidate(table: Table, value: str, *, is_product: bool) -> tuple[bool, float, Cause] | None:
    """Return whether a value is a new product, how far it fell beyond the rest, and the cause."""
    part, rest = table.part(value), table.rest(value)
    if part.after.effective_count < FEWEST:
        return None
    if is_product and table.rolled_out(value):
        return _rolled_out(table, value)
    if part.before.effective_count < FEWEST or not rest.known:
        return None  # nothing to compare it with
    distance = (part.fall - rest.fall) / sqrt(part.error**2 + rest.error**2)
    share = fmean(table.shares(value))
    return False, distance, _cause("within", table, value, share * part.fall, share * part.error)


def _rolled_out(table: Table, value: str) -> tuple[bool, float, Cause]:
    """Compare a new value with the other ones before and since."""
    part, rest, width = table.part(value), table.rest(value), table.whole.width
    usual = rest.before if rest.before.effective_count >= FEWEST else table.whole.before
    fell = Part(usual, part.after, width)
    excess, variance = fell.fall, fell.error**2
    if rest.after.effective_count >= FEWEST:
        excess -= Part(usual, rest.after, width).fall
        variance = variance_of(part.after, width) + variance_of(rest.after, width)
    share_before, share_after = table.shares(value)
    gained = share_after - share_before
    return True, excess / sqrt(variance), _cause("new", table, value, gained * fell.fall, gained * fell.error)


def _cause(kind: Kind, table: Table, value: str, contribution: float, error: float) -> Cause:
    part, (share_before, share_after) = table.part(value), table.shares(value)
    return Cause(
        kind=kind,
        name=table.name,
        value=value,
        where=((table.name, value),),
        contribution=contribution,
        low=contribution - _Z95 * error,
        high=contribution + _Z95 * error,
        before=part.before.mean,
        after=part.after.mean,
        share_before=share_before,
        share_after=share_after,
    )


def _all(rest: Part, share: float) -> Cause:
    return Cause(
        kind="all",
        contribution=rest.fall,
        low=rest.fall - _Z95 * rest.error,
        high=rest.fall + _Z95 * rest.error,
        before=rest.before.mean,
        after=rest.after.mean,
        share_before=share,
        share_after=share,
    )
