"""Agreement of a judge with people beyond chance. Pure.

Kappa is 1 minus the observed disagreement divided by the expected one, if judge and people chose with the
same frequencies but independently. For labels, and true and false, it is Cohen's: each disagreement counts 1.
For numbers a disagreement is the squared distance (Cohen 1968); for non-integers that is Lin's concordance
coefficient. 1: always the same; 0: as by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of one evaluator with people.

    Args:
        metric: The metric.
        fingerprint: The evaluator; evaluators are never mixed.
        selection: How its verdicts were selected; only "random" represents all of them.
        labels: Number of labels of scored verdicts, each person's latest.
        same: Number of labels equal to the judge's score.
        kappa: From -1 to 1; None if all values are equal or there are none.
    """

    metric: str
    fingerprint: str
    selection: str
    labels: int
    same: int
    kappa: float | None


def agreements(labels: Iterable[Mapping[str, Any]]) -> list[Agreement]:
    """Compare labels with their verdicts.

    Args:
        labels: The topic's labels, oldest first.
    """
    latest = {(one["result_id"], one["who"]): one for one in labels}
    groups: dict[tuple[str, str, str], list[tuple[Any, Any]]] = {}
    for one in latest.values():
        if one["score"] is None or one["judge_score"] is None:
            continue
        key = (one["metric"], one["fingerprint"] or "", one["selection"]["kind"])
        groups.setdefault(key, []).append((_said(one, ""), _said(one, "judge_")))
    return [
        Agreement(*key, len(pairs), sum(human == judge for human, judge in pairs), kappa(pairs))
        for key, pairs in sorted(groups.items())
    ]


def _said(label: Mapping[str, Any], who: str) -> Any:
    value = label.get(f"{who}value")
    return label[f"{who}score"] if value is None else str(value) if isinstance(value, bool) else value


def kappa(pairs: Sequence[tuple[Any, Any]]) -> float | None:
    """Return the agreement of two raters, corrected for chance.

    Args:
        pairs: Both choices: numbers, compared by distance, or names, compared by equality.
    """
    if not pairs:
        return None
    if any(isinstance(one, str) for pair in pairs for one in pair):
        observed = fmean(one != other for one, other in pairs)
        first, second = (Counter(pair[place] for pair in pairs) for place in (0, 1))
        expected = 1 - sum(count * second[name] for name, count in first.items()) / len(pairs) ** 2
    else:
        observed = fmean((one - other) ** 2 for one, other in pairs)
        first_, second_ = ([pair[place] for pair in pairs] for place in (0, 1))
        squares = fmean(one**2 for one in first_) + fmean(one**2 for one in second_)
        expected = squares - 2 * fmean(first_) * fmean(second_)
    return None if expected <= 0 else 1 - observed / expected
