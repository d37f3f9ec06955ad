"""Finds the causes of a mean's fall: a label value, a change of the mix, or the whole traffic. Pure.

The fall of a weighted mean between two periods is split, for one label, into the changes *within* its values
and the effect of the values' shares (Kitagawa, "Components of a difference between two rates", JASA
1955; known as Oaxaca-Blinder):

    mean before - mean after = sum over v of s(v) (before(v) - after(v))
                               + sum over v of (share before - share after)(v) m(v)

s(v) and m(v) are averages of the two periods. A value that is new or gone has no change within.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Final, Literal

from streams.store.views.incidents.table import FEWEST, LEFT_OVER, Answer, Pair, Table, sums, variance_of

MAX_CAUSES: Final = 3
CHANCE: Final = 0.01
"""Significance level for naming a value, over all values tested."""
LEAST_REST: Final = 0.3
"""Minimum share of the whole fall for which the rest of the traffic is named, besides a named value."""
MIX_SHARE: Final = 0.6
"""Share of a fall that the mix must explain to be reported as its cause."""
_Z95: Final = NormalDist().inv_cdf(0.975)

Kind = Literal["within", "new", "mix", "all"]
"""within: the answers with this value got worse; new: the product's value is new or took over; mix: their
share grew and they did not get worse; all: no value stands out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of a part of a fall.

    Attributes:
        kind: The kind of cause.
        name: The label; empty for the whole traffic.
        value: Its value.
        contribution: Points of the fall that it explains.
        low: Lower end of the 95% interval of the contribution.
        high: Its upper end.
        before: Mean of these answers before; None if there were too few.
        after: Mean of these answers after.
        share_before: Their share of the traffic before, 0 to 1.
        share_after: Their share after.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fall and its causes.

    Attributes:
        before: Mean before.
        after: Mean after.
        fall: Points; negative if the mean rose.
        low: Lower end of its 95% interval.
        high: Its upper end.
        causes: The largest first; empty if there was no significant fall.
        mix: For each label, the points caused by changed shares of its values.
    """

    before: float | None
    after: float | None
    fall: float
    low: float
    high: float
    causes: tuple[Cause, ...]
    mix: Mapping[str, float]


def find_causes(
    before: Sequence[Answer],
    after: Sequence[Answer],
    *,
    scale: tuple[float, float],
    product_labels: Collection[str] = (),
) -> Finding:
    """Return the causes of the fall between two sets of answers.

    Args:
        before: Judged answers from before the fall.
        after: Judged answers since.
        scale: Lowest and highest score.
        product_labels: Labels that identify the answering product (a model, a prompt's version): a new value
            is a change of the product, for other labels a change of the mix.
    """
    pair = Pair(sums(before), sums(after), scale[1] - scale[0])
    fall, error = pair.fall, pair.error
    names = sorted({name for answer in (*before, *after) for name in answer.labels})
    tables = {name: Table(name, before, after, scale[1] - scale[0]) for name in names}
    mixed = _mix(tables.values(), product_labels) if fall > LEFT_OVER * error else None
    causes = (
        [mixed] if mixed is not None else _greedy(before, after, names, scale[1] - scale[0], product_labels)
    )
    return Finding(
        before=pair.before.mean,
        after=pair.after.mean,
        fall=fall,
        low=fall - _Z95 * error,
        high=fall + _Z95 * error,
        causes=tuple(causes),
        mix={name: table.mix for name, table in tables.items()},
    )


def _mix(tables: Iterable[Table], product_labels: Collection[str]) -> Cause | None:
    """Return the label whose values' shares explain the fall, if nothing within its values fell."""
    best: tuple[float, Cause] | None = None
    for table in tables:
        if table.name in product_labels:
            continue  # changed shares of products are a change of the product
        fall = (table.totals[0].mean or 0.0) - (table.totals[1].mean or 0.0)
        within, error = table.within
        if table.mix < MIX_SHARE * fall or within > max(LEFT_OVER * error, (1 - MIX_SHARE) * fall):
            continue
        grown = [(table.mixed(one), one) for one in table.values if table.grew(one)]
        if not grown:
            continue
        value = max(grown)[1]
        cause = _cause("mix", table, value, table.mix, error)
        if best is None or abs(within) < best[0]:
            best = (abs(within), cause)
    return None if best is None else best[1]


def _greedy(
    before: Sequence[Answer],
    after: Sequence[Answer],
    names: Sequence[str],
    width: float,
    product_labels: Collection[str],
) -> list[Cause]:
    """Repeatedly pick the value that fell most significantly beyond the rest, and remove its answers."""
    causes: list[Cause] = []
    size, whole = len(after), sums(after).weight or 1.0
    total = Pair(sums(before), sums(after), width).fall
    while len(causes) < MAX_CAUSES and len(after) >= size / 20:
        left = Pair(sums(before), sums(after), width)
        found = _clearest([Table(name, before, after, width) for name in names], product_labels)
        if found is None:
            share = left.after.weight / whole
            if (
                left.known
                and left.fall > LEFT_OVER * left.error
                and (not causes or share * left.fall > LEAST_REST * total)
            ):
                causes.append(_all(left, share=share))
            break
        causes.append(found)
        before = [one for one in before if one.labels.get(found.name, "") != found.value]
        after = [one for one in after if one.labels.get(found.name, "") != found.value]
    return causes


def _clearest(tables: Sequence[Table], product_labels: Collection[str]) -> Cause | None:
    tried = max(sum(len(table.values) for table in tables), 1)
    limit = NormalDist().inv_cdf(1 - CHANCE / tried)
    best: tuple[tuple[bool, float], Cause] | None = None
    for table in tables:
        for value in table.values:
            scored = _scored(table, value, is_product=table.name in product_labels)
            if scored is None or scored[0][1] < limit:
                continue
            if best is None or scored[0] > best[0]:
                best = scored
    return None if best is None else best[1]


def _scored(table: Table, value: str, *, is_product: bool) -> tuple[tuple[bool, float], Cause] | None:
    """Return how far a value fell beyond the rest, in standard errors, and the cause.

    New values of the product rank first.
    """
    pair, rest = table.pair(value), table.rest(value)
    if pair.after.effective_count < FEWEST:
        return None
    if is_product and table.rolled_out(value):
        return _rolled_out(table, value)
    if pair.before.effective_count < FEWEST:
        return None
    excess, variance = pair.fall, pair.error**2
    if rest.known:
        excess, variance = pair.fall - rest.fall, variance + rest.error**2
    else:
        return None  # nothing to compare it with: it is the whole traffic
    share = sum(table.shares(value)) / 2
    return (False, excess / sqrt(variance)), _cause(
        "within", table, value, share * pair.fall, share * pair.error
    )


def _rolled_out(table: Table, value: str) -> tuple[tuple[bool, float], Cause]:
    """Compare a new value with the other ones before and since."""
    pair, rest = table.pair(value), table.rest(value)
    usual = rest.before if rest.before.effective_count >= FEWEST else table.totals[0]
    fell, beside = Pair(usual, pair.after, pair.width), Pair(usual, rest.after, pair.width)
    excess, variance = fell.fall, fell.error**2
    if rest.after.effective_count >= FEWEST:
        excess -= beside.fall
        variance = variance_of(pair.after, pair.width) + variance_of(rest.after, pair.width)
    share_before, share_after = table.shares(value)
    gained = share_after - share_before
    return (True, excess / sqrt(variance)), _cause(
        "new", table, value, gained * fell.fall, gained * fell.error
    )


def _cause(kind: Kind, table: Table, value: str, contribution: float, error: float) -> Cause:
    pair, (share_before, share_after) = table.pair(value), table.shares(value)
    return Cause(
        kind=kind,
        name=table.name,
        value=value,
        contribution=contribution,
        low=contribution - _Z95 * error,
        high=contribution + _Z95 * error,
        before=pair.before.mean,
        after=pair.after.mean,
        share_before=share_before,
        share_after=share_after,
    )


def _all(left: Pair, *, share: float) -> Cause:
    return Cause(
        kind="all",
        contribution=left.fall,
        low=left.fall - _Z95 * left.error,
        high=left.fall + _Z95 * left.error,
        before=left.before.mean,
        after=left.after.mean,
        share_before=share,
        share_after=share,
    )
